"""Texts of data where they are shown: labels, names and messages that could be anything. One function a medium."""

from __future__ import annotations

import re
from typing import Any

# what moves a cursor, rings, reorders what is read, ends a line, or is no character at all
_UNSHOWN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
_LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": "\\textbackslash{}",
        "~": "\\textasciitilde{}",
        "^": "\\textasciicircum{}",
        "±": "$\\pm$",
        "–": "--",
        "δ": "$\\delta$",
        "α": "$\\alpha$",
        "·": "$\\cdot$",
        "×": "$\\times$",
        "†": "\\dag{}",
        "…": "\\dots{}",
        "<": "$<$",
        ">": "$>$",
    }
)


class Markup(str):
    """Text that is written in the language of its medium already, and is shown as it is."""


def shortened(text: str, width: int) -> str:
    """At most `width` characters, the last of them an ellipsis where some are left out."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def for_terminal(text: str) -> str:
    r"""On one line, with no control over the terminal: what is not shown stands as its code, ``\x1b``, ``\n``."""
    return _UNSHOWN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def for_markdown(text: str) -> str:
    """In a cell of a table: no end of the cell, no HTML tag, no link. Emphasis stays."""
    if isinstance(text, Markup):
        return text
    text = for_terminal(text).replace("|", "\\|").replace("](", "]\\(")
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)


def for_latex(text: str) -> str:
    """As plain text, outside of mathematics."""
    return for_terminal(text).translate(_LATEX)


def for_html(value: Any) -> Any:
    """What a template of jinja2 finally shows: it escapes the tags itself, and leaves what is HTML already."""
    return for_terminal(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def for_figure(text: str, width: int = 200) -> str:
    """In a figure of matplotlib: no formula between dollars, and in the legend whatever it begins with."""
    text = shortened(for_terminal(text), width).replace("$", "\\$")
    return f"\u200b{text}" if text.startswith("_") else text
