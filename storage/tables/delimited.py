"""CSV and TSV: fields between delimiters, which are guessed where nobody names one.

Rows go through Python's csv module: of the readers at hand it alone knows the line of a row with quoted line ends, and
it is not what takes the time (`benchmarks/csv_prepare.py`).
"""

from __future__ import annotations

import csv
import itertools
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from storage.errors import InputError, short
from storage.tables.cells import MAX_FIELD
from storage.tables.header import by_position, told_apart
from storage.tables.table import Row, Table

DELIMITERS = ";\t|"  # looked for in a header beside the comma
TAB = "tab"  # the delimiter, for shells do not hand on \t
BARE_TAB = "bare_tab"  # the same where double quotes are part of the fields, and every line is a row
SEP_LINE = re.compile(r"sep=(.)\s*$")  # above the header, as spreadsheets write and read it
COMPARED_LINES = 50  # of the beginning, where more than one mark may be the delimiter
ESCAPED_QUOTE = re.compile(r'\\+"')
log = logging.getLogger(__name__)


def checked_delimiter(delimiter: str | None, key: str) -> str | None:
    """The delimiter itself, a tab for `tab`; `bare_tab` stays. Raises InputError where no field can end in it."""
    delimiter = "\t" if delimiter == TAB else delimiter
    if delimiter in (None, BARE_TAB):
        return delimiter
    if len(delimiter) != 1 or delimiter.isalnum() or delimiter in '"\r\n':
        allowed = "one character, no letter, digit, double quote or line end, or tab, bare_tab"
        raise InputError(f"{key}: found {short(delimiter)}, allowed: {allowed}")
    return delimiter


def open_csv(
    lines: Iterator[str], name: str, delimiter: str | None, plain_text: str | None, has_header: bool | None
) -> Table:
    """The table of these lines; for the options see `open_table`."""
    csv.field_size_limit(MAX_FIELD)
    head, before = [next(lines), *itertools.islice(lines, 1)], 0
    blank = None if has_header else "\r\n"  # without a header a line of spaces may be a row
    while len(head) > 1 and ((mark := SEP_LINE.match(head[0])) or not head[0].strip(blank)):
        delimiter = delimiter or (mark.group(1) if mark else None)
        head, before = [head[1], *itertools.islice(lines, 1)], before + 1
    if delimiter is None:
        delimiter, lines = _guessed_delimiter(head, lines, name)
    is_bare = delimiter == BARE_TAB
    dialect: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if is_bare else {"delimiter": delimiter}
    if len(head) == 1 and name == "stdin" and plain_text is not None and head[0].strip():
        fields = next(csv.reader(head, **dialect))
        if plain_text not in fields and (has_header or len(fields) == 1):  # one line that is no row
            only: Row = {plain_text: head[0].rstrip("\r\n")}
            return Table(name, (plain_text,), iter([("stdin:1", only)]), delimiter)
    dialect["skipinitialspace"] = has_header and _has_spaces_after(head[0], delimiter)
    return _table(_Lines(itertools.chain(head, lines)), dialect, name, delimiter, before, bool(has_header))


class _Lines:
    """Lines as a reader takes them: `taken` since somebody has emptied it, and whether one of all has a quote after a
    backslash."""

    def __init__(self, lines: Iterator[str]) -> None:
        self.taken: list[str] = []
        self.has_escapes = False
        self.iterator = self._kept(lines)  # one for all readers

    def _kept(self, lines: Iterator[str]) -> Iterator[str]:
        keep = self.taken.append
        for line in lines:
            keep(line)
            if '\\"' in line:
                self.has_escapes = True
            yield line


def _table(
    lines: _Lines, dialect: Mapping[str, Any], name: str, delimiter: str, before: int, has_header: bool
) -> Table:
    """That of the lines after so many of the file."""
    line = before + 1
    reader = csv.reader(lines.iterator, strict=True, **dialect)
    if not has_header:
        numbered = _rows(lines, reader, None, dialect, name, before)
        line, first = next(numbered, (line, []))
        header = by_position(len(first))
        whole = [(f"{name}:{line}", dict(zip(header, first, strict=True)))]  # be it blank
        all_rows = itertools.chain(whole, _fields(numbered, header, name, delimiter))
        return Table(name, tuple(header), all_rows, delimiter, has_header=False)
    with _csv_errors(name, lambda: line, delimiter):
        first = next(reader, [])
    columns = _without_blank_end(first, 1)
    header = first if len(first) < len(columns) + 2 else columns  # one without a name can be told, several cannot
    header = told_apart(f"{name}:{line}", header)
    rows = _fields(_rows(lines, reader, len(header), dialect, name, before), header, name, delimiter)
    return Table(name, tuple(header), rows, delimiter, line=line)


def _guessed_delimiter(head: Sequence[str], lines: Iterator[str], name: str) -> tuple[str, Iterator[str]]:
    """What the first lines say, the next `lines` too where more than one mark may be it; and those lines again."""
    marks = [mark for mark in DELIMITERS if mark in head[0]]
    if len(head) == 1 or len(marks) + ("," in head[0]) < 2:
        return _only_delimiter(head[0], marks, name), lines
    more = list(itertools.islice(lines, COMPARED_LINES - len(head)))
    return _delimiter_of([*head, *more], marks, name), itertools.chain(more, lines)


def _has_spaces_after(header: str, delimiter: str) -> bool:
    """Whether fields are set apart by a delimiter and a space, which is none of theirs."""
    return not delimiter.isspace() and 0 < header.count(delimiter) == header.count(f"{delimiter} ")


def _only_delimiter(first: str, marks: Sequence[str], name: str) -> str:
    if "," in first or len(marks) != 1:
        return ","
    log.warning("%s: read with delimiter %r, for its first line has no comma", name, marks[0])
    return marks[0]


def _delimiter_of(first: Sequence[str], marks: Sequence[str], name: str) -> str:
    """A comma if it splits the first lines alike, or else the one mark that does."""
    fitting = [mark for mark in (",", *marks) if _number_of_fields(first, mark) > 1]
    if "," in fitting or len(fitting) != 1:
        return ","
    number = _number_of_fields(first, fitting[0])
    reason = f"which gives all of its first rows {number} fields"
    log.warning("%s: read with delimiter %r, %s (delimiter=MARK says another)", name, fitting[0], reason)
    return fitting[0]


def _number_of_fields(lines: Sequence[str], delimiter: str) -> int:
    """Of each row that these lines begin with; 0 where rows differ."""
    try:
        numbers = [len(fields) for fields in csv.reader(lines, delimiter=delimiter) if fields]
    except csv.Error:
        return 0
    whole = numbers[:-1] if len(lines) == COMPARED_LINES else numbers  # the last may go on in the lines after
    return whole[0] if len(set(whole)) == 1 and len(whole) > 1 else 0


def _without_blank_end(fields: list[str], least: int) -> list[str]:
    """Fields without empty ones at the end beyond the first `least`, which spreadsheets write of columns that were
    formatted only."""
    while len(fields) > least and not fields[-1].strip():
        fields = fields[:-1]
    return fields


def _rows(
    lines: _Lines, reader: Any, width: int | None, dialect: Mapping[str, Any], name: str, before: int
) -> Iterator[tuple[int, list[str]]]:
    """The further rows of such a reader, as wide as the first where no header says it, and the line where each begins:
    a quoted field may hold line ends.

    A row that cannot be read, or not as so many fields, is read once more with quotes after a backslash as part of
    their fields, and so are all after it; not where a row above has such quotes, for there they ended a field.
    """
    has_quotes = dialect.get("quoting") != csv.QUOTE_NONE
    line = before + reader.line_num + 1
    with _csv_errors(name, lambda: line, dialect["delimiter"] if has_quotes else BARE_TAB):
        may_escape = has_quotes and not lines.has_escapes
        lines.taken.clear()
        while True:
            try:
                for fields in reader:
                    width = len(fields) if width is None else width
                    if len(fields) > 1:
                        fields = _without_blank_end(fields, width)
                    if may_escape and lines.has_escapes:
                        if len(fields) != width:
                            break
                        may_escape = False
                    yield line, fields
                    line = before + reader.line_num + 1
                    lines.taken.clear()
                else:
                    return
            except csv.Error:
                if not (may_escape and lines.has_escapes):
                    raise
            log.warning('%s:%d: here and below \\" is a quote within a field, as Spark and MySQL write it', name, line)
            again = map(_unescaped, itertools.chain(list(lines.taken), lines.iterator))
            reader, before, may_escape = csv.reader(again, strict=True, **dialect), line - 1, False


def _unescaped(line: str) -> str:
    """A line in which quotes after a backslash are doubled, as CSV has them; two backslashes before one are one."""
    return ESCAPED_QUOTE.sub(lambda marks: "\\" * ((len(marks[0]) - 1) // 2) + '"' * (2 - len(marks[0]) % 2), line)


def _fields(
    rows: Iterator[tuple[int, list[str]]], header: Sequence[str], name: str, delimiter: str
) -> Iterator[tuple[str, Row]]:
    """Such rows by column, without blank ones."""
    for line, fields in rows:
        if fields and (len(header) == 1 or any(field.strip() for field in fields)):  # a blank line has none
            if len(fields) != len(header):
                allowed = f"{len(header)} as in the first line"
                if delimiter != BARE_TAB:
                    allowed += f"; a field that holds {delimiter!r} must stand in double quotes"
                raise InputError(f"{name}:{line}: {len(fields)} fields, allowed: {allowed}")
            yield f"{name}:{line}", dict(zip(header, fields, strict=True))


@contextmanager
def _csv_errors(name: str, line: Any, delimiter: str) -> Iterator[None]:
    try:
        yield
    except csv.Error as error:
        reason, allowed = str(error), "fields with balanced double quotes"
        if delimiter == "\t":
            allowed += f", or delimiter={BARE_TAB} where they are part of the fields"
        if "new-line character" in reason:
            reason, allowed = "a bare carriage return outside double quotes", "one kind of line ends, \\n or \\r\\n"
        elif "field larger than" in reason:
            reason = f"a field of more than {MAX_FIELD:,} characters; perhaps its double quote is never closed"
        raise InputError(f"{name}:{line()}: not CSV ({reason}), allowed: {allowed}") from error
