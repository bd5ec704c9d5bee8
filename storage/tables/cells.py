"""What a cell holds: a text, a label, or nothing; what of it counts, and how it is compared."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from storage.errors import InputError, short

MAX_FIELD = 1 << 24  # characters; the csv module's own limit of 131072 is too small for whole documents
JOIN = "+"  # between the names of columns that are read as one text, or as the labels of one
FLAGS = {"0": False, "1": True, "false": False, "true": True}  # whether a label applies
UNSEEN = ("Cc", "Cf")  # categories of characters that nobody sees: controls, marks of direction and of no width
BLANKS = "".join(c for c in map(chr, range(0x3001)) if c.isspace()) + (
    "\u00ad\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
)  # white space, and characters of no width that end no emoji
TRUTH = {"True": "TRUE", "False": "FALSE"}  # as Python and pandas write what spreadsheets show in capitals
WHOLE = re.compile(r"^([-+]?\d+)\.0+$")


def text_columns(columns: Iterable[str], column: str) -> list[str]:
    """The columns that `TITLE+BODY`, of texts or of labels, joins; one whose own name holds a plus is meant first."""
    return [column] if column in columns else [_spelt_there(columns, name) for name in column.split(JOIN)]


def _spelt_there(columns: Iterable[str], name: str) -> str:
    """The name as the file has it: an accented letter may be one character or two."""
    if name.isascii() or name in columns:
        return name
    return next((own for own in columns if composed(own) == composed(name)), name)


def composed(text: str) -> str:
    """A text in which an accented letter is one character, where Unicode has that (NFC)."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def text_of(row: Mapping[str, Any], column: str) -> Any:
    """The text of a row; of `TITLE+BODY` the texts of both that can be seen, a line each. None where there is none."""
    values = [row.get(part) for part in text_columns(row, column)]
    if len(values) == 1:
        return values[0]
    filled = [value for value in values if not is_blank(value)]
    texts = [value for value in filled if isinstance(value, str)]
    return "\n".join(texts) if texts == filled else next(value for value in filled if not isinstance(value, str))


def labels_of(row: Mapping[str, Any], column: str, where: str) -> Any:
    """The label of a row; of `TOXIC+THREAT` a list, see `flagged`."""
    names = text_columns(row, column)
    return row.get(names[0]) if len(names) == 1 else flagged({name: row.get(name) for name in names}, where)


def flagged(cells: Mapping[str, Any], where: str) -> list[str] | None:
    """The names whose cells hold 1 or true, the others 0 or false; None where all are empty: it is not known.

    Raises:
        InputError: a cell that holds something else, or is empty where others are not.
    """
    if all(map(is_missing, cells.values())):
        return None
    flags = {name: FLAGS.get(label_text(cell).lower()) for name, cell in cells.items()}
    if (wrong := next((name for name, flag in flags.items() if flag is None), None)) is not None:
        joined = JOIN.join(cells)
        allowed = f"0 and 1, or false and true, in each of {short(joined)}, or nothing in all"
        raise InputError(f"{where}: found {short(cells[wrong])} in column {short(wrong)}; allowed: {allowed}")
    return [name for name, flag in flags.items() if flag]


def is_flag(cell: Any) -> bool:
    """Whether a cell says that a label applies, or that it does not."""
    return label_text(cell).lower() in FLAGS


def is_visible(text: str) -> bool:
    """Whether any character of a text can be seen."""
    return any(not c.isspace() and unicodedata.category(c) not in UNSEEN for c in text)


def folded(text: str) -> str:
    """A text as two are compared that may be one: case, white space and how accents are written aside."""
    return " ".join(composed(text).casefold().split())


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


def no_values(typed: Iterable[Any]) -> list[str]:
    """What stands for no value, as texts, each once, case aside; null, as which a command line reads NULL, is that."""
    names: dict[str, str] = {}
    for value in typed:
        name = "NULL" if value is None else label_text(value)
        names.setdefault(name.casefold(), name)
    return list(names.values())


def emptying(
    missing: Iterable[Any], counts: Counter[str] | None = None
) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Gives a row with an empty cell wherever one of `missing` stands alone, case aside; `counts` says how often."""
    names = {name.casefold(): name for name in no_values(missing) if name}

    def emptied(row: Mapping[str, Any]) -> dict[str, Any]:
        held = {column: names.get(label_text(cell).casefold()) for column, cell in row.items()} if names else {}
        if counts is not None:
            counts.update(filter(None, held.values()))
        return {column: "" if held.get(column) else cell for column, cell in row.items()}

    return emptied


def date_text(value: date) -> str:
    """A date as text; spreadsheets and pandas keep one as its midnight."""
    if isinstance(value, datetime) and value.time() == time.min:
        value = value.date()
    return value.isoformat()


def label_text(label: Any) -> str:
    """The name of a label as a file has it, "" of what is no text, number or date: ``1`` and ``1.0`` are one, also as
    text, for spreadsheets and pandas write whole numbers so where some are missing; ``True`` is ``TRUE``; an accented
    letter is one character."""
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    if isinstance(label, date):
        label = date_text(label)
    name = composed(trim(str(label))) if isinstance(label, str | int | float | Decimal) else ""
    return TRUTH.get(name) or WHOLE.sub(r"\1", name)


def label_name(label: Any, where: str, also: str = "") -> str:
    """`label_text` of a label.

    Raises:
        InputError: it is empty, NaN, or no text, number or date; the line begins with ``where``, and ``also`` ends it.
    """
    name = label_text(label)
    if is_missing(name):
        shown = "an empty label" if label is None or label == "" else f"label {short(str(label))}"
        shown += ", which counts as empty" if name.lower() == "nan" else ""
        raise InputError(f"{where}: found {shown}, allowed: a name or a number{also}")
    return name
