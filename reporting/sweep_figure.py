"""The figure of a sweep: what each swept key does, averaged over the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reporting.curves import lines_figure
from reporting.escape import for_figure
from reporting.figures import COLOURS, drawing, picture, save
from reporting.tables import SweepJob

METRICS = {
    "test/accuracy": "accuracy",
    "test/macro_f1": "macro-F1",
    "val/macro_f1": "macro-F1 on validation",
    "cluster/acc": "cluster accuracy",
    "cluster/nmi": "NMI",
}
MOST_VALUES = 24  # of a key; more are no axis


def sweep_figure(jobs: Sequence[SweepJob], file: Path) -> Path | None:
    """One panel a swept key: mean and standard deviation of the finished jobs at each of its values.

    Keys whose values are no numbers are numbered in the order in which they came, and named on the axis. Seeds are
    averaged over where another key varies too. None where nothing varies or nothing is finished.
    """
    finished = [job for job in jobs if job.status == "finished" and any(key in job.metrics for key in METRICS)]
    keys = [key for key in dict.fromkeys(key for job in finished for key in job.overrides) if _varies(finished, key)]
    keys = [key for key in keys if key != "seed"] or keys
    if not keys:
        return None
    ticks = {key: _ticks(finished, key) for key in keys}
    series = {key: _lines(finished, key, ticks[key][0]) for key in keys}
    tick_names = {key: names for key, (_, names) in ticks.items() if names}
    return lines_figure(series, "", "%", file, tick_names)


def _varies(jobs: Sequence[SweepJob], key: str) -> bool:
    return 1 < len({job.overrides.get(key) for job in jobs}) <= MOST_VALUES


def _ticks(jobs: Sequence[SweepJob], key: str) -> tuple[dict[str, float], list[str]]:
    """Place of each value on the axis, and the names to write there where the values are no numbers."""
    values = list(dict.fromkeys(job.overrides[key] for job in jobs if key in job.overrides))
    try:
        return {value: float(value) for value in values}, []
    except ValueError:
        return {value: float(place) for place, value in enumerate(values)}, values


def _lines(jobs: Sequence[SweepJob], key: str, places: dict[str, float]) -> dict[str, dict[float, list[float]]]:
    lines: dict[str, dict[float, list[float]]] = {}
    for job in (job for job in jobs if key in job.overrides):
        for metric, name in METRICS.items():
            if job.metrics.get(metric) is not None:
                lines.setdefault(name, {}).setdefault(places[job.overrides[key]], []).append(job.metrics[metric])
    return lines


@picture
def trials_figure(trials: Sequence[tuple[Mapping[str, Any], float]], metric: str, file: Path) -> Path | None:
    """One panel a searched key: the metric of each trial against its value; None with fewer than two trials."""
    keys = list(dict.fromkeys(key for settings, _ in trials for key in settings))
    if len(trials) < 2 or not keys:
        return None
    with drawing(3.2, 2.8, len(keys)) as (figure, panels):
        for panel, key in zip(panels, keys, strict=True):
            points = [(settings[key], 100 * value) for settings, value in trials if key in settings]
            panel.scatter(*zip(*points, strict=True), s=20, color=COLOURS[0], edgecolor="black", linewidth=0.4)
            panel.set_xlabel(for_figure(key))
            panel.set_ylabel(for_figure(f"{metric}, %"))
            panel.grid(alpha=0.3)
            panel.spines[["top", "right"]].set_visible(False)
        return save(figure, file)
