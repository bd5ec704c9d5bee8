"""What pages share: how a template is filled; those of runs and of the papers' tables also looks and tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from reporting.escape import for_html

if TYPE_CHECKING:
    from jinja2 import Template

FOLDER = Path(__file__).with_name("parts")


def page_template(folder: Path, **filters: Callable[[Any], str]) -> Template:
    """`page.html.j2` of a folder; what it shows is escaped, and what it is not given is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        finalize=for_html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    return environment.get_template("page.html.j2")


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
