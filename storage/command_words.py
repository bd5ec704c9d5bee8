"""Values as they are typed on a command line."""

from __future__ import annotations

import re


def quoted(text: str) -> str:
    """A text as Hydra's grammar takes it literally: there, a backslash means itself unless a quote follows."""
    escaped = re.sub(r"(\\*)('|\Z)", lambda match: 2 * match[1] + ("\\'" if match[2] else ""), text)
    return f"'{escaped}'"


def quoted_word(word: str) -> str:
    """A value as the shell hands it to Hydra: in quotes of both where it is more than a plain word."""
    if re.fullmatch(r"[\w./+-]+", word):
        return word
    for_shell = re.sub(r'["$`\\]', r"\\\g<0>", quoted(word))
    return f'"{for_shell}"'
