"""What the pages of runs and of the papers' tables share: their looks, and tables that sort and are searched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from markupsafe import Markup

FOLDER = Path(__file__).with_name("parts")


def style() -> Markup:
    """The style sheet."""
    return Markup((FOLDER / "style.css").read_text(encoding="utf-8"))


def table_script() -> Markup:
    """Functions for tables."""
    return Markup((FOLDER / "tables.js").read_text(encoding="utf-8"))


def in_script(value: Any) -> Markup:
    """JSON that cannot end the script it stands in, nor break its lines."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
