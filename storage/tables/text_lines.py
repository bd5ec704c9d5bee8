"""From bytes to lines of text: unpacking, encodings, line ends."""

from __future__ import annotations

import codecs
import gzip
import io
import logging
import lzma
import re
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from storage.errors import InputError, short
from storage.tables.file_names import STDIN, name_of, packing
from storage.tables.likely_encoding import GUESS, likely_encoding

MAX_LINE = 1 << 28  # bytes; a file of one endless line would fill the memory
SAMPLE = 1 << 16  # bytes at the beginning from which encoding and line ends are told
NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f\x81\x8d\x8f\x90\x9d]")  # bytes that text in it does not have
BROKEN = "\udc80"  # half a character, as no decoder gives it: in the place of bytes that are none of an encoding
NO_TABLES = {  # expressions for how such a file begins
    **{b"PK\x03\x04": "a ZIP archive, as XLSX is", b"\xd0\xcf\x11\xe0": "an old Excel file", b"%PDF": "a PDF"},
    **{b"\x1f\x8b": "gzip", b"BZh[1-9]1AY&SY": "bzip2", b"\xfd7zXZ\x00": "xz", b"PAR1\x15": "Parquet"},
}
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark begins the same
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
log = logging.getLogger(__name__)


def checked_encoding(encoding: str | None, key: str) -> str | None:
    """The encoding itself. Raises InputError where Python knows none of its name."""
    try:
        if encoding is not None:
            "".encode(encoding)
    except (LookupError, ValueError) as error:
        allowed = "an encoding of text, as utf-8, utf-16, cp1252, latin-1"
        raise InputError(f"{key}: found {short(encoding)}, allowed: {allowed}") from error
    return encoding


class TextLines:
    """Lines of a file with their ends, unpacked and decoded; to be read once.

    Without `encoding` its byte order mark says it. One without a mark is UTF-8, or where its first bytes beyond ASCII
    are not, what `guess` says, by default `GUESS`, which is said on stderr.

    Reading raises InputError: the file cannot be read, is no whole packed file, or has bytes that are no text, or lines
    in two encodings; with file and line.

    Attributes:
        encoding: of the lines that were read so far.
        likely: what they look to be in, where they are read as `GUESS`, which nobody named; None where like nothing
            else.
    """

    def __init__(self, source: Path | str, encoding: str | None = None, guess: str | None = None) -> None:
        self.source, self.asked, self.encoding = source, encoding, encoding or "utf-8"
        self.guess, self.is_told = guess or GUESS, guess is not None
        self.likely: str | None = None
        self.sample = b""

    def __iter__(self) -> Iterator[str]:
        name = name_of(self.source)
        try:
            with _binary(self.source) as file:
                yield from self._lines(file, name)
        except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError) as error:
            raise InputError(f"{name}: not a whole {packing(name).__name__} file ({error})") from error
        except OSError as error:
            raise InputError(f"{name}: cannot be read ({error.strerror or error})") from error

    def _lines(self, file: Any, name: str) -> Iterator[str]:
        self.sample = sample = file.peek(SAMPLE)[:SAMPLE]
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
        if kind := next((kind for m, kind in NO_TABLES.items() if re.match(m, sample)), None):
            allowed = "text, as CSV; XLSX or Parquet under a name that ends so, gzip as .gz, bzip2 as .bz2, xz as .xz"
            raise InputError(f"{name}: found {kind}, allowed: {allowed}")
        if marked is not None:
            if marked != "utf-8":
                log.warning("%s: read as %s, as its byte order mark says", name, marked.upper())
            return marked
        if 0 in sample and codecs.lookup(self.guess).name.startswith(("utf-16", "utf-32")):
            log.warning("%s: not UTF-8; the file is read as %s (encoding=NAME says another)", name, self.guess)
            return self.guess
        if sample.count(0) > len(sample) / 3:
            raise _no_text(f"{name}:1", sample.index(0))
        return "utf-8"

    def _decoded(self, lines: Iterable[bytes], name: str, mark: bytes) -> Iterator[str]:
        """Lines of UTF-8, or of `guess` from the first that is not UTF-8, if only ASCII came before."""
        is_known = bool(mark)
        for number, line in enumerate(lines, 1):
            line = line.removeprefix(mark) if number == 1 else line
            if len(line) >= MAX_LINE:
                raise InputError(f"{name}:{number}: a line of {MAX_LINE:,} bytes or more, allowed: shorter ones")
            if (position := line.find(0)) >= 0:
                raise _no_text(f"{name}:{number}", position)
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
                was_utf8 = is_known and self.encoding == "utf-8"
                if not is_known:
                    self.likely = self._likely(line)
                another = f"encoding={self.likely}, which it looks to be" if self.likely else "encoding=NAME"
                if was_utf8 or guessed is None:
                    raise InputError(f"{name}:{number}: {byte}, allowed: UTF-8 text, or {another}") from error
                text = guessed
                if not is_known:
                    another += "" if self.likely else " says another"
                    log.warning("%s:%d: %s; the file is read as %s (%s)", name, number, byte, self.guess, another)
            if is_known and fits != self.encoding:
                problem = f"{name}:{number}: UTF-8, and lines before are not"
                raise InputError(f"{problem}; allowed: one, or encoding={self.guess}")
            self.encoding, is_known = fits, True
            yield text

    def _likely(self, line: bytes) -> str | None:
        """By the whole lines of the sample, or where these are ASCII by the line that is not."""
        lines = self.sample[: self.sample.rfind(b"\n") + 1]
        return None if self.is_told else likely_encoding(line if lines.isascii() else lines)

    def _guessed(self, line: bytes) -> str | None:
        """None where it is not of that encoding, or holds what text has not and nobody named the encoding."""
        if not self.is_told and NO_TEXT.search(line):
            return None
        try:
            return line.decode(self.guess)
        except UnicodeDecodeError:
            return None


def _no_text(where: str, position: int) -> InputError:
    """Of a zero byte, by its place from 0 on."""
    allowed = "UTF-8 text, or encoding=NAME, as utf-16"
    return InputError(f"{where}: byte 0x00 at position {position + 1} is no text, allowed: {allowed}")


@contextmanager
def _binary(source: Path | str) -> Iterator[Any]:
    if source == STDIN:
        if sys.stdin is None or sys.stdin.closed:
            raise InputError("stdin: it is closed, allowed: a file, or rows through a pipe")
        binary = sys.stdin.buffer
        yield binary if hasattr(binary, "peek") else io.BufferedReader(binary)
        return
    with Path(source).open("rb") as file:
        if (module := packing(source)) is not None:
            with module.open(file) as unpacked, io.BufferedReader(unpacked, SAMPLE) as buffered:
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
