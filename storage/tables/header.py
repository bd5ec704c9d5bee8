"""Names of columns, where a file has none or one twice."""

from __future__ import annotations

import itertools
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence

from storage.errors import InputError, short
from storage.tables.file_names import format_of

log = logging.getLogger(__name__)


def by_position(number: int) -> list[str]:
    """Names of the columns of a table without a header."""
    return [f"column_{position}" for position in range(1, number + 1)]


def told_apart(where: str, header: Sequence[str]) -> list[str]:
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


def refuse_no_header(header: bool | None, name: str, kind: str) -> None:
    """Raises InputError where the columns of such a format are said to have no names."""
    if header is False:
        raise InputError(
            f"{name}: header=false has no effect, allowed with CSV, TSV and XLSX; {kind} names its columns"
        )
