"""What is said of a table, or refused, by the names of its columns and by what stands in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

from storage.command_words import in_shell_quotes, literal, quoted_word
from storage.errors import InputError, short, short_list
from storage.tables import JOIN, Row, Table, is_blank, is_flag, is_missing, no_values, text_columns
from tasks.auto.reading.guesses import GUESS, LISTS, PROSE, are_numbers, flag_columns, words_in
from tasks.auto.reading.labelled import Labelled

NO_VALUES = ("na", "n/a", "#n/a", "<na>", "null", "none", "nil", r"\n")  # as R, SQL and the like write where none is
LONGEST_NO_VALUE = 10  # characters, blanks around it included


def refuse_whole_columns(file: str, table: Table, rows: Sequence[tuple[str, Row]]) -> None:
    """Raises InputError: JSON of one object that holds all values of each column, as pandas writes it by default."""
    row = rows[0][1]
    if table.columns is None and len(rows) == 1 and row and all(isinstance(cell, dict | list) for cell in row.values()):
        raise InputError(
            f"{file}: found one object of {short_list(row)}; allowed: an object for each row, one a line or in an "
            f"array (pandas: orient='records')"
        )


def refuse_no_header(where: str, label: str, rows: Iterable[tuple[str, Row]]) -> None:
    """Raises InputError: the name of the label column is a label of other rows too, so that it is no name."""
    if label in (row.get(label) for _, row in rows):
        raise InputError(
            f"{where}: found {short(label)}, which is a label of other rows too, in the place of a column's name; "
            f"allowed: a header line, as text,label, or header=false (label_column={quoted_word(label)} says that it "
            f"is one)"
        )


def refuse_values(table: Table, names: Sequence[str], label: str, rows: Sequence[Row]) -> None:
    """Raises InputError: of the names of the columns one of texts is prose and one of numbers a number, so that neither
    is a name. A question may be one, of a survey."""
    prose = [name for name in names if words_in(name) >= PROSE and not name.rstrip().endswith(("?", ":"))]
    numbers = [
        name
        for name in table.columns or ()
        if re.search(r"\d", name)
        and not re.fullmatch(r"(19|20)\d\d", name)  # a year may be one
        and are_numbers([name, *(str(row[name]) for row in rows)])
    ]
    if prose and numbers:
        raise InputError(
            f"{table.header}: found {short(prose[0])} and {short(numbers[0])} in the place of columns' names; allowed: "
            f"a header line, as text,label, or header=false (label_column={quoted_word(label)} says that it is one)"
        )


def notes_on_columns(
    data: Labelled, others: Mapping[str, Sequence[str]], first_row: Sequence[str], rows: Sequence[Row]
) -> list[str]:
    """What is said of the columns: which `others` may be meant, that the first row, which may be none, names them, and
    that labels look merged."""
    notes, label = [], data.about["label_column"]
    for kind, names in others.items():
        notes += [f"{kind}s may also stand in {short_list(names)}: {kind}_column=NAME"] if names else []
    if first_row:
        notes.append(f"the first row names the columns, {short_list(first_row)}; header=false reads it as a row")
    if data.about["format"] == "xlsx" and _look_merged([row.get(label) for row in rows]):
        notes.append(
            f"column {short(label)} looks merged: rows below a label have none, and are read as texts without one; "
            f"fill it down in a spreadsheet program where they have that label"
        )
    return notes


def _look_merged(cells: Sequence[Any]) -> bool:
    """Whether labels stand above the empty cells that each is meant for too: more than half are empty, from the first
    row on, most labels have such cells below, and none is repeated after them."""
    filled = [place for place, cell in enumerate(cells) if not is_blank(cell)]
    if not filled or filled[0] != 0 or 2 * len(filled) >= len(cells):
        return False
    above_blank = sum(below - place > 1 for place, below in pairwise([*filled, len(cells)]))
    return 2 * above_blank > len(filled) and all(cells[a] != cells[b] for a, b in pairwise(filled))


def likely_flags(columns: Sequence[str], rows: Sequence[Row], text: str, labels: Sequence[str]) -> list[str]:
    """Columns that hold 0 and 1 in these rows beside the texts; `labels` are those that may be the labels' column."""
    free = [name for name in columns if name not in text_columns(columns, text)]
    return [name for name in flag_columns(free, rows, [n for n in free if n in labels]) if JOIN not in name]


def with_flags(rows: Iterable[tuple[str, Row]], flags: list[str]) -> Iterator[tuple[str, Row]]:
    """The rows; out of `flags` goes any column in which one of them holds neither 0 nor 1, or nothing where others
    hold one of these: as labels they would be refused."""
    for where, row in rows:
        values = {name: row.get(name) for name in flags}
        if not all(map(is_missing, values.values())):
            flags[:] = [name for name, cell in values.items() if is_flag(cell)]
        yield where, row


def notes_on_flags(flags: Sequence[str]) -> list[str]:
    """What is said where several columns hold 0 and 1."""
    if len(flags) < 2:
        return []
    typed = f"label_column={quoted_word(JOIN.join(flags))}"
    return [f"columns {short_list(flags)} of 0 and 1 may each be a label; {typed} learns several labels a text"]


def separator_of_flags(typed: str | None) -> str:
    """Raises InputError: one was typed that says otherwise."""
    if typed not in (GUESS, LISTS):
        shown = "null" if typed is None else short(typed)
        allowed = "no word of it, for each column is a label"
        raise InputError(f"label_separator: found {shown} beside a label_column of several; allowed: {allowed}")
    return LISTS


def notes_on_no_values(labels: Counter[str], texts: Iterable[str]) -> list[str]:
    """What is said where labels or texts are words that R, SQL and the like write where there is none."""
    strange = Counter(text for text in texts if len(text) <= LONGEST_NO_VALUE and text.strip().lower() in NO_VALUES)
    kinds = {"label": {name: labels[name] for name in labels if name.lower() in NO_VALUES}, "text": strange}
    names = ",".join(map(literal, no_values(chain(*kinds.values()))))
    typed = in_shell_quotes(f"missing=[{names}]")
    notes = []
    for kind, counts in kinds.items():
        counted = "a class" if kind == "label" else "a text"
        for name, number in counts.items():
            rows = f"{number:,} row{'' if number == 1 else 's'}"
            notes.append(f"{kind} {short(name)} ({rows}) counts as {counted}; {typed} reads it as empty")
    return notes
