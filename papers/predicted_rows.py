"""Two rows of a table on the test rows themselves, where their runs kept what they predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from reporting.metrics import NO_CLASS, THIRDS, thirds
from reporting.statistics import BootstrapComparison, RowMetric, paired_bootstrap
from storage.records import Run

METRICS: dict[str, RowMetric] = {"test/accuracy": "accuracy", "test/macro_f1": "macro_f1"}
OF_THIRDS = {f"test/macro_f1_{name}": name for name in THIRDS}
SCALE = 100
LEAST_SEEDS = 10  # of fewer, percentiles of resampled means hold the difference too seldom


def bootstrap_of(
    a: Mapping[int, str],
    b: Mapping[int, str],
    metrics: Sequence[str],
    runs: Mapping[str, Run],
) -> BootstrapComparison | None:
    """Difference a - b in points over resampled seeds and test rows.

    Args:
        a, b: seed -> id of the runs of two rows.
        metrics: one, or two of which the difference in the second is taken from that in the first; None comes back for
            those that predictions do not give.
        runs: finished runs by id; those without predictions of the same test rows are left out, and with fewer than
            `LEAST_SEEDS` left there is no bootstrap.
    """
    if not set(metrics) <= {*METRICS, *OF_THIRDS}:
        return None
    truth: list[str] | None = None
    predicted: list[tuple[list[str], list[str]]] = []
    used: list[Run] = []
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
        used += runs[a[seed]], runs[b[seed]]
    if truth is None or len(predicted) < LEAST_SEEDS:
        return None
    names = sorted({*truth, *(name for pair in predicted for side in pair for name in side)} - {""})
    number = {name: place for place, name in enumerate(names)} | {"": NO_CLASS}
    first, second = (np.array([[number[name] for name in pair[side]] for pair in predicted]) for side in (0, 1))
    labels = np.array([number[name] for name in truth])
    of_rows = [row_metric for key in metrics if (row_metric := _row_metric(key, used, truth, number)) is not None]
    if len(of_rows) < len(metrics):
        return None
    result = paired_bootstrap(labels, first, second, of_rows, np.random.default_rng(0))
    low, high = result.interval
    return BootstrapComparison((SCALE * low, SCALE * high), result.p)


def _row_metric(metric: str, runs: Sequence[Run], truth: Sequence[str], number: Mapping[str, int]) -> RowMetric | None:
    """As `paired_bootstrap` takes it; None of a third of the classes where the runs count their rows differently."""
    if metric in METRICS:
        return METRICS[metric]
    figures = [run.read_metrics() for run in runs]
    counts = {(*each["label_names"], *each["class_counts"]) for each in figures}
    if len(counts) > 1:
        return None
    third = thirds(figures[0]["class_counts"])[OF_THIRDS[metric]]
    names = {figures[0]["label_names"][place] for place in third}
    return np.array([number[name] for name in sorted(names & set(truth))], dtype=np.int64)


def _test_rows(run: Run | None) -> tuple[list[str], list[str]] | None:
    """Labels and predictions of the test rows in their order; None where the run kept none, or has several labels."""
    if run is None or not run.has("predictions.csv") or "test/hamming_loss" in run.read_metrics():
        return None
    rows = [row for row in run.read_csv("predictions.csv") if row.get("split", "test") == "test"]
    if not rows or not {"index", "label", "prediction"} <= rows[0].keys():
        return None
    rows.sort(key=lambda row: int(row["index"]))
    return [row["label"] for row in rows], [row["prediction"] for row in rows]
