"""JSON: an object a line, or an array of objects."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any

from storage.errors import InputError, short
from storage.tables.table import Row

MAX_DEPTH = 100  # of JSON
TOO_DEEP = f"JSON that is nested too deeply, allowed: {MAX_DEPTH} levels"


def objects(lines: Iterable[str], name: str) -> Iterator[tuple[str, Row]]:
    """One JSON object a line."""
    for number, line in enumerate(lines, 1):
        if line := line.strip():
            where = f"{name}:{number}"
            allowed = "one object a line, or an array of objects"
            yield where, _object(parsed_json(line, where, allowed), where, allowed)


def array(lines: Iterable[str], name: str) -> Iterator[tuple[str, Row]]:
    """The objects of one JSON array."""
    entries = parsed_json("".join(lines), f"{name}:1", "an array of objects, or one object a line")
    for number, entry in enumerate(entries, 1):
        where = f"{name}: entry {number}"
        yield where, _object(entry, where, 'objects, as {"text": …}')


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
