"""`open_table`, the one reader of tables of every format."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from storage.errors import InputError
from storage.tables.delimited import open_csv
from storage.tables.file_names import STDIN, format_of, name_of
from storage.tables.header import refuse_no_header
from storage.tables.json_rows import array, objects
from storage.tables.parquet import open_parquet
from storage.tables.table import Table
from storage.tables.text_lines import TextLines
from storage.tables.xlsx import open_xlsx


def open_table(
    source: Path | str,
    kind: str | None = None,
    delimiter: str | None = None,
    plain_text: str | None = None,
    encoding: str | None = None,
    header: bool | None = True,
    guess: str | None = None,
    sheet: str | None = None,
) -> Table:
    """Open a table; its rows are read as they are asked for.

    Args:
        source: a file, unpacked where its name ends in ``.gz``, ``.bz2`` or ``.xz``, or "-" for stdin.
        kind: csv, tsv, json (Lines, or an array of objects), xlsx or parquet; by default what the name says, else json
            where the content begins with a brace, else csv.
        delimiter: of CSV; by default a tab for ``.tsv``, else a comma, or what the first line has beside it or in its
            place and splits the first rows alike. `BARE_TAB`: a tab, and double quotes are part of the fields.
        plain_text: column of a text that is the only line of stdin.
        encoding: of text, see `TextLines`; XLSX and Parquet have none.
        header: whether the first row of CSV, TSV or XLSX names the columns; if not, they are `column_1`, `column_2`, ….
            None: it does not, where the format leaves a choice.
        guess: what text is read as that is not UTF-8; by default `GUESS`.
        sheet: of XLSX; by default the first that holds rows.

    Raises:
        InputError: no such file, it cannot be read, or it is not of its format; no such sheet.
    """
    name = name_of(source)
    kind = kind or (None if source == STDIN else format_of(source))
    if kind in ("xlsx", "parquet"):
        if encoding is not None:
            raise InputError(f"{name}: encoding={encoding} has no effect, allowed with text; {kind} says its own")
        return open_xlsx(Path(source), header, sheet) if kind == "xlsx" else open_parquet(Path(source), header)
    text = TextLines(source, encoding, guess)
    table = _open_text(iter(text), name, kind, delimiter, plain_text, header)
    return replace(table, lines=text)


def _open_text(
    lines: Iterator[str],
    name: str,
    kind: str | None,
    delimiter: str | None,
    plain_text: str | None,
    header: bool | None,
) -> Table:
    first = next(lines, None)
    if first is None:
        raise InputError(f"{name}: the file is empty, allowed: a header line and rows")
    head = [first]
    while not head[-1].strip() and (line := next(lines, None)) is not None:
        head.append(line)
    lines = itertools.chain(head, lines)  # blank ones too: they count in the lines that faults name
    start = head[-1].lstrip()[:1]
    if kind == "json" or (kind is None and start == "{"):
        refuse_no_header(header, name, "JSON")
        read = array if start == "[" else objects
        return Table(name, None, read(lines, name))
    return open_csv(lines, name, delimiter or ("\t" if kind == "tsv" else None), plain_text, header)
