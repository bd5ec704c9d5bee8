"""Tables that people have, read and written row by row: CSV, TSV, JSON, JSON Lines, XLSX and Parquet.

Training, prediction and all else read with `open_table`, so what one accepts the other does too. A fault names file and
line. CSV goes through Python's csv module: of the readers at hand it alone knows the line of a row with quoted line
ends, and it is not what takes the time (`benchmarks/csv_prepare.py`).
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import json
import logging
import os
import re
import sys
import tempfile
import unicodedata
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, BinaryIO

from storage.errors import InputError, short, short_list
from storage.files import is_stdout, is_written_through, replacing, write_errors

MAX_FIELD = 1 << 24  # characters; the csv module's own limit of 131072 is too small for whole documents
MAX_LINE = 1 << 28  # bytes; a file of one endless line would fill the memory
SAMPLE = 1 << 16  # bytes at the beginning from which encoding and line ends are told
BATCH = 1024  # rows of Parquet in memory at a time
STDIN = "-"
JOIN = "+"  # between the names of columns that are read as one text
DELIMITERS = ";\t|"  # looked for in a header beside the comma
TAB = "tab"  # the delimiter, for shells do not hand on \t
SEP_LINE = re.compile(r"sep=(.)\s*$")  # above the header, as spreadsheets write and read it
BARE_TAB = "bare_tab"  # the same where double quotes are part of the fields, and every line is a row
COMPARED_LINES = 50  # of the beginning, where more than one mark may be the delimiter
COMPARED_ROWS = 50  # of the beginning, whose keys are the columns of JSON, and in which a column of XLSX may be empty
MAX_DEPTH = 100  # of JSON
GUESS = "cp1252"  # what is not UTF-8 and has no mark: Latin-1 as Windows writes it
UNSEEN = ("Cc", "Cf")  # categories of characters that nobody sees: controls, marks of direction and of no width
NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f\x81\x8d\x8f\x90\x9d]")  # bytes that text in it does not have
ESCAPED = re.compile("(?<!_x005F)_x(00(?:[01][0-9A-Fa-f]|7F))_")  # a control character in XLSX
BLANKS = "".join(c for c in map(chr, range(0x3001)) if c.isspace()) + (
    "\u00ad\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
)  # white space, and characters of no width that end no emoji
TRUTH = {"True": "TRUE", "False": "FALSE"}  # as Python and pandas write what spreadsheets show in capitals
WHOLE = re.compile(r"^([-+]?\d+)\.0+$")
ERROR = "e"  # how openpyxl calls the kind of a cell of XLSX that holds #N/A, #REF! and the like, not as a text
BROKEN = "\udc80"  # half a character, as no decoder gives it: in the place of bytes that are none of an encoding
TEXT_FORMATS = {".csv": "csv", ".tsv": "tsv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
FORMATS = {**TEXT_FORMATS, ".xlsx": "xlsx", ".parquet": "parquet"}
TOO_DEEP = f"JSON that is nested too deeply, allowed: {MAX_DEPTH} levels"
WRITTEN = {**TEXT_FORMATS, ".jsonl": "json lines", ".ndjson": "json lines", ".txt": "csv", "": "csv"}
NO_TABLES = {
    **{b"PK\x03\x04": "a ZIP archive, as XLSX is", b"\xd0\xcf\x11\xe0": "an old Excel file", b"%PDF": "a PDF"},
    **{b"\x1f\x8b": "gzip", b"PAR1\x15": "Parquet"},
}
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark begins the same
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
log = logging.getLogger(__name__)

Row = dict[str, Any]


@dataclass
class Table:
    """Rows of a file as they come.

    Attributes:
        name: of the file, for messages.
        columns: names of the columns; None where each row has keys of its own.
        rows: "file:line" where a row begins, and its values by column. Reading them raises InputError.
        delimiter: what stands between the fields of CSV.
        sheet: the one of XLSX that is read.
        lines: of a text, from which the rows come.
        has_header: whether columns have names of their own, from the first row or as the format has them.
        own_columns: "text", "label" -> that of a finished run, where it is read because nobody typed one.
        uncalculated: columns of XLSX that are read as empty, for they hold formulas whose values the file lacks.
        line: of the header; None where there is none.
    """

    name: str
    columns: tuple[str, ...] | None
    rows: Iterator[tuple[str, Row]]
    delimiter: str | None = None
    sheet: str | None = None
    lines: TextLines | None = None
    has_header: bool = True
    own_columns: Mapping[str, str] = field(default_factory=dict)
    uncalculated: Sequence[str] = ()
    line: int | None = None

    @property
    def header(self) -> str:
        """The place where the columns are named, as messages have it."""
        return self.name if self.line is None else f"{self.name}:{self.line}"

    @property
    def encoding(self) -> str | None:
        """Of a text, as far as its rows were read; None of XLSX and Parquet."""
        return None if self.lines is None else self.lines.encoding

    def first_names(self) -> tuple[str, ...]:
        """The columns, or the keys of the first rows."""
        if self.columns is not None:
            return self.columns
        first = list(itertools.islice(self.rows, COMPARED_ROWS))
        self.rows = itertools.chain(first, self.rows)
        return tuple(dict.fromkeys(key for _, row in first for key in row))

    def refuse_idle(self, delimiter: str | None, sheet: str | None, group: str = "") -> None:
        """Raises InputError where a delimiter or a sheet is named, by a key of `group`, and the format has none."""
        if delimiter is not None and self.delimiter is None:
            raise InputError(
                f"{self.name}: {group}delimiter={short(delimiter)} has no effect, allowed with CSV and TSV"
            )
        if sheet is not None and self.sheet is None:
            raise InputError(f"{self.name}: {group}sheet={short(sheet)} has no effect, allowed with XLSX")

    def need(self, column: str, hint: str) -> None:
        """Raises InputError where the table has no such column; ``hint`` says which option names it."""
        if self.columns is not None and column not in self.columns:
            raise InputError(f"{self.header}: {self._lacks('column', column, hint, self.columns)}")
        self.refuse_uncalculated([column])

    def refuse_uncalculated(self, columns: Iterable[str]) -> None:
        """Raises InputError where one of these columns holds formulas that no program has calculated."""
        for column in columns:
            if column in self.uncalculated:
                raise _without_values(self.name, column)

    def need_text(self, column: str, hint: str) -> None:
        """The same of a column of texts, or of each of those that it joins."""
        for part in text_columns(self.columns or (), column):
            self.need(part, hint)

    def value(self, where: str, row: Row, column: str, hint: str) -> Any:
        """A value of a row. Raises InputError where it lacks the key."""
        if column not in row:
            raise InputError(f"{where}: {self._lacks('key', column, hint, row)}")
        return row[column]

    def text(self, where: str, row: Row, column: str, hint: str) -> Any:
        """`text_of` a row. Raises InputError where it lacks the key, or all of those that are joined."""
        if not any(part in row for part in text_columns(row, column)):
            raise InputError(f"{where}: {self._lacks('key', column, hint, row)}")
        return text_of(row, column)

    def _lacks(self, kind: str, column: str, hint: str, names: Iterable[str]) -> str:
        delimiter = f" with delimiter {self.delimiter!r}" if self.delimiter else ""
        return f"no {kind} {short(column)} ({hint}), allowed{delimiter}: one of {short_list(names) or 'none'}"


def text_columns(columns: Iterable[str], column: str) -> list[str]:
    """The columns that `TITLE+BODY` joins; one whose own name holds a plus is meant first."""
    return [column] if column in columns else column.split(JOIN)


def text_of(row: Mapping[str, Any], column: str) -> Any:
    """The text of a row; of `TITLE+BODY` the texts of both that can be seen, a line each. None where there is none."""
    values = [row.get(part) for part in text_columns(row, column)]
    if len(values) == 1:
        return values[0]
    filled = [value for value in values if not is_blank(value)]
    texts = [value for value in filled if isinstance(value, str)]
    return "\n".join(texts) if texts == filled else next(value for value in filled if not isinstance(value, str))


def is_visible(text: str) -> bool:
    """Whether any character of a text can be seen."""
    return any(not c.isspace() and unicodedata.category(c) not in UNSEEN for c in text)


def folded(text: str) -> str:
    """A text as two are compared that may be one: case and white space aside."""
    return " ".join(text.casefold().split())


def is_text(value: Any) -> bool:
    """Whether a cell holds a text of which something can be seen."""
    return isinstance(value, str) and is_visible(value)


def is_blank(value: Any) -> bool:
    """Whether a cell of texts holds none, nothing that can be seen; NaN is what pandas writes there."""
    return value is None or value != value or (isinstance(value, str) and not is_visible(value))


def checked_text(value: Any, where: str) -> str:
    """The value itself. Raises InputError where it is no text with a visible character."""
    if is_text(value):
        return value
    shown = "an empty text" if is_blank(value) else short(value)
    raise InputError(f"{where}: found {shown}, allowed: a string with at least one visible character")


def trim(label: str) -> str:
    """A label without white space and characters of no width at its ends, which nobody sees there."""
    return label.strip(BLANKS)


def is_missing(label: Any) -> bool:
    """Whether a cell says that no label is known: it is empty, or NaN as pandas writes it."""
    return label is None or label != label or (isinstance(label, str) and trim(label).lower() in ("", "nan"))


def label_text(label: Any) -> str:
    """The name of a label as a file has it, "" of what is neither text nor number: ``1`` and ``1.0`` are one, also as
    text, for spreadsheets and pandas write whole numbers so where some are missing; ``True`` is ``TRUE``."""
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    name = trim(str(label)) if isinstance(label, str | int | float | Decimal) else ""
    return TRUTH.get(name) or WHOLE.sub(r"\1", name)


def label_name(label: Any, where: str, also: str = "") -> str:
    """`label_text` of a label.

    Raises:
        InputError: it is empty, NaN, or neither text nor number; the line begins with ``where``, and ``also`` ends it.
    """
    name = label_text(label)
    if is_missing(name):
        shown = "an empty label" if label is None or label == "" else f"label {short(str(label))}"
        shown += ", which counts as empty" if name.lower() == "nan" else ""
        raise InputError(f"{where}: found {shown}, allowed: a name or a number{also}")
    return name


def format_of(path: Path | str) -> str | None:
    """The format that a file's name says, ``.gz`` aside; None where it says nothing."""
    return FORMATS.get(_suffix(path))


def _suffix(path: Path | str) -> str:
    path = Path(path)
    return (Path(path.stem) if path.suffix.lower() == ".gz" else path).suffix.lower()


def check_source(name: str, key: str, folder_allowed: bool = False) -> None:
    """Raises InputError where there is no such table to read; a folder may be one of inputs."""
    if name != STDIN and (not os.path.exists(name) or (os.path.isdir(name) and not folder_allowed)):
        raise InputError(f"{key}: found {short(name)}, no such file; allowed: a file with rows, or - for stdin")


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
        source: a file, unpacked where its name ends in ``.gz``, or "-" for stdin.
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
    name = "stdin" if source == STDIN else str(source)
    kind = kind or (None if source == STDIN else format_of(source))
    if kind in ("xlsx", "parquet"):
        if encoding is not None:
            raise InputError(f"{name}: encoding={encoding} has no effect, allowed with text; {kind} says its own")
        return _open_xlsx(Path(source), header, sheet) if kind == "xlsx" else _open_parquet(Path(source), header)
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
        _refuse_no_header(header, name, "JSON")
    if kind == "json" and start == "[":
        return Table(name, None, _array(lines, name))
    if kind == "json" or (kind is None and start == "{"):
        return Table(name, None, _objects(lines, name))
    return _open_csv(lines, name, delimiter or ("\t" if kind == "tsv" else None), plain_text, header)


def _refuse_no_header(header: bool | None, name: str, kind: str) -> None:
    if header is False:
        raise InputError(
            f"{name}: header=false has no effect, allowed with CSV, TSV and XLSX; {kind} names its columns"
        )


def _by_position(number: int) -> list[str]:
    """Names of the columns of a table without a header."""
    return [f"column_{position}" for position in range(1, number + 1)]


# Lines of text


def checked_encoding(encoding: str | None, key: str) -> str | None:
    """The encoding itself. Raises InputError where Python knows none of its name."""
    try:
        if encoding is not None:
            "".encode(encoding)
    except (LookupError, ValueError) as error:
        allowed = "an encoding of text, as utf-8, utf-16, cp1252, latin-1"
        raise InputError(f"{key}: found {short(encoding)}, allowed: {allowed}") from error
    return encoding


def checked_delimiter(delimiter: str | None, key: str) -> str | None:
    """The delimiter itself, a tab for `tab`; `bare_tab` stays. Raises InputError where no field can end in it."""
    delimiter = "\t" if delimiter == TAB else delimiter
    if delimiter in (None, BARE_TAB):
        return delimiter
    if len(delimiter) != 1 or delimiter.isalnum() or delimiter in '"\r\n':
        allowed = "one character, no letter, digit, double quote or line end, or tab, bare_tab"
        raise InputError(f"{key}: found {short(delimiter)}, allowed: {allowed}")
    return delimiter


class TextLines:
    """Lines of a file with their ends, unpacked and decoded; to be read once.

    Without `encoding` its byte order mark says it. One without a mark is UTF-8, or where its first bytes beyond ASCII
    are not, what `guess` says, by default `GUESS`, which is said on stderr.

    Reading raises InputError: the file cannot be read, is no whole gzip file, or has bytes that are no text, or lines
    in two encodings; with file and line.

    Attributes:
        encoding: of the lines that were read so far.
    """

    def __init__(self, source: Path | str, encoding: str | None = None, guess: str | None = None) -> None:
        self.source, self.asked, self.encoding = source, encoding, encoding or "utf-8"
        self.guess, self.is_told = guess or GUESS, guess is not None

    def __iter__(self) -> Iterator[str]:
        name = "stdin" if self.source == STDIN else str(self.source)
        try:
            with _binary(self.source) as file:
                yield from self._lines(file, name)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(f"{name}: not a whole gzip file ({error})") from error
        except OSError as error:
            raise InputError(f"{name}: cannot be read ({error.strerror or error})") from error

    def _lines(self, file: Any, name: str) -> Iterator[str]:
        sample = file.peek(SAMPLE)[:SAMPLE]
        mark, marked = next(((m, e) for m, e in BYTE_ORDER_MARKS if sample.startswith(m)), (b"", "utf-8"))
        if self.asked is None:
            self.encoding = self._encoding_of(sample, name, marked if mark else None)
        if self.asked or self.encoding != "utf-8":
            yield from _other_lines(file, name, self.encoding)
            return
        old_mac = b"\r" in sample[:-1] and b"\n" not in sample
        if old_mac:
            log.warning("%s: read with the line ends of old Macs, bare carriage returns", name)
        yield from self._decoded(_split(file, b"\r") if old_mac else _lines(file), name, mark)

    def _encoding_of(self, sample: bytes, name: str, marked: str | None) -> str:
        """What the beginning of a file says that it is in, which may be no more than UTF-8 so far.

        Raises:
            InputError: it is no text.
        """
        if kind := next((kind for m, kind in NO_TABLES.items() if sample.startswith(m)), None):
            allowed = "text, as CSV; XLSX or Parquet under a name that ends so, gzip as .gz"
            raise InputError(f"{name}: found {kind}, allowed: {allowed}")
        if marked is not None:
            if marked != "utf-8":
                log.warning("%s: read as %s, as its byte order mark says", name, marked.upper())
            return marked
        if 0 in sample and codecs.lookup(self.guess).name.startswith(("utf-16", "utf-32")):
            log.warning("%s: not UTF-8; the file is read as %s (encoding=NAME says another)", name, self.guess)
            return self.guess
        if sample.count(0) > len(sample) / 3:
            place = f"byte 0x00 at position {sample.index(0) + 1}"
            raise InputError(f"{name}:1: {place} is no text, allowed: UTF-8 text, or encoding=NAME, as utf-16")
        return "utf-8"

    def _decoded(self, lines: Iterable[bytes], name: str, mark: bytes) -> Iterator[str]:
        """Lines of UTF-8, or of `guess` from the first that is not UTF-8, if only ASCII came before."""
        is_known = bool(mark)
        for number, line in enumerate(lines, 1):
            line = line.removeprefix(mark) if number == 1 else line
            if len(line) >= MAX_LINE:
                raise InputError(f"{name}:{number}: a line of {MAX_LINE:,} bytes or more, allowed: shorter ones")
            if (position := line.find(0)) >= 0:
                place = f"byte 0x00 at position {position + 1}"
                allowed = "UTF-8 text, or encoding=NAME, as utf-16"
                raise InputError(f"{name}:{number}: {place} is no text, allowed: {allowed}")
            if line.startswith(codecs.BOM_UTF8):
                log.warning("%s:%d: a byte order mark inside the file is read as part of the text", name, number)
            if line.isascii():
                yield line.decode()
                continue
            try:
                text, fits = line.decode(), "utf-8"
            except UnicodeDecodeError as error:
                byte = f"byte 0x{line[error.start]:02x} at position {error.start + 1} is not UTF-8"
                guessed, fits = self._guessed(line), self.guess
                if (is_known and self.encoding == "utf-8") or guessed is None:
                    raise InputError(f"{name}:{number}: {byte}, allowed: UTF-8 text, or encoding=NAME") from error
                text = guessed
                if not is_known:
                    another = f"the file is read as {self.guess} (encoding=NAME says another)"
                    log.warning("%s:%d: %s; %s", name, number, byte, another)
            if is_known and fits != self.encoding:
                problem = f"{name}:{number}: UTF-8, and lines before are not"
                raise InputError(f"{problem}; allowed: one, or encoding={self.guess}")
            self.encoding, is_known = fits, True
            yield text

    def _guessed(self, line: bytes) -> str | None:
        """None where it is not of that encoding, or holds what text has not and nobody named the encoding."""
        if not self.is_told and NO_TEXT.search(line):
            return None
        try:
            return line.decode(self.guess)
        except UnicodeDecodeError:
            return None


@contextmanager
def _binary(source: Path | str) -> Iterator[Any]:
    if source == STDIN:
        if sys.stdin is None or sys.stdin.closed:
            raise InputError("stdin: it is closed, allowed: a file, or rows through a pipe")
        binary = sys.stdin.buffer
        yield binary if hasattr(binary, "peek") else io.BufferedReader(binary)
        return
    with Path(source).open("rb") as file:
        if Path(source).suffix.lower() == ".gz":
            with gzip.open(file) as unpacked, io.BufferedReader(unpacked, SAMPLE) as buffered:
                yield buffered
        else:
            yield file


def _lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(MAX_LINE):
        yield line


def _split(file: BinaryIO, end: bytes) -> Iterator[bytes]:
    """Lines that end in one byte, as iterating over a file gives those that end in a line feed."""
    rest = b""
    while len(rest) < MAX_LINE and (chunk := file.read(SAMPLE)):
        *lines, rest = (rest + chunk).split(end)
        yield from (line + end for line in lines)
    if rest:
        yield rest


def _as_broken(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return BROKEN, error.end


codecs.register_error("kontrast_broken", _as_broken)  # text is decoded in chunks: an error of one has no line


def _other_lines(file: BinaryIO, name: str, encoding: str) -> Iterator[str]:
    number, problem = 1, f"not {encoding.upper()} from here on, allowed: one encoding"
    try:
        for number, line in enumerate(io.TextIOWrapper(file, encoding, "kontrast_broken", newline=""), 1):
            if BROKEN in line:
                raise InputError(f"{name}:{number}: {problem}")
            yield line.removeprefix("\ufeff") if number == 1 else line
    except UnicodeError as error:  # of encodings that take no other word for their errors
        raise InputError(f"{name}:{number}: {problem}") from error


# CSV


def _open_csv(
    lines: Iterator[str], name: str, delimiter: str | None, plain_text: str | None, has_header: bool | None
) -> Table:
    csv.field_size_limit(MAX_FIELD)
    first_line, second, before = next(lines), next(lines, None), 0
    blank = None if has_header else "\r\n"  # without a header a line of spaces may be a row
    while second is not None and ((mark := SEP_LINE.match(first_line)) or not first_line.strip(blank)):
        delimiter = delimiter or (mark.group(1) if mark else None)
        first_line, second, before = second, next(lines, None), before + 1
    if delimiter is None:
        marks = [mark for mark in DELIMITERS if mark in first_line]
        if second is not None and len(marks) + ("," in first_line) > 1:
            more = list(itertools.islice(lines, COMPARED_LINES - 2))
            delimiter, lines = _delimiter_of([first_line, second, *more], marks, name), itertools.chain(more, lines)
        else:
            delimiter = _only_delimiter(first_line, marks, name)
    is_bare = delimiter == BARE_TAB
    dialect: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if is_bare else {"delimiter": delimiter}
    if second is None and name == "stdin" and plain_text is not None and first_line.strip():
        fields = next(csv.reader([first_line], **dialect))
        if plain_text not in fields and (has_header or len(fields) == 1):  # one line that is no row
            only: Row = {plain_text: first_line.rstrip("\r\n")}
            return Table(name, (plain_text,), iter([("stdin:1", only)]), delimiter)
    parts = [first_line] if second is None else [first_line, second]
    dialect["skipinitialspace"] = has_header and _has_spaces_after(first_line, delimiter)
    reader = csv.reader(itertools.chain(parts, lines), strict=True, **dialect)
    with _csv_errors(name, lambda: 1 + before, delimiter):
        first = next(reader, [])
    columns = _without_blank_end(first, 1)
    header = first if len(first) < len(columns) + 2 else columns  # one without a name can be told, several cannot
    header = _told_apart(f"{name}:{1 + before}", header) if has_header else _by_position(len(first))
    rows = _fields(reader, header, name, delimiter, before)
    if not has_header:
        rows = itertools.chain([(f"{name}:{1 + before}", dict(zip(header, first, strict=True)))], rows)
    line = 1 + before if has_header else None
    return Table(name, tuple(header), rows, delimiter, has_header=bool(has_header), line=line)


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


def _told_apart(where: str, header: Sequence[str]) -> list[str]:
    """A name of its own for each column: the second `text` is `text.1`, as pandas calls it. Which are is warned of."""
    taken, numbers = set(header), defaultdict[str, Iterator[int]](itertools.count)
    columns: list[str] = []
    for column in header:
        names = (f"{column}.{number}" if number else column for number in numbers[column])
        columns.append(next(name for name in names if name == column or name not in taken))
    repeats = [(number, name) for number, name in enumerate(columns, 1) if name != header[number - 1]]
    if repeats:
        number, name = repeats[0]
        first, more = header.index(header[number - 1]) + 1, f", and {len(repeats) - 1} more" if repeats[1:] else ""
        hint = "" if format_of(where) == "parquet" else "; header=false where these are no names"
        said = "%s: columns %d and %d are both called %s; column %d is read as %s%s%s"
        log.warning(said, where, first, number, short(header[number - 1]), number, short(name), more, hint)
    return columns


def _without_blank_end(fields: list[str], least: int) -> list[str]:
    """Fields without empty ones at the end beyond the first `least`, which spreadsheets write of columns that were
    formatted only."""
    while len(fields) > least and not fields[-1].strip():
        fields = fields[:-1]
    return fields


def _fields(
    reader: Any, header: Sequence[str], name: str, delimiter: str, before: int
) -> Iterator[tuple[str, Row]]:
    """Rows of a reader that begins after so many lines of the file."""
    line = before + reader.line_num + 1  # where a row begins: a quoted field may hold line ends
    with _csv_errors(name, lambda: line, delimiter):
        for fields in reader:
            if len(fields) > 1:
                fields = _without_blank_end(fields, len(header))
            if fields and (len(header) == 1 or any(field.strip() for field in fields)):  # a blank line has none
                if len(fields) != len(header):
                    allowed = f"{len(header)} as in the first line"
                    if delimiter != BARE_TAB:
                        allowed += f"; a field that holds {delimiter!r} must stand in double quotes"
                    raise InputError(f"{name}:{line}: {len(fields)} fields, allowed: {allowed}")
                yield f"{name}:{line}", dict(zip(header, fields))  # noqa: B905 - as long as each other
            line = before + reader.line_num + 1


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


# JSON


def _objects(lines: Iterable[str], name: str) -> Iterator[tuple[str, Row]]:
    """One JSON object a line."""
    for number, line in enumerate(lines, 1):
        if line := line.strip():
            where = f"{name}:{number}"
            allowed = "one object a line, or an array of objects"
            yield where, _object(parsed_json(line, where, allowed), where, allowed)


def _array(lines: Iterable[str], name: str) -> Iterator[tuple[str, Row]]:
    """The objects of one JSON array."""
    entries = parsed_json("".join(lines), f"{name}:1", "an array of objects, or one object a line")
    for number, entry in enumerate(entries, 1):
        where = f"{name}: entry {number}"
        yield where, _object(entry, where, "objects, as {\"text\": …}")


def parsed_json(text: str, where: str, allowed: str) -> Any:
    """The value of a JSON text. Raises InputError: it is none, too deep, or has a key twice or half a character."""
    try:
        value = json.loads(text, object_pairs_hook=_without_repeats)
    except json.JSONDecodeError as error:
        position = f"line {error.lineno} column" if error.lineno > 1 else "column"
        raise InputError(f"{where}: not JSON ({error.msg} at {position} {error.colno}), allowed: {allowed}") from error
    except RecursionError as error:
        raise InputError(f"{where}: {TOO_DEEP}") from error
    except ValueError as error:  # a key that stands twice, an integer of thousands of digits
        raise InputError(f"{where}: not JSON that can be read ({str(error)[:120]}), allowed: {allowed}") from error
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise InputError(f"{where}: {TOO_DEEP}")
    if "\\ud" in text or "\\uD" in text:
        _refuse_surrogates(value, where)
    return value


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        parts = (part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list))
        level = list(itertools.chain.from_iterable(parts))
    return depth


def _without_repeats(pairs: list[tuple[str, Any]]) -> Row:
    row = dict(pairs)
    if len(row) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {short(next(key for key in keys if keys.count(key) > 1))} stands twice")
    return row


def _refuse_surrogates(value: Any, where: str) -> None:
    for key, part in value.items() if isinstance(value, dict) else [("the row", value)]:
        try:
            json.dumps([key, part], ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            name = key.encode("ascii", "backslashreplace").decode()
            raise InputError(f"{where}: {name} holds half a surrogate pair, allowed: Unicode text") from error


def _object(value: Any, where: str, allowed: str) -> Row:
    if not isinstance(value, dict):
        raise InputError(f"{where}: found a {type(value).__name__}, allowed: {allowed}")
    return value


# Spreadsheets and Parquet


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


def _open_xlsx(path: Path, has_header: bool | None, name: str | None) -> Table:
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
    """As `_open_xlsx`, whose book is closed when its rows are read."""
    title, start, first, cells_of_rows = _chosen_sheet(book, path, name)
    header = [_cell(cell) for cell in first]
    while not header[-1]:
        header.pop()  # columns that were formatted only
    if has_header:
        header, rows_from, titles = _told_apart(f"{path}:{start}", header), start + 1, "; allowed: no title above them"
    else:
        header, rows_from, titles = _by_position(len(header)), start, ""
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
        raise _without_values(str(path), uncalculated[0])

    def with_warning() -> Iterator[tuple[str, Row]]:  # not before it is known that none of them is asked for
        if uncalculated:
            why = "formulas without values are read as empty cells (saved by a spreadsheet program they have one)"
            log.warning("%s: column %s: %s", path, short_list(uncalculated), why)
        yield from ahead
        yield from rows

    return with_warning(), uncalculated


def _without_values(file: str, column: str) -> InputError:
    return InputError(
        f"{file}: column {short(column)} holds formulas without values; allowed: values (open and save the file in a "
        f"spreadsheet program)"
    )


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


def _cell(cell: Any) -> str:
    value = None if cell.data_type == ERROR else cell.value
    if isinstance(value, str):
        return ESCAPED.sub(lambda code: chr(int(code[1], 16)), value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool):
        return str(value).upper()
    return "" if value is None else value.isoformat() if hasattr(value, "isoformat") else str(value)


def _open_parquet(path: Path, has_header: bool | None) -> Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    _refuse_no_header(has_header, str(path), "Parquet")
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: not a Parquet file that can be read, allowed: Parquet") from error

    columns = _told_apart(str(path), file.schema_arrow.names)

    def rows() -> Iterator[tuple[str, Row]]:
        number = 0
        try:
            for batch in file.iter_batches(BATCH):
                for row in batch.rename_columns(columns).to_pylist():
                    number += 1
                    yield f"{path}:{number}", row
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path}:{number + 1}: damaged from here on, allowed: a whole Parquet file") from error

    return Table(str(path), tuple(columns), rows())


# Writing


def check_output(path: Path | str, key: str = "output") -> None:
    """Raises InputError where a table cannot be written under this name, as what the name says."""
    if not str(path):
        raise InputError(f"{key}: found '', allowed: a file, or - for stdout")
    if os.path.isdir(path):
        raise InputError(f"{key}: found {short(str(path))}, a folder, allowed: a file, or - for stdout")
    if _written_kind(path) is None:
        suffixes = ", ".join(sorted(filter(None, WRITTEN)))
        raise InputError(f"{key}: found {short(str(path))}, allowed: a name ending in {suffixes}, .gz after it, or -")


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
    suffix = _suffix(path)
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
        is_packed = Path(path).suffix.lower() == ".gz"
        packed = gzip.GzipFile("", "wb", fileobj=binary, mtime=0) if is_packed else nullcontext(binary)
        with packed as target:
            stream = io.TextIOWrapper(target, encoding="utf-8", newline="", write_through=True)
            _write(stream, rows, columns, kind)
            stream.detach()


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
