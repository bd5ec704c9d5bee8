"""Records: finished runs without their weights, as a few tables that are small enough for version control.

    python -m storage.records RUNS FOLDER    add the finished runs of a run store
    python -m storage.records FOLDER         join the shards of a folder into one

A shard holds ``runs`` (JSON Lines: each environment once, then a line a run: id, config, metrics, environment), and as
Parquet ``history``, ``curve``, ``gradient_conflict`` and ``predictions`` (of test rows, without their texts), the rows
of each with their ``run``. Files are named by content and never edited, so two people who add runs never conflict; of
two records of one run the later counts. Everything that reads a run store reads such a folder too (`read_store`).
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storage.errors import ReportError
from storage.files import hold_folder, replacing
from storage.run_store import RunFolder, first_line, list_runs

if TYPE_CHECKING:
    import pyarrow as pa

TABLES = ("history", "curve", "gradient_conflict", "predictions")  # each NAME.csv in a run's folder
TEXT_COLUMNS = ("split", "label", "prediction", "cluster", "run")  # labels may look like numbers
LEFT_OUT = ("text", "answer")  # columns that hold what people wrote
MAX_SHARDS = 4  # before the smaller ones are joined
Line = dict[str, Any]


@dataclass
class Shard:
    """Records in memory: lines by id, environments by digest, and tables with a column `run`, sorted by it."""

    lines: dict[str, Line] = field(default_factory=dict)
    environments: dict[str, dict[str, Any]] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)


class Record:
    """A finished run as its record has it, read like a `RunFolder`."""

    status = "finished"

    def __init__(self, line: Line, store: _Store) -> None:
        self.line, self.store = line, store
        self.id: str = line["id"]

    def __repr__(self) -> str:
        return f"Record({self.id!r})"

    def read_metrics(self) -> dict[str, Any]:
        return dict(self.line["metrics"])

    def read_config(self) -> dict[str, Any]:
        return dict(self.line["config"])

    def read_environment(self) -> dict[str, Any]:
        """Versions, commit and machine; empty where none was written."""
        return self.store.shard.environments.get(self.line["environment"], {})

    def has(self, name: str) -> bool:
        return self.id in self.store.places(name.removesuffix(".csv"))

    def read_csv(self, name: str, *needed: str) -> list[dict[str, Any]]:
        """Rows of ``NAME.csv`` by column name: numbers as numbers, an empty cell as "". Raises ReportError: none."""
        if not self.has(name):
            raise ReportError(f"run {self.id}: its record has no {name}")
        table = name.removesuffix(".csv")
        rows = self.store.shard.tables[table].slice(*self.store.places(table)[self.id]).drop_columns("run")
        rows = rows.select([key for key in rows.column_names if rows[key].null_count < len(rows)])
        for column in (column for column in needed if column not in rows.column_names):
            raise ReportError(f"run {self.id}: its record of {name} has no column {column}")
        return [{key: "" if value is None else value for key, value in row.items()} for row in rows.to_pylist()]


Run = RunFolder | Record


class _Store:
    """The shards of a folder, read when the first record asks for them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines = _lines(folder)
        self._places: dict[str, dict[str, tuple[int, int]]] = {}

    @cached_property
    def shard(self) -> Shard:
        return read_shard(self.folder)

    def places(self, table: str) -> dict[str, tuple[int, int]]:
        """Run -> the first of its rows in a table, and their number."""
        if table not in self._places:
            places: dict[str, tuple[int, int]] = {}
            names = self.shard.tables[table]["run"].to_pylist() if table in self.shard.tables else []
            for row, name in enumerate(names):
                start, length = places.get(name, (row, 0))
                places[name] = start, length + 1
            self._places[table] = places
        return self._places[table]


def read_store(folder: Path | str) -> list[Run]:
    """All runs of a run store, of a folder of records, or of one that is both; by id.

    A run whose files are damaged is left out, and a warning says which.
    """
    store = _Store(Path(folder))
    runs: dict[str, Run] = {name: Record(line, store) for name, line in store.lines.items()}
    runs |= {run.id: run for run in _undamaged(list_runs(folder))}
    return [runs[name] for name in sorted(runs)]


def _undamaged(runs: Iterable[RunFolder]) -> Iterator[RunFolder]:
    """The runs that can be read, with a warning for each other: one of them does not stop who reads many."""
    for run in runs:
        try:
            if run.status == "finished":
                run.check()
            yield run
        except ReportError as error:
            _leave_out(error)


def _leave_out(error: ReportError) -> None:
    print(f"warning: left out: {error}", file=sys.stderr)


def is_of_changed_code(run: Run) -> bool:
    """Whether any start of a run had code that no commit holds, as far as is known: without a checkout nothing is."""
    if isinstance(run, Record):
        return run.read_environment().get("changed") is not False
    return not run.has("environment.json") or run.read_json("environment.json").get("changed") is not False


def add_records(runs: Iterable[RunFolder], folder: Path) -> tuple[list[str], list[str]]:
    """Add the records of finished runs; returns the ids added, and those refused.

    Refused are runs of code that no commit holds, or that do not say theirs. A run that the folder has, with the same
    content, is not added again.
    """
    recorded = _lines(folder)
    added, refused, shard = [], [], Shard()
    for run in (run for run in _undamaged(runs) if run.status == "finished"):
        environment = run.read_json("environment.json") if run.has("environment.json") else None
        if environment:
            environment.pop("command", None)  # the config says it, and many runs share the rest
        if is_of_changed_code(run):
            refused.append(run.id)
            continue
        line = _line(run, environment)
        if (old := recorded.get(run.id)) and {**old, "recorded": line["recorded"]} == line:
            continue
        try:
            tables = {name: _table(run, name) for name in TABLES if run.has(f"{name}.csv")}
        except ReportError as error:
            _leave_out(error)
            continue
        _put(shard, line, environment, tables)
        added.append(run.id)
    if added:
        write_shard(shard, folder)
        with hold_folder(folder) as is_held:  # otherwise another process joins shards, and may take one from here
            if is_held and len(files := _run_files(folder)) > MAX_SHARDS:
                _join(folder, sorted(files, key=lambda file: file.stat().st_size)[:-1])
    return added, refused


def compact(folder: Path, change: Callable[[Line], Line] | None = None) -> int:
    """Join all shards of a folder into one; returns how many records it has.

    Args:
        change: makes another line of each, with another id too; of two lines with one id then the later stays.
    """
    return _join(folder, _run_files(folder), change)


def _line(run: RunFolder, environment: Mapping[str, Any] | None) -> Line:
    config = {key: node for key, node in run.read_config().items() if key != "paths"}
    recorded = datetime.now(UTC).isoformat(timespec="seconds")
    digest = None if environment is None else _digest(environment)
    line = {"id": run.id, "recorded": recorded, "environment": digest, "metrics": run.read_metrics(), "config": config}
    return json.loads(json.dumps(line))


def _table(run: RunFolder, name: str) -> pa.Table:
    """A table of a run; of predictions those of test rows, or of all where there are no splits."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    as_text = csv.ConvertOptions(column_types=dict.fromkeys(TEXT_COLUMNS, pa.string()))
    try:
        lines = csv.ParseOptions(newlines_in_values=True)  # texts may have some
        table = csv.read_csv(run.path / f"{name}.csv", parse_options=lines, convert_options=as_text)
    except (OSError, pa.ArrowInvalid) as error:
        raise ReportError(f"run {run.id}: {name}.csv cannot be read ({first_line(error)})") from error
    table = table.drop_columns([column for column in LEFT_OUT if column in table.column_names])
    if name == "predictions" and "split" in table.column_names:
        table = table.filter(pc.field("split") == "test")
    return table


def _put(
    shard: Shard, line: Line, environment: Mapping[str, Any] | None, tables: Mapping[str, pa.Table]
) -> None:
    import pyarrow as pa

    shard.lines[line["id"]] = line
    if environment is not None:
        shard.environments[line["environment"]] = dict(environment)
    for name, table in tables.items():
        if "run" in table.column_names:  # a curve names the run of each round
            table = table.rename_columns({"run": "round"})
        table = table.append_column("run", pa.array([line["id"]] * len(table), pa.string()))
        shard.tables[name] = _joined([*filter(None, [shard.tables.get(name)]), table])


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Rows of all, null where one lacks a column; numbers become text in a column that is text in another."""
    import pyarrow as pa

    types: dict[str, set[pa.DataType]] = {}
    for table in tables:
        for column in table.schema:
            types.setdefault(column.name, set()).add(column.type)
    text = {name for name, kinds in types.items() if len(kinds) > 1 and pa.string() in kinds}
    cast = [table.cast(pa.schema([f.with_type(pa.string()) if f.name in text else f for f in table.schema]))
            for table in tables]
    return pa.concat_tables(cast, promote_options="permissive").combine_chunks()


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def _run_files(folder: Path) -> list[Path]:
    return sorted(Path(folder).glob("runs-*.jsonl.gz"))


def _lines(folder: Path) -> dict[str, Line]:
    return _latest(line for lines, _ in _contents(folder).values() for line in lines)


def _contents(folder: Path) -> dict[Path, tuple[list[Line], dict[str, dict[str, Any]]]]:
    """What each `runs` file of a folder holds."""
    while True:
        try:
            return {file: _read_lines(file) for file in _run_files(folder)}
        except FileNotFoundError:  # joined with others by a process that adds records
            continue


def _latest(lines: Iterable[Line]) -> dict[str, Line]:
    return {line["id"]: line for line in sorted(lines, key=lambda line: (line["recorded"], line["id"]))}


def _read_lines(file: Path) -> tuple[list[Line], dict[str, dict[str, Any]]]:
    """The runs of a `runs` file, and its environments by digest."""
    try:
        lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).decode().split("\n") if line]
    except FileNotFoundError:
        raise
    except (OSError, ValueError, EOFError) as error:
        raise ReportError(f"{file}: cannot be read ({error})") from error
    environments = {line["digest"]: line["content"] for line in lines if "digest" in line}
    return [line for line in lines if "id" in line], environments


def read_shard(folder: Path, files: Sequence[Path] | None = None) -> Shard:
    """All shards of a folder as one, or those of some of its `runs` files."""
    import pyarrow.parquet as pq

    shard = Shard()
    tables: dict[str, list[pa.Table]] = {}
    assigned: set[str] = set()
    contents = _contents(folder) if files is None else {file: _read_lines(file) for file in files}
    shard.lines = _latest(line for lines, _ in contents.values() for line in lines)
    for file, (lines, environments) in contents.items():
        key = file.name.removeprefix("runs-").removesuffix(".jsonl.gz")
        newest = {line["id"] for line in lines if shard.lines[line["id"]] == line} - assigned
        assigned |= newest
        shard.environments |= environments
        for name in TABLES:
            if (parquet := folder / f"{name}-{key}.parquet").exists():
                tables.setdefault(name, []).append(_rows_of_runs(pq.read_table(parquet), newest))
    shard.tables = {name: _joined(parts) for name, parts in tables.items()}
    return shard


def _rows_of_runs(table: pa.Table, names: Iterable[str]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    return table.filter(pc.is_in(table["run"], pa.array(sorted(names), pa.string())))


def write_shard(shard: Shard, folder: Path) -> Path:
    """Write a shard, its `runs` file last, which makes the others count; returns that."""
    import pyarrow.parquet as pq

    lines = [shard.lines[name] for name in sorted(shard.lines)]
    used = sorted({line["environment"] for line in lines} - {None})
    environments = [{"digest": key, "content": shard.environments[key]} for key in used]
    key = _digest([environments, lines])
    for name, table in shard.tables.items():
        if len(table := _rows_of_runs(table, shard.lines).sort_by("run")):
            with replacing(folder / f"{name}-{key}.parquet") as file:
                pq.write_table(table, file, compression="zstd", compression_level=19, **_encodings(name, table))
    text = "".join(json.dumps(line, sort_keys=True, ensure_ascii=False) + "\n" for line in (*environments, *lines))
    with replacing(path := folder / f"runs-{key}.jsonl.gz") as file:
        file.write(gzip.compress(text.encode(), mtime=0))
    return path


def _encodings(name: str, table: pa.Table) -> dict[str, Any]:
    """Options of Parquet: figures that hardly repeat byte by byte, row numbers by their steps, the rest by its values.

    Probabilities are rounded and do repeat.
    """
    import pyarrow as pa

    if name == "predictions":
        others = [field.name for field in table.schema if field.name != "index"]
        return {"use_dictionary": others, "column_encoding": {"index": "DELTA_BINARY_PACKED"}}
    figures = [field.name for field in table.schema if pa.types.is_floating(field.type)]
    others = [field.name for field in table.schema if field.name not in figures]
    return {"use_dictionary": others, "use_byte_stream_split": figures}


def _join(folder: Path, files: Sequence[Path], change: Callable[[Line], Line] | None = None) -> int:
    shard = read_shard(folder, files)
    if change is not None:
        shard = _changed(shard, change)
    current = write_shard(shard, folder) if shard.lines else None
    for file in (file for file in files if file != current):
        key = file.name.removeprefix("runs-").removesuffix(".jsonl.gz")
        for part in sorted(folder.glob(f"*-{key}.*"), reverse=True):  # the `runs` file first
            part.unlink()
    return len(shard.lines)


def _changed(shard: Shard, change: Callable[[Line], Line]) -> Shard:
    import pyarrow as pa

    changed = {name: change(line) for name, line in shard.lines.items()}
    lines = _latest(changed.values())
    names = {old: line["id"] for old, line in changed.items() if lines[line["id"]] is line}
    tables = {}
    for name, table in shard.tables.items():
        table = _rows_of_runs(table, names)
        runs = pa.array([names[old] for old in table["run"].to_pylist()], pa.string())
        tables[name] = table.set_column(table.column_names.index("run"), "run", runs)
    return Shard(lines, shard.environments, tables)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path, nargs="?", metavar="RUNS")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    command = parser.parse_args(words)
    try:
        if command.store is None:
            print(f"{compact(command.folder)} records in {command.folder}")
            return
        if not command.store.is_dir():
            raise ReportError(f"{command.store}: no such folder; allowed: one of runs")
        added, refused = add_records(list_runs(command.store), command.folder)
    except ReportError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    print(f"{len(added)} records added in {command.folder}")
    if refused:
        print(f"left out, of code that no commit holds: {', '.join(refused)}", file=sys.stderr)


if __name__ == "__main__":
    main()
