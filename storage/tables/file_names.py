"""What the name of a file says: its format, and whether it is packed."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from pathlib import Path
from typing import Any

from storage.errors import InputError, short

STDIN = "-"
TEXT_FORMATS = {".csv": "csv", ".tsv": "tsv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
FORMATS = {**TEXT_FORMATS, ".xlsx": "xlsx", ".xlsm": "xlsx", ".parquet": "parquet"}
PACKED: dict[str, Any] = {".gz": gzip, ".bz2": bz2, ".xz": lzma}  # what unpacks a file whose name ends so


def name_of(source: Path | str) -> str:
    """What messages call a file, or "-"."""
    return "stdin" if source == STDIN else str(source)


def format_of(path: Path | str) -> str | None:
    """The format that a file's name says, ``.gz`` and the like aside; None where it says nothing."""
    return FORMATS.get(suffix_of(path))


def suffix_of(path: Path | str) -> str:
    """How a file's name ends, ``.gz`` and the like aside, in lower case."""
    path = Path(path)
    return (path if packing(path) is None else Path(path.stem)).suffix.lower()


def packing(path: Path | str) -> Any:
    """The module that reads and writes what a file's name says it is packed by; None where it is not."""
    return PACKED.get(Path(path).suffix.lower())


def check_source(name: str, key: str, folder_allowed: bool = False) -> None:
    """Raises InputError where there is no such table to read; a folder may be one of inputs."""
    if name != STDIN and (not os.path.exists(name) or (os.path.isdir(name) and not folder_allowed)):
        raise InputError(f"{key}: found {short(name)}, no such file; allowed: a file with rows, or - for stdin")
