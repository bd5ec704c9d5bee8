"""XLSX: the sheets of a spreadsheet, whose cells become what it would write as CSV."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from storage.errors import InputError, short, short_list
from storage.tables.cells import MAX_FIELD, date_text
from storage.tables.header import by_position, told_apart
from storage.tables.table import COMPARED_ROWS, Row, Table, without_values

ESCAPED = re.compile("(?<!_x005F)_x(00(?:[01][0-9A-Fa-f]|7F))_")  # a control character in XLSX
ERROR = "e"  # how openpyxl calls the kind of a cell of XLSX that holds #N/A, #REF! and the like, not as a text
log = logging.getLogger(__name__)


def sheet_names(path: Path | str) -> list[str]:
    """The names of the sheets of an XLSX file. Raises InputError: it is none."""
    with _xlsx_errors(path):
        book = _book(path)
        book.close()
        return [sheet.title for sheet in book.worksheets]


def _book(path: Path | str, data_only: bool = True) -> Any:
    import openpyxl

    return openpyxl.load_workbook(path, read_only=True, data_only=data_only)


@contextmanager
def _xlsx_errors(path: Path | str) -> Iterator[None]:
    """InputError of what goes wrong when a spreadsheet is opened."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except Exception as error:  # whatever a file that is none makes its reader raise
        raise InputError(f"{path}: not an XLSX file, or protected by a password, allowed: XLSX") from error


def open_xlsx(path: Path, has_header: bool | None, name: str | None) -> Table:
    """The sheet of a name, or the first that is not empty, from its first row with a value on; numbers, dates and
    truth values become what a spreadsheet writes as CSV."""
    with _xlsx_errors(path):
        book = _book(path)
    try:
        return _sheet(book, path, has_header, name)
    except InputError:
        book.close()
        raise


def _sheet(book: Any, path: Path, has_header: bool | None, name: str | None) -> Table:
    """As `open_xlsx`, whose book is closed when its rows are read."""
    title, start, first, cells_of_rows = _chosen_sheet(book, path, name)
    header = [_cell(cell) for cell in first]
    while not header[-1]:
        header.pop()  # columns that were formatted only
    if has_header:
        header, rows_from, titles = told_apart(f"{path}:{start}", header), start + 1, "; allowed: no title above them"
    else:
        header, rows_from, titles = by_position(len(header)), start, ""
        cells_of_rows = itertools.chain([first], cells_of_rows)
    allowed_cells = f"the {len(header)} columns of the first row, {start}{titles}"
    rows = _rows_of_sheet(book, path, cells_of_rows, rows_from, header, allowed_cells)
    read, uncalculated = _calculated(rows, path, title, header, rows_from)
    table = Table(str(path), tuple(header), read, sheet=title, has_header=bool(has_header), uncalculated=uncalculated)
    return replace(table, line=start) if has_header else table


def _chosen_sheet(book: Any, path: Path, name: str | None) -> tuple[str, int, Any, Iterator[Any]]:
    """`_first_cells` of the sheet of that name, or of the first that is not empty. Raises InputError: there is none."""
    with _xlsx_errors(path):
        all_sheets = book.worksheets
        sheets = [sheet for sheet in all_sheets if name in (None, sheet.title)]
        title, start, first, cells_of_rows = _first_cells(sheets)
    if name is not None and not sheets:
        raise InputError(
            f"{path}: found no sheet {short(name)}, allowed: {short_list(sheet.title for sheet in all_sheets)}"
        )
    if not first:
        raise InputError(f"{path}: the sheet is empty, allowed: a header line and rows")
    if len(sheets) > 1:
        said = "%s: the first of %d sheets that holds rows is read, %r; sheet=NAME reads another"
        log.warning(said, path, len(sheets), title)
    return title, start, first, cells_of_rows


def _first_cells(sheets: Iterable[Any]) -> tuple[str, int, Any, Iterator[Any]]:
    """Of the first sheet that is not empty: its title, its first row with a value, from 1 on and as cells, and an
    iterator over the rows below."""
    for sheet in sheets:
        sheet.reset_dimensions()  # what the file says of its size may be less than it holds
        rows = sheet.iter_rows()
        for number, cells in enumerate(rows, 1):
            if any(map(_cell, cells)):
                return sheet.title, number, cells, rows
    return "", 1, (), iter(())


def _rows_of_sheet(
    book: Any, path: Path, cells_of_rows: Iterable[Any], start: int, header: Sequence[str], allowed: str
) -> Iterator[tuple[str, Row]]:
    """Rows, the first of which is row `start` of the sheet; then the book is closed. `allowed` says how many cells."""
    number, errors = start - 1, []
    try:
        for number, cells in enumerate(cells_of_rows, start):
            errors += [number for cell in cells if cell.data_type == ERROR]
            values = [_cell(cell) for cell in cells]
            if any(values[len(header) :]):
                raise InputError(f"{path}:{number}: more cells than {allowed}")
            if any(len(value) > MAX_FIELD for value in values):
                raise InputError(f"{path}:{number}: a cell of more than {MAX_FIELD:,} characters")
            if any(values):
                yield f"{path}:{number}", dict(itertools.zip_longest(header, values[: len(header)], fillvalue=""))
    except (InputError, GeneratorExit):
        raise
    except Exception as error:  # whatever a damaged file makes its reader raise
        raise InputError(f"{path}:{number + 1}: damaged from here on, allowed: a whole XLSX file") from error
    finally:
        book.close()
    if errors:
        said = "%s:%d: a cell that holds an error, as #N/A, is read as an empty one; the sheet has %d of these"
        log.warning(said, path, errors[0], len(errors))


def _calculated(
    rows: Iterator[tuple[str, Row]], path: Path, sheet: str, columns: Sequence[str], start: int
) -> tuple[Iterator[tuple[str, Row]], list[str]]:
    """The same rows, the first of which is row `start` of the sheet, and the columns that begin empty because what
    stands there are formulas that no program has calculated. Raises InputError where nothing else stands there."""
    ahead = list(itertools.islice(rows, COMPARED_ROWS))
    empty = [place for place, column in enumerate(columns) if not any(row[column] for _, row in ahead)]
    uncalculated = [columns[place] for place in _uncalculated(path, sheet, empty, start)] if empty else []
    if uncalculated and not ahead:
        raise without_values(str(path), uncalculated[0])

    def with_warning() -> Iterator[tuple[str, Row]]:  # not before it is known that none of them is asked for
        if uncalculated:
            why = "formulas without values are read as empty cells (saved by a spreadsheet program they have one)"
            log.warning("%s: column %s: %s", path, short_list(uncalculated), why)
        yield from ahead
        yield from rows

    return with_warning(), uncalculated


def _uncalculated(path: Path, title: str, places: Sequence[int], start: int) -> list[int]:
    """Those of these columns that hold a formula whose value the file lacks, in the first rows from `start` on. One
    whose value is an empty text, or an error, has one."""
    rows = _rows_of_cells(path, title, start, data_only=False)
    formulas = [
        (number, place)
        for number, cells in enumerate(rows)
        for place in places
        if place < len(cells) and cells[place].data_type == "f"
    ]
    if not formulas:
        return []
    values = _rows_of_cells(path, title, start, data_only=True)
    return sorted({place for number, place in formulas if values[number][place].data_type not in ("str", ERROR)})


def _rows_of_cells(path: Path, title: str, start: int, data_only: bool) -> list[Any]:
    with _xlsx_errors(path):
        book = _book(path, data_only)
        sheet = book[title]
        sheet.reset_dimensions()
        rows = list(sheet.iter_rows(min_row=start, max_row=start + COMPARED_ROWS - 1))
        book.close()
    return rows


def _cell(cell: Any) -> str:
    value = None if cell.data_type == ERROR else cell.value
    if isinstance(value, str):
        return ESCAPED.sub(lambda code: chr(int(code[1], 16)), value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, date):
        return date_text(value)
    return "" if value is None else value.isoformat() if hasattr(value, "isoformat") else str(value)
