"""Source files: found in a mirror or a cache folder, else downloaded; always verified by SHA-256."""

import json
import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from storage.errors import InputError, ReportError
from storage.files import file_sha256, write_text

HOST = "https://raw.githubusercontent.com"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SourceFile:
    """A file of a public repository at a fixed commit."""

    owner: str
    repo: str
    commit: str
    path: str
    sha256: str
    bytes: int

    @property
    def folder(self) -> str:
        return f"{self.owner}/{self.repo}/{self.commit}"

    def local(self, root: Path) -> Path:
        """Where the file lies below a mirror or cache folder."""
        return root / self.folder / self.path

    def address(self, host: str = HOST) -> str:
        return f"{host}/{self.folder}/{quote(self.path)}"


class HashMemory:
    """SHA-256 of files, remembered by size and modification time, so that a start does not read them all again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: dict[str, list] = {}
        with suppress(OSError, ValueError):  # what is damaged remembers nothing
            stored = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(stored, dict):
                self.entries = {key: entry for key, entry in stored.items() if _is_entry(entry)}
        self.changed = False

    def sha256(self, path: Path) -> str:
        stat = path.stat()
        key, state = str(path.resolve()), [stat.st_size, stat.st_mtime_ns]
        entry = self.entries.get(key)
        if entry is None or entry[:2] != state:
            self.entries[key] = entry = [*state, file_sha256(path)]
            self.changed = True
        return entry[2]

    def save(self) -> None:
        """Write the memory; a folder that cannot be written only costs the time to hash again."""
        if not self.changed:
            return
        with suppress(ReportError):
            write_text(self.path, json.dumps(self.entries))


def _is_entry(entry: object) -> bool:
    return isinstance(entry, list) and [type(part) for part in entry] == [int, int, str]


def fetch(
    files: tuple[SourceFile, ...] | list[SourceFile], mirror: Path | None, cache: Path, host: str = HOST
) -> dict[str, Path]:
    """Verified local files, keyed by their path in the repository.

    Looked for in ``mirror`` and then in ``cache`` (both laid out OWNER/REPO/COMMIT/PATH), else downloaded to ``cache``.

    Raises:
        InputError: a file of the mirror has another hash; files are missing and cannot be had (one error for all).
    """
    memory = HashMemory(cache / "verified.json")
    try:
        paths = {file.path: _find(file, mirror, cache, memory) for file in files}
        missing = [file for file in files if paths[file.path] is None]
        if missing:
            _download(missing, cache, host, mirror)
            paths |= {file.path: file.local(cache) for file in missing}
            for file in missing:
                memory.sha256(file.local(cache))
    finally:
        memory.save()
    return {name: path for name, path in paths.items() if path is not None}


def _find(file: SourceFile, mirror: Path | None, cache: Path, memory: HashMemory) -> Path | None:
    if mirror is not None and (path := file.local(mirror)).is_file():
        if (sha256 := memory.sha256(path)) != file.sha256:
            size = path.stat().st_size
            raise InputError(
                f"{path}: wrong content ({size} bytes, sha256 {sha256[:12]}…), "
                f"expected {file.bytes} bytes, sha256 {file.sha256[:12]}…; replace it from {file.address()}"
            )
        return path
    if (path := file.local(cache)).is_file():
        if memory.sha256(path) == file.sha256:
            return path
        log.warning("%s is damaged and will be downloaded again", path)
    return None


def _download(missing: list[SourceFile], cache: Path, host: str, mirror: Path | None) -> None:
    import pooch
    import requests
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    pooch.get_logger().setLevel("WARNING")
    columns = (
        *Progress.get_default_columns(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TextColumn("{task.fields[file]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("sources", total=sum(file.bytes for file in missing), file="")
        for number, file in enumerate(missing):
            progress.update(task, file=Path(file.path).name)
            path = file.local(cache)
            try:
                pooch.retrieve(
                    file.address(host), f"sha256:{file.sha256}", path.name, path.parent, downloader=_complete(file)
                )
            except requests.RequestException as error:
                raise _missing(missing[number:], _reason(error), cache, host, mirror) from error
            except ValueError as error:
                if isinstance(error, InputError):
                    raise
                raise InputError(
                    f"{file.address(host)}: wrong hash after download, expected sha256 {file.sha256}; nothing was kept"
                ) from error
            progress.advance(task, file.bytes)


def _complete(file: SourceFile):
    """A downloader that tells a truncated file from one with another content."""
    import pooch
    from requests.exceptions import ChunkedEncodingError

    def download(url: str, output: str, pooch_object: object) -> None:
        with suppress(ChunkedEncodingError):  # the connection closed early
            pooch.HTTPDownloader(timeout=60)(url, output, pooch_object)
        if (size := Path(output).stat().st_size) < file.bytes:
            raise InputError(f"{url}: truncated download, {size} of {file.bytes} bytes; nothing was kept, run again")

    return download


def _reason(error: Exception) -> str:
    response = getattr(error, "response", None)
    return f"HTTP {response.status_code}" if response is not None else f"no network, {type(error).__name__}"


def _missing(files: list[SourceFile], reason: str, cache: Path, host: str, mirror: Path | None) -> InputError:
    """One line for all missing files: which, from where, where to put them."""
    groups: dict[str, list[str]] = {}
    for file in files:
        groups.setdefault(file.folder, []).append(file.path)
    instructions = "; ".join(f"{host}/{folder}/ -> {', '.join(paths)}" for folder, paths in groups.items())
    return InputError(
        f"{len(files)} source file(s) missing ({reason}): download {instructions}; "
        f"and put them below {mirror or cache} as OWNER/REPO/COMMIT/PATH"
    )
