"""Tables written row by row, as CSV, TSV, JSON or JSON Lines, and what may be written over."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, BinaryIO

from storage.errors import InputError, short
from storage.files import is_stdout, is_written_through, replacing, write_errors
from storage.tables.file_names import PACKED, TEXT_FORMATS, packing, suffix_of
from storage.tables.reading import open_table
from storage.tables.table import Row

WRITTEN = {**TEXT_FORMATS, ".jsonl": "json lines", ".ndjson": "json lines", ".txt": "csv", "": "csv"}


def check_output(path: Path | str, key: str = "output") -> None:
    """Raises InputError where a table cannot be written under this name, as what the name says."""
    if not str(path):
        raise InputError(f"{key}: found '', allowed: a file, or - for stdout")
    if os.path.isdir(path):
        raise InputError(f"{key}: found {short(str(path))}, a folder, allowed: a file, or - for stdout")
    if _written_kind(path) is None:
        suffixes = ", ".join(sorted(filter(None, WRITTEN)))
        packed = ", ".join(PACKED)
        raise InputError(
            f"{key}: found {short(str(path))}, allowed: a name ending in {suffixes}, {packed} after it, or -"
        )


def check_is_other(source: Path | str, output: Path | str) -> None:
    """Raises InputError where the output is the file that is read."""
    if os.path.isfile(source) and os.path.isfile(output) and os.path.samefile(source, output):
        raise InputError(f"output: found {short(str(output))}, the input itself, allowed: another file")


def check_replaces(output: Path | str, columns: Sequence[str]) -> None:
    """Raises InputError where the output is a file that is there, and none of an earlier answer: it has none of these
    columns, or cannot be read as what its name says."""
    if not os.path.isfile(output) or is_written_through(output) or not os.path.getsize(output):
        return
    kind = (_written_kind(output) or "csv").removesuffix(" lines")
    delimiter = {"csv": ",", "tsv": "\t"}.get(kind)
    try:
        names = open_table(output, kind, delimiter, encoding="utf-8").first_names()
    except InputError:
        names = ("",)
    if names and not set(columns) & set(names):
        raise InputError(
            f"output: found {short(str(output))}, a file that holds something else (no column {' or '.join(columns)}), "
            f"allowed: a new file, or an earlier answer"
        )


def _written_kind(path: Path | str) -> str | None:
    suffix = suffix_of(path)
    return WRITTEN.get(suffix if suffix.strip("._0123456789") else "")  # the 2 of "texts.2" is no format


def write_table(path: Path | str, rows: Iterator[Row], columns: Sequence[str] | None) -> None:
    """Write rows as they come, in the format that the name says; "-" is stdout, as CSV.

    Args:
        path: see `check_output`; what is there is replaced at the end, when all is well.
        rows: values by column.
        columns: of all rows; None where rows have keys of their own. CSV then has all of them, in the order in which
            they came up, and an empty field where a row lacks one.

    Raises:
        ReportError: the file cannot be written.
    """
    kind = _written_kind(path)
    if is_stdout(path):
        if sys.stdout is None:
            raise InputError("stdout: it is closed, allowed: a file, or a reader of what comes")
        with write_errors("/dev/stdout"):
            _write(sys.stdout, rows, columns, kind)
            sys.stdout.flush()
        return
    with replacing(path) as binary:
        with _packed(binary, path) as target:
            stream = io.TextIOWrapper(target, encoding="utf-8", newline="", write_through=True)
            _write(stream, rows, columns, kind)
            stream.detach()


def _packed(binary: BinaryIO, path: Path | str) -> Any:
    """What writes into a file of this name; gzip without the time, so that equal rows are equal bytes."""
    if (module := packing(path)) is None:
        return nullcontext(binary)
    return gzip.GzipFile("", "wb", fileobj=binary, mtime=0) if module is gzip else module.open(binary, "wb")


def _write(stream: IO[str], rows: Iterator[Row], columns: Sequence[str] | None, kind: str | None) -> None:
    if kind == "json lines":
        stream.writelines(f"{_json(row)}\n" for row in rows)
    elif kind == "json":
        stream.write("[")
        stream.writelines(f"{',' if number else ''}\n{_json(row)}" for number, row in enumerate(rows))
        stream.write("\n]\n")
    else:
        with nullcontext((rows, columns)) if columns is not None else _spooled(rows) as (rows, columns):
            delimiter = "\t" if kind == "tsv" else ","
            writer = csv_writer(stream, delimiter)
            first = next(rows, None)  # before the header: what is wrong with the first row leaves stdout empty
            writer.writerow(columns)
            rows = rows if first is None else itertools.chain([first], rows)
            writer.writerows([_field(row.get(column, "")) for column in columns] for row in rows)


def csv_writer(stream: IO[str], delimiter: str = ",") -> Any:
    """A writer of the csv module whose lines end in a line feed, and which quotes any field with a line end."""
    return csv.writer(_LineFeeds(stream), delimiter=delimiter, lineterminator="\r\n")


class _LineFeeds:
    """Takes the carriage return from the end of a line: before Python 3.13 the csv module quotes a field that holds
    one only where lines end in one.
    """

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def write(self, line: str) -> int:
        return self.stream.write(f"{line[:-2]}\n")


@contextmanager
def _spooled(rows: Iterator[Row]) -> Iterator[tuple[Iterator[Row], list[str]]]:
    """The same rows and the keys of all of them, by way of a temporary file."""
    columns: dict[str, None] = {}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        with write_errors(Path(tempfile.gettempdir()) / "rows"):
            for row in rows:
                columns |= dict.fromkeys(row)
                file.write(f"{_json(row)}\n")
            file.seek(0)
        yield map(json.loads, file), list(columns)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _field(value: Any) -> Any:
    """A field of CSV: what is no plain value stands there as JSON."""
    return _json(value) if isinstance(value, list | dict) else value
