"""The figures of a report: curves, label distributions, embeddings, seeds. SVG, PDF and PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import truediv
from pathlib import Path
from typing import Any

import numpy as np

from reporting.escape import for_figure
from reporting.figures import COLOURS, DASHES, MARKERS, PANELS_A_ROW, drawing, legend_below, picture, save
from reporting.tables import factor_of, is_share

METRICS = {"test/accuracy": "accuracy", "test/macro_f1": "macro-F1"} | {
    f"test/macro_f1_{third}": f"F1, {name} third"
    for third, name in (("head", "largest"), ("middle", "middle"), ("tail", "smallest"))
}


MOST_TICKS = 8  # of a logarithmic axis


def _is_logarithmic(numbers: Sequence[float]) -> bool:
    """Whether rising numbers above 0 are few and each far beyond the last, so that most would lie at one end."""
    if not 3 <= len(numbers) <= MOST_TICKS or numbers[0] <= 0 or numbers[-1] < 10 * numbers[0]:
        return False
    return min(map(truediv, numbers[1:], numbers)) >= 1.8


@picture
def lines_figure(
    series: Mapping[str, Mapping[str, Mapping[float, Sequence[float]]]],
    x_label: str,
    y_label: str,
    file: Path,
    tick_names: Mapping[str, Sequence[str]] | None = None,
    factor: float = 100,
    bands: bool = False,
) -> Path:
    """One panel a key of ``series``; in it one line a name: mean over values at each x, with the standard deviation.

    Args:
        series: panel -> line -> x -> values.
        tick_names: panel -> names to write at x = 0, 1, …; such points are not joined.
        factor: of the values; 100 draws fractions in %.
        bands: whether standard deviations are bands about the lines, not bars at the points.
    """
    with drawing(3.5, 3.0, len(series)) as (figure, panels):
        for panel, (title, lines) in zip(panels, series.items(), strict=True):
            for place, (name, points) in enumerate(lines.items()):
                xs = sorted(points)
                means = [factor * float(np.mean(points[x])) for x in xs]
                spreads = [factor * float(np.std(points[x], ddof=1)) if len(points[x]) > 1 else 0.0 for x in xs]
                colour = COLOURS[place % len(COLOURS)]
                if bands:
                    low, high = np.subtract(means, spreads), np.add(means, spreads)
                    panel.fill_between(xs, low, high, color=colour, alpha=0.2, linewidth=0)
                panel.errorbar(
                    xs,
                    means,
                    yerr=None if bands else spreads,
                    color=colour,
                    marker=MARKERS[place % len(MARKERS)],
                    linestyle="" if title in (tick_names or {}) else DASHES[place % len(DASHES)],
                    markersize=4.5,
                    capsize=2,
                    linewidth=1.4,
                    label=for_figure(name, 40),
                )
            panel.set_title(for_figure(title), fontsize=10, loc="left")
            panel.set_xlabel(x_label)
            if names := (tick_names or {}).get(title):
                panel.set_xticks(range(len(names)), [for_figure(name, 28) for name in names], rotation=30, ha="right")
            elif _is_logarithmic(every_x := sorted({x for points in lines.values() for x in points})):
                panel.set_xscale("log")
                panel.set_xticks(every_x, [f"{x:g}" for x in every_x])
                panel.minorticks_off()
            elif all(float(x).is_integer() for x in every_x):
                panel.xaxis.get_major_locator().set_params(integer=True)  # there is no epoch 2.5
            panel.grid(axis="y", alpha=0.3)
            panel.spines[["top", "right"]].set_visible(False)
        for panel in panels[::PANELS_A_ROW]:
            panel.set_ylabel(y_label)
        legend_below(figure, panels[0])
        return save(figure, file)


@picture
def label_figure(counts: Mapping[str, int], thinned: Mapping[str, int] | None, title: str, file: Path) -> Path:
    """Bars of the training rows a class, largest first; hatched bars in front are what a thinning keeps."""
    names = sorted(counts, key=lambda name: -counts[name])
    with drawing(min(max(4.0, 0.24 * len(names) + 1.5), 11.0), 3.0) as (figure, (panel,)):
        places = np.arange(len(names))
        heights = [counts[name] for name in names]
        panel.bar(places, heights, color=COLOURS[4], edgecolor="black", linewidth=0.4, label="all")
        if thinned:
            kept_counts = [thinned.get(name, 0) for name in names]
            panel.bar(places, kept_counts, color="white", edgecolor="black", hatch="////", linewidth=0.6, label="kept")
            panel.legend(frameon=False)
        panel.set_xticks(places, [for_figure(name, 22) for name in names], rotation=90 if len(names) > 8 else 25)
        panel.set_ylabel("training rows")
        panel.set_title(for_figure(title), fontsize=10, loc="left")
        panel.spines[["top", "right"]].set_visible(False)
        return save(figure, file)


@picture
def conflict_figure(
    ratios: Mapping[str, Mapping[int, Sequence[float]]], counts: Sequence[int], title: str, file: Path
) -> Path:
    """Share of conflicting positive pairs by class, classes from the largest to the smallest, one marker a method.

    Args:
        ratios: method -> class -> shares (fractions) over seeds.
        counts: training rows (C,).
    """
    order = np.argsort(-np.asarray(counts), kind="stable")
    with drawing(min(max(4.5, 0.24 * len(order) + 1.5), 11.0), 3.0) as (figure, (panel,)):
        for place, (name, classes) in enumerate(ratios.items()):
            means = [100 * float(np.mean(classes[c])) if classes.get(int(c)) else np.nan for c in order]
            style = {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}
            style |= {"linestyle": DASHES[place % len(DASHES)], "label": for_figure(name, 40)}
            panel.plot(np.arange(len(order)), means, **style)
        panel.set_xticks(np.arange(len(order)), [str(counts[c]) for c in order], rotation=90 if len(order) > 8 else 0)
        panel.set_xlabel("training rows of the class")
        panel.set_ylabel("conflicting pairs, %")
        panel.set_title(for_figure(title), fontsize=10, loc="left")
        panel.grid(axis="y", alpha=0.3)
        panel.legend(frameon=False)
        panel.spines[["top", "right"]].set_visible(False)
        return save(figure, file)


@picture
def embedding_figure(
    panels: Mapping[str, tuple[Any, Any]], names: Mapping[int, str], file: Path
) -> Path:
    """Scatter panels of points in the plane, colour and marker by class.

    Args:
        panels: title -> coordinates (N, 2) and labels (N,).
        names: class -> name, in the order of the legend.
    """
    with drawing(3.2, 3.2, len(panels)) as (figure, axes):
        for panel, (title, (points, labels)) in zip(axes, panels.items(), strict=True):
            for place, (label, name) in enumerate(names.items()):
                class_points = np.asarray(points)[np.asarray(labels) == label]
                style = {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[(place // 2) % len(MARKERS)]}
                panel.scatter(*class_points.T, s=9, alpha=0.75, linewidth=0, label=for_figure(name, 40), **style)
            panel.set_title(for_figure(title), fontsize=10, loc="left")
            panel.set_xticks([])
            panel.set_yticks([])
        legend_below(figure, axes[0], most_columns=min(5, 2 * len(panels)), markerscale=2)
        return save(figure, file)


@picture
def seeds_figure(
    values: Mapping[str, Mapping[int, Mapping[str, Any]]],
    file: Path,
    title: str,
    metrics: Sequence[str] = tuple(METRICS),
) -> Path:
    """One panel a metric: each seed of each group that has it as a point, the mean as a bar; shares in %.

    Args:
        values: group -> seed -> metrics, as `reporting.compare.grouped` gives them.
    """
    are_mixed = not all(map(is_share, metrics))
    with drawing(2.3, 3.2, len(metrics), panels_a_row=min(len(metrics), len(METRICS))) as (figure, panels):
        for panel, metric in zip(panels, metrics, strict=True):
            factor = factor_of(metric)
            for place, (group, seeds) in enumerate(sorted(values.items())):
                points = [factor * figures[metric] for figures in seeds.values() if figures.get(metric) is not None]
                offsets = np.linspace(-0.15, 0.15, len(points)) if len(points) > 1 else np.zeros(len(points))
                style = {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}
                panel.scatter(place + offsets, points, s=22, label=for_figure(group, 40), **style)
                if points:
                    panel.hlines(np.mean(points), place - 0.3, place + 0.3, color=style["color"], linewidth=2)
            unit = ", %" if are_mixed and is_share(metric) else ""
            panel.set_title(METRICS.get(metric, for_figure(metric, 40)) + unit, fontsize=10)
            panel.set_xticks([])
            panel.set_xlim(-0.6, len(values) - 0.4)
            panel.grid(axis="y", alpha=0.3)
            panel.spines[["top", "right"]].set_visible(False)
        panels[0].set_ylabel("" if are_mixed else "%")
        legend_below(figure, panels[0])
        figure.suptitle(for_figure(title), fontsize=11)
        return save(figure, file)
