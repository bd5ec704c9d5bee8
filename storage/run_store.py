"""The run store: one folder per run, named by the content of its configuration.

``runs/ID/`` holds ``config.yaml``, ``environment.json``, ``metrics.json`` (with ``status``), ``history.csv``,
``predictions.csv`` and ``checkpoints/``. Every file appears whole or not at all (`storage.files`).
"""

from __future__ import annotations

import csv
import difflib
import errno
import io
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from storage.errors import ReportError
from storage.files import expanded, file_sha256, write_errors, write_text
from storage.plain_yaml import load_yaml
from storage.tables import MAX_FIELD, csv_writer

# what a line begins with that does one of the tasks, in a checkout or as installed
COMMAND = "kontrast run" if Path(__file__).resolve().parents[1].name == "_rooms" else "python run.py"
QUESTION = "question.json"  # what was asked of `task=auto`, in the folder of its answer
DATA = "data.json"  # what it read
LAST = "last"  # the name of the run that finished last
LOCK_NAME = ".lock"
CHECKSUMS = "SHA256SUMS"
WEIGHTS = ("checkpoints/*.ckpt", "model.npz")
MAY_DIFFER = ("seconds", "peak_memory_mib", "peak_gpu_memory_mib", "samples_per_second")  # of two equal runs
FIGURES = ("test/", "val/", "train/", "cluster/", "seconds/", "active/", "oracle/", "orders/")  # each a number, or null
COUNTED = {  # tables of numbers that reports read -> their columns of whole numbers
    "history.csv": ("epoch",),
    "gradient_conflict.csv": ("epoch", "class", "pairs", "conflicts"),
}
REPEAT = "the file is damaged: copy the folder again, or repeat the run with force=true"


def may_differ(name: str) -> bool:
    """Whether a figure of ``metrics.json`` is a time or a use of memory, which no two runs of one command share."""
    return name.startswith(MAY_DIFFER)


def csv_text(rows: Iterable[Sequence[Any]], header: Sequence[str]) -> str:
    """Rows as CSV text with a header line and ``\\n`` line ends."""
    buffer = io.StringIO()
    writer = csv_writer(buffer)
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue()


def _plain(value: Any) -> Any:
    """JSON has no NaN and knows no NumPy scalar: the first becomes null, the second a Python number."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    raise TypeError(f"not a JSON value: {type(value).__name__}")


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


class RunFolder:
    """One run's folder. Reading needs no lock; whoever writes works inside `lock`.

    With ``writes=False`` its methods write nothing: of several processes of one run the first alone does.

    No dataclass on purpose: Hydra's `instantiate` would turn one that it is given into a config node.
    """

    def __init__(self, path: Path | str, writes: bool = True) -> None:
        self.path, self.writes = Path(path), writes

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def last_checkpoint(self) -> Path:
        """Of an unfinished run: the state after a whole epoch, the last one that was written."""
        return self.checkpoints / "last.ckpt"

    @property
    def status(self) -> str:
        """``new``, ``running``, ``finished``, ``failed`` or ``interrupted``.

        A run that says ``running`` while no process holds its lock was killed, and is ``interrupted``.
        """
        status = str(self.read_metrics().get("status", "new"))
        return "interrupted" if status == "running" and not self.is_locked() else status

    def read_metrics(self) -> dict[str, Any]:
        """Content of ``metrics.json``, empty before the run's first write. Raises ReportError where it is no object."""
        return self._an_object("metrics.json", self.read_json) if (self.path / "metrics.json").exists() else {}

    def metric(self, name: str, kind: type | tuple[type, ...], items: type | tuple[type, ...] = object) -> Any:
        """One value of ``metrics.json`` that the run cannot be used without.

        Args:
            name: its key.
            kind: what it must be; a bool is no number.
            items: what its items must be, where it is a list.

        Raises:
            ReportError: the value is missing or of another kind.
        """
        value = self.read_metrics().get(name)
        fits = isinstance(value, kind) and not isinstance(value, bool)
        if fits and isinstance(value, list):
            fits = bool(value) and all(isinstance(item, items) and not isinstance(item, bool) for item in value)
        if not fits:
            shown = "nothing" if value is None else repr(value)[:60]
            where = f"run {self.id}: metrics.json: {name}"
            raise ReportError(f"{where}: found {shown}; the file is damaged or of another run")
        return value

    def check(self) -> None:
        """Hold what reports read of a finished run against what a run writes. Raises ReportError: it is damaged."""
        self.metric("seed", int)
        metrics, config = self.read_metrics(), self.read_config()
        for name in ("method", "dataset"):
            if name in metrics:
                self.metric(name, str)
            if not isinstance(config.get(name, {}), dict):
                raise ReportError(f"run {self.id}: config.yaml: {name}: found no keys with values; {REPEAT}")
        for name, value in metrics.items():
            if name.startswith(FIGURES) and value is not None:
                self.metric(name, (int, float))
        for name, kind in (("label_names", str), ("class_counts", int)):
            if name in metrics:
                self.metric(name, list, kind)
        for name, whole in COUNTED.items():
            if self.has(name):
                self._check_numbers(name, whole, len(metrics.get("class_counts") or ()))

    def _check_numbers(self, name: str, whole: Sequence[str], num_classes: int) -> None:
        rows = self.read_csv(name, *whole)
        if not rows:
            raise ReportError(f"run {self.id}: {name}: no rows; {REPEAT}")
        numbers = [column for column in rows[0] if column in (*whole, "ratio") or "/" in column]
        for number, row in enumerate(rows, 2):
            try:
                for column in numbers:
                    text = row[column]
                    value = int(text) if column in whole else float(text or 0)
                    if column == "class" and not 0 <= value < num_classes:
                        raise ValueError
            except ValueError:
                problem = f"{name}:{number}: {column}: found {text[:60]!r}"
                raise ReportError(f"run {self.id}: {problem}; allowed: numbers ({REPEAT})") from None

    def _an_object(self, name: str, read: Callable[[str], Any]) -> dict[str, Any]:
        content = read(name)
        if not isinstance(content, dict):
            kind = type(content).__name__
            raise ReportError(f"run {self.id}: {name}: found {kind}; allowed: keys with values (the file is damaged)")
        return content

    def write_metrics(self, metrics: Mapping[str, Any] | None = None, /, **more: Any) -> dict[str, Any]:
        """Merge values into ``metrics.json``; NaN and infinity become null. Returns the merged content."""
        merged = {**self.read_metrics(), **(metrics or {}), **more}
        self.write_json("metrics.json", merged)
        return merged

    def finish(self, metrics: Mapping[str, Any]) -> None:
        """Record the run as finished, and only then let go of the state that an unfinished one goes on from."""
        self._write_checksums()
        self.write_metrics(metrics, status="finished")
        self.drop_last_checkpoint()

    def _write_checksums(self) -> None:
        """``SHA256SUMS`` of the weights, in the format of ``sha256sum --check``."""
        files = [file for pattern in WEIGHTS for file in sorted(self.path.glob(pattern))]
        weights = [file for file in files if file != self.last_checkpoint]
        lines = [f"{file_sha256(file)}  {file.relative_to(self.path)}\n" for file in weights if self.writes]
        if lines:
            self.write_text(CHECKSUMS, "".join(lines))

    def check_weights(self, name: str) -> Path:
        """The path of a file of weights, unless it is not what the finished run wrote.

        A run without checksums (it is not finished, or an older version finished it) is taken as it is.

        Raises:
            ReportError: the file's checksum differs from the one in ``SHA256SUMS``.
        """
        file = self.path / name
        sums = self.path / CHECKSUMS
        if sums.is_file() and file.is_file():
            lines = (line.partition("  ") for line in sums.read_text().splitlines())
            recorded = {file_name: digest for digest, _, file_name in lines}
            if recorded.get(name, "") != file_sha256(file):
                raise ReportError(f"{file}: found other bytes than the run wrote ({CHECKSUMS}); {REPEAT}")
        return file

    def drop_last_checkpoint(self) -> None:
        """Remove ``checkpoints/last.ckpt``: a finished run keeps the selected epoch only."""
        last = self.last_checkpoint
        if self.writes and last.exists():
            last.unlink(missing_ok=True)

    def read_config(self) -> dict[str, Any]:
        """The resolved config that the run was started with.

        Raises:
            ReportError: the run has none, or the file is no YAML of plain keys and values without aliases.
        """
        return self._an_object("config.yaml", self._read_yaml)

    def _read_yaml(self, name: str) -> Any:
        try:
            content = load_yaml((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ReportError(f"run {self.id}: {name} cannot be read ({first_line(error)})") from error
        if "${" in str(content):  # a run writes its config resolved
            raise ReportError(f"run {self.id}: {name}: found an interpolation, ${{…}}; allowed: plain values")
        return content

    def read_json(self, name: str) -> Any:
        try:
            return json.loads((self.path / name).read_text())
        except (OSError, ValueError, RecursionError) as error:
            raise ReportError(f"run {self.id}: {name} cannot be read ({first_line(error)})") from error

    def read_csv(self, name: str, *needed: str) -> list[dict[str, str]]:
        """Rows of a CSV file by column name.

        Raises:
            ReportError: it cannot be read, lacks a column of `needed`, or has a row of more or fewer fields.
        """
        csv.field_size_limit(MAX_FIELD)
        try:
            with open(self.path / name, newline="", encoding="utf-8") as file:
                reader = csv.DictReader(file, strict=True)
                rows, columns = list(reader), reader.fieldnames or ()
        except (OSError, ValueError, csv.Error) as error:
            raise ReportError(f"run {self.id}: {name} cannot be read ({first_line(error)})") from error
        for column in (column for column in needed if column not in columns):
            raise ReportError(f"run {self.id}: {name}:1: no column {column}; {REPEAT}")
        for number, row in enumerate(rows, 1):
            if None in row or None in row.values():
                raise ReportError(f"run {self.id}: {name}: row {number} is not as wide as the header; {REPEAT}")
        return rows

    def has(self, name: str) -> bool:
        """Whether the run has written this file."""
        return (self.path / name).exists()

    def write_text(self, name: str, text: str) -> None:
        if self.writes:
            write_text(self.path / name, text)

    def write_json(self, name: str, content: Any) -> None:
        self.write_text(name, json.dumps(_plain(content), indent=2, allow_nan=False) + "\n")

    def write_csv(self, name: str, rows: Iterable[Sequence[Any]], header: Sequence[str]) -> None:
        self.write_text(name, csv_text(rows, header))

    def is_locked(self) -> bool:
        """Whether a process, this one included, works on the run now."""
        from filelock import FileLock, Timeout

        if not (self.path / LOCK_NAME).exists():
            return False
        try:
            with FileLock(self.path / LOCK_NAME, timeout=0):
                return False
        except Timeout:
            return True
        except PermissionError:  # of another person, whose processes cannot be asked
            return True
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            return False  # nobody works from here on what nobody can write to

    @contextmanager
    def lock(self, wait: bool | float = True, say: Callable[[str], None] = _say) -> Iterator[RunFolder]:
        """Hold the run for this process; a killed process loses its hold by itself.

        While another process holds it, ``wait=True`` says so once and waits, and the caller then looks at `status`
        again, since the other may have finished the run; a number is of seconds. Temporary files of a killed process
        are removed. A finished run in a store that cannot be written to needs no hold.

        Raises:
            ReportError: another process holds it still, with ``wait=False`` or a number; or the folder of a run that is
                not finished cannot be written to.
        """
        from filelock import FileLock, Timeout

        try:
            with write_errors(self.path / LOCK_NAME):
                self.path.mkdir(parents=True, exist_ok=True)
                lock = FileLock(self.path / LOCK_NAME)
                lock.acquire(timeout=0 if wait is True else float(wait))
        except Timeout:
            if wait is not True:
                raise ReportError(f"run {self.id}: another process is working on it") from None
            say(f"run {self.id}: another process is working on it, waiting until it is done")
            lock.acquire()
        except ReportError:
            if self.status != "finished":
                raise
            yield self  # in a store that cannot be written to a finished run can still be shown
            return
        try:
            self._remove_leftovers()
            yield self
        finally:
            lock.release()

    def clear(self) -> None:
        """Remove all that the run has written, for a run that is repeated by force. Call it inside `lock`."""
        for entry in self.path.iterdir():
            if entry.name == LOCK_NAME:
                continue
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()

    def _remove_leftovers(self) -> None:
        for leftover in self.path.rglob(".*.tmp"):
            leftover.unlink(missing_ok=True)


def first_line(error: BaseException) -> str:
    """The first line of an error's message that says something; the error's type where none does."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


@contextmanager
def damage_named(run: RunFolder) -> Iterator[None]:
    """While the block shows what a finished run wrote, a value that is missing or of another kind is a ReportError."""
    try:
        yield
    except ReportError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        problem = first_line(error)[:200]
        raise ReportError(f"run {run.id}: its files lack what a run writes ({problem}); {REPEAT}") from error


def list_runs(runs_dir: Path | str) -> list[RunFolder]:
    """All runs of a run store, by id, without the answers of `task=auto`; a store that does not exist holds none."""
    return [run for run in _folders(runs_dir) if not run.has(QUESTION)]


def list_answers(runs_dir: Path | str) -> list[RunFolder]:
    """The answers of `task=auto` in a run store, by id."""
    return [run for run in _folders(runs_dir) if run.has(QUESTION)]


def _folders(runs_dir: Path | str) -> list[RunFolder]:
    return [RunFolder(file.parent) for file in sorted(Path(runs_dir).glob("*/metrics.json"))]


def find_run(runs_dir: Path | str, name: str | Path, key: str = "run") -> RunFolder:
    """The run with this id, this unique beginning of an id, or this folder; ``last`` is the one that finished last.

    Args:
        runs_dir: the run store.
        name: what was typed.
        key: the option that it was typed for.

    Raises:
        ReportError: no run or several runs match; the line lists the nearest ids.
    """
    folder = expanded(name)
    if os.path.isfile(folder / "metrics.json"):  # unlike Path.is_file it takes a name of any length
        return RunFolder(folder.resolve())  # `.` and a link have names that are no id
    name = str(name).rstrip("/") or str(name)
    if name == LAST:
        return _last_finished(runs_dir, key)
    ids = [run.id for run in _folders(runs_dir)]
    matches = [name] if name in ids else [id_ for id_ in ids if name and id_.startswith(name)]
    if len(matches) == 1:
        return RunFolder(Path(runs_dir) / matches[0])
    if matches:
        raise ReportError(f"{key}={name}: {len(matches)} runs begin so: {', '.join(matches[:5])}")
    if not ids:
        raise ReportError(f"{key}={name}: no such run, {runs_dir} holds none yet")
    nearest = difflib.get_close_matches(Path(name).name, ids, n=3, cutoff=0.0)
    raise ReportError(f"{key}={name}: no such run in {runs_dir}; nearest: {', '.join(nearest)}")


def _last_finished(runs_dir: Path | str, key: str) -> RunFolder:
    runs = sorted(_folders(runs_dir), key=lambda run: (run.path / "metrics.json").stat().st_mtime)
    for run in reversed(runs):
        if run.status == "finished":
            return run
    raise ReportError(f"{key}={LAST}: {runs_dir} holds no finished run")
