"""The page of a clustering: a map of its texts, its clusters, and how they merge. It needs no file and no network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from reporting.page_parts import in_script, page_template, style, table_script

HERE = Path(__file__).parent


def clusters_page(content: Mapping[str, Any], curve: str = "") -> str:
    """The whole page.

    Args:
        content: what is shown, plain values as `tasks.cluster.page` gathers them.
        curve: an SVG drawn here, of the number of clusters; empty: there is none.
    """
    return page_template(HERE).render(
        content=content,
        data=in_script(content),
        curve=Markup(curve[curve.find("<svg") :]) if curve else "",  # ours, without any text of a run
        style=style(),
        table_script=table_script(),
        script=Markup((HERE / "clusters.js").read_text(encoding="utf-8")),
    )
