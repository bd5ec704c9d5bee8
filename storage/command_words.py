"""Values as they are typed on a command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PLAIN = re.compile(r"(?!(?:true|false|null|nan|inf)\Z)[a-z_/][\w./+-]*", re.ASCII | re.IGNORECASE)
PLAIN_IN_SHELL = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


def quoted(text: str) -> str:
    """A text as Hydra's grammar takes it literally: there, a backslash means itself unless a quote follows."""
    escaped = re.sub(r"(\\*)('|\Z)", lambda match: 2 * match[1] + ("\\'" if match[2] else ""), text)
    return f"'{escaped}'"


def literal(text: str) -> str:
    """The text itself where Hydra's grammar reads it as that, else `quoted`: it knows no letters but ASCII without
    quotes, and takes 3, 1e5, null and true for values."""
    return text if PLAIN.fullmatch(text) else quoted(text)


def value_word(value: Any) -> str:
    """A value of Python as Hydra's grammar reads it back: texts and paths stay texts, None, truth values and numbers,
    NumPy's too, what they are; lists and mappings hold such values."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{value_word(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(value_word, value)) + "]"
    return literal(str(value)) if isinstance(value, str | Path) else str(value)


def in_shell_quotes(word: str) -> str:
    """A word in double quotes, as the shell hands it on unchanged.

    Exclamation marks stand in single quotes: pasted into bash, one in double quotes recalls an earlier command.
    """
    escaped = re.sub(r'["$`\\]', r"\\\g<0>", word)
    return f'"{escaped}"'.replace("!", "\"'!'\"")


def quoted_word(word: str) -> str:
    """A value as the shell hands it to Hydra: in quotes of both where it is more than a plain word."""
    value = literal(word)
    return value if value == word else in_shell_quotes(value)


def shell_line(overrides: Iterable[str]) -> str:
    """Overrides, as Hydra takes them, as one line for the shell: in quotes where one is more than a plain word."""
    return " ".join(word if PLAIN_IN_SHELL.fullmatch(word) else in_shell_quotes(word) for word in overrides)
