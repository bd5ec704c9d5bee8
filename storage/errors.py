"""The exceptions of bad input and of files that cannot be used; each message is one line."""

import difflib
from collections.abc import Iterable
from typing import Any

SHOWN = 80  # characters of a bad value that a message repeats


class InputError(ValueError):
    """Bad input, in one line: where (key, or file and line), what was found, what is allowed."""


class ReportError(ValueError):
    """A run or a result that cannot be found, read or written; the message is one line."""


class Stopped(KeyboardInterrupt):
    """A person has had enough; the message says where it goes on, in one line."""


def short(value: Any, limit: int = SHOWN) -> str:
    """`repr` of a value for a message, at most ``limit`` characters and an ellipsis."""
    text = repr(value[: limit + 1] if isinstance(value, str) else value)
    return text if len(text) <= limit + 2 else f"{text[:limit]}…"


def short_list(names: Any, limit: int = 20) -> str:
    """Names for a message, at most ``limit`` of them."""
    names = list(names)
    return ", ".join(short(name) for name in names[:limit]) + (", …" if len(names) > limit else "")


def counted(number: int, noun: str, plural: str = "") -> str:
    """As "1 row" and "1,200 rows"."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def nearest(name: str, options: Iterable[str]) -> str:
    """The words " (did you mean …?)" with the option that a mistyped name is close to; none where none is."""
    close = difflib.get_close_matches(name, list(options), n=1)
    return f" (did you mean {close[0]}?)" if close else ""
