"""Figures of a report, as SVG and PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# Okabe and Ito's palette: told apart by the colour-blind and in grey
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
MARKERS = "osD^vP"
LABELS = {"test/accuracy": "accuracy", "test/macro_f1": "macro-F1"} | {
    f"test/macro_f1_{third}": f"F1, {name} third"
    for third, name in (("head", "largest"), ("middle", "middle"), ("tail", "smallest"))
}


def seeds_figure(
    values: Mapping[str, Mapping[int, Mapping[str, Any]]],
    file: Path,
    title: str,
    metrics: Sequence[str] = tuple(LABELS),
) -> None:
    """One panel a metric: each seed of each group as a point, the mean as a bar; `file` gets .svg and .png.

    Args:
        values: group -> seed -> metrics, as `reporting.compare.grouped` gives them.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams["svg.hashsalt"] = "kontrast"  # the same figure is the same file
    figure, panels = plt.subplots(1, len(metrics), figsize=(2.3 * len(metrics), 3.2), layout="constrained")
    for panel, metric in zip(np.atleast_1d(panels), metrics, strict=True):
        for place, (group, seeds) in enumerate(sorted(values.items())):
            points = [100 * figures[metric] for figures in seeds.values()]
            offsets = np.linspace(-0.15, 0.15, len(points)) if len(points) > 1 else [0]
            style = {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}
            panel.scatter(place + np.asarray(offsets), points, s=22, label=group, **style)
            panel.hlines(np.mean(points), place - 0.3, place + 0.3, color=style["color"], linewidth=2)
        panel.set_title(LABELS.get(metric, metric), fontsize=10)
        panel.set_xticks([])
        panel.set_xlim(-0.6, len(values) - 0.4)
        panel.grid(axis="y", alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    np.atleast_1d(panels)[0].set_ylabel("%")
    handles, names = np.atleast_1d(panels)[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    figure.suptitle(title, fontsize=11)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(file.with_suffix(".png"), dpi=150)
    plt.close(figure)
