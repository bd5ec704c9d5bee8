"""Two rows of a table on the test rows themselves, where their runs kept what they predicted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from reporting.statistics import BootstrapComparison, paired_bootstrap
from storage.records import Run

METRICS: dict[str, Literal["accuracy", "macro_f1"]] = {"test/accuracy": "accuracy", "test/macro_f1": "macro_f1"}
SCALE = 100
LEAST_SEEDS = 10  # of fewer, percentiles of resampled means hold the difference too seldom


def bootstrap_of(
    a: Mapping[int, str], b: Mapping[int, str], metric: str, runs: Mapping[str, Run]
) -> BootstrapComparison | None:
    """Difference a - b in points over resampled seeds and test rows.

    Args:
        a, b: seed -> id of the runs of two rows.
        metric: None comes back for those that predictions do not give.
        runs: finished runs by id; those without predictions of the same test rows are left out, and with fewer than
            `LEAST_SEEDS` left there is no bootstrap.
    """
    if metric not in METRICS:
        return None
    truth: list[str] | None = None
    predicted: list[tuple[list[str], list[str]]] = []
    for seed in sorted(set(a) & set(b)):
        first_rows, second_rows = _test_rows(runs.get(a[seed])), _test_rows(runs.get(b[seed]))
        if (
            first_rows is None
            or second_rows is None
            or first_rows[0] != second_rows[0]
            or first_rows[0] != (truth or first_rows[0])
        ):
            continue
        truth = first_rows[0]
        predicted.append((first_rows[1], second_rows[1]))
    if truth is None or len(predicted) < LEAST_SEEDS:
        return None
    names = sorted({*truth, *(name for pair in predicted for side in pair for name in side)})
    number = {name: place for place, name in enumerate(names)}
    first, second = (np.array([[number[name] for name in pair[side]] for pair in predicted]) for side in (0, 1))
    labels = np.array([number[name] for name in truth])
    result = paired_bootstrap(labels, first, second, METRICS[metric], np.random.default_rng(0))
    low, high = result.interval
    return BootstrapComparison((SCALE * low, SCALE * high), result.p)


def _test_rows(run: Run | None) -> tuple[list[str], list[str]] | None:
    """Labels and predictions of the test rows in their order; None where the run kept none, or has several labels."""
    if run is None or not run.has("predictions.csv"):
        return None
    rows = [row for row in run.read_csv("predictions.csv") if row.get("split", "test") == "test"]
    if not rows or not {"index", "label", "prediction"} <= rows[0].keys():
        return None
    rows.sort(key=lambda row: int(row["index"]))
    return [row["label"] for row in rows], [row["prediction"] for row in rows]
