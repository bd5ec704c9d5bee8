"""A table as it is read: its columns, its rows and where they stand."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from storage.errors import InputError, short, short_list
from storage.tables.cells import emptying, labels_of, text_columns, text_of
from storage.tables.text_lines import TextLines

COMPARED_ROWS = 50  # of the beginning, whose keys are the columns of JSON, and in which a column of XLSX may be empty

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

    @property
    def likely_encoding(self) -> str | None:
        """What a text that is read as another encoding looks to be in, as far as its rows were read."""
        return None if self.lines is None else self.lines.likely

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
                raise without_values(self.name, column)

    def need_text(self, column: str, hint: str) -> None:
        """The same of a column of texts or labels, or of each of those that it joins."""
        for part in text_columns(self.columns or (), column):
            self.need(part, hint)

    def without(self, missing: Iterable[Any], counts: Counter[str]) -> Table:
        """The table with an empty cell wherever one of `missing` stands alone, case aside; `counts` says how often."""
        if not (missing := list(missing)):
            return self
        emptied = emptying(missing, counts)
        return replace(self, rows=((where, emptied(row)) for where, row in self.rows))

    def with_labels(self, column: str, hint: str, is_left_out: Callable[[Row], bool] = lambda row: False) -> Table:
        """The table with what `TOXIC+THREAT` says in a column of that name; itself where it names one column. Of rows
        that are left out these columns are not read.

        Raises:
            InputError: it lacks one of these; reading rows raises what `flagged` does.
        """
        if text_columns(self.first_names(), column) == [column]:
            return self
        self.need_text(column, hint)
        rows = (
            (where, row | {column: None if is_left_out(row) else labels_of(row, column, where)})
            for where, row in self.rows
        )
        return replace(self, columns=self.columns and (*self.columns, column), rows=rows)

    def text(self, where: str, row: Row, column: str, hint: str) -> Any:
        """`text_of` a row. Raises InputError where it lacks the key, or all of those that are joined."""
        if not any(part in row for part in text_columns(row, column)):
            raise InputError(f"{where}: {self._lacks('key', column, hint, row)}")
        return text_of(row, column)

    def _lacks(self, kind: str, column: str, hint: str, names: Iterable[str]) -> str:
        delimiter = f" with delimiter {self.delimiter!r}" if self.delimiter else ""
        return f"no {kind} {short(column)} ({hint}), allowed{delimiter}: one of {short_list(names) or 'none'}"


def without_values(file: str, column: str) -> InputError:
    """Of a column whose formulas no program has calculated."""
    return InputError(
        f"{file}: column {short(column)} holds formulas without values; allowed: values (open and save the file in a "
        f"spreadsheet program)"
    )
