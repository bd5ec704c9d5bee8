"""What the pages of runs and of the papers' tables share: their looks, and tables that sort and are searched."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

FOLDER = Path(__file__).with_name("parts")


def style() -> Markup:
    """The style sheet."""
    return Markup((FOLDER / "style.css").read_text(encoding="utf-8"))


def table_script() -> Markup:
    """Functions for tables."""
    return Markup((FOLDER / "tables.js").read_text(encoding="utf-8"))
