"""What averaging alone is worth: several runs of one row of a table that answer together.

    python -m papers.ensembles reports/BUDGET table=KEY column=KEY row=KEY [sizes=2,3]

Means over all sets of so many of the row's runs, which cost so many times as much as one. Reads the grid.json there and
the records below reports/. A record has the probability of the class that its run predicts; the other classes share
the rest evenly, so of two runs the surer one answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from papers.paper_report import read_grid, read_stores
from reporting.arguments import folder_and_options, run_command
from reporting.metrics import classification_metrics
from reporting.tables import Table
from storage.errors import ReportError
from storage.records import Run

METRICS = ("accuracy", "macro_f1")
SIZES = "2,3"


def joint_predictions(
    predictions: NDArray[np.int64], probabilities: NDArray[np.float64], num_classes: int
) -> NDArray[np.int64]:
    """The class (N,) whose probabilities over the runs have the largest sum.

    Args:
        predictions: (S, N) class indices of S runs.
        probabilities: (S, N) of the predicted class, 0 to 1; the others share the rest evenly.
        num_classes: C >= 2.
    """
    others = (1 - probabilities) / (num_classes - 1)
    scores = np.repeat(others.sum(0)[:, None], num_classes, axis=1)
    for predicted, gain in zip(predictions, probabilities - others, strict=True):
        scores[np.arange(len(predicted)), predicted] += gain
    return scores.argmax(1)


def figures_by_size(
    labels: NDArray[np.int64],
    predictions: NDArray[np.int64],
    probabilities: NDArray[np.float64],
    num_classes: int,
    sizes: Sequence[int],
) -> dict[int, dict[str, NDArray[np.float64]]]:
    """For each size the `METRICS` of every set of so many runs; size 1 is the single runs.

    Args:
        labels: (N,) class indices.
        predictions, probabilities, num_classes: see `joint_predictions`, S runs.
    """
    figures = {}
    for size in (1, *sizes):
        sets = [list(runs) for runs in combinations(range(len(predictions)), size)]
        joint = [joint_predictions(predictions[runs], probabilities[runs], num_classes) for runs in sets]
        each = [classification_metrics(labels, predicted, num_classes) for predicted in joint]
        figures[size] = {key: np.array([metrics[key] for metrics in each]) for key in METRICS}
    return figures


def _classes(runs: Sequence[Run]) -> list[str]:
    """Names of the classes of all runs, with those that no test row has."""
    classes: list[str] = runs[0].read_metrics().get("label_names") or []
    for run in runs:
        metrics = run.read_metrics()
        if "test/hamming_loss" in metrics:
            raise ReportError(f"{run.id}: found several labels a text; allowed: runs of one class a text")
        if len(classes) < 2 or metrics.get("label_names") != classes:
            raise ReportError(f"{run.id}: found label_names {metrics.get('label_names')}; allowed: two or more, the "
                              "same ones in each run of the cell")  # fmt: skip
    return classes


def _test_rows(run: Run, classes: Sequence[str]) -> list[dict[str, str]]:
    rows = run.read_csv("predictions.csv") if run.has("predictions.csv") else []
    rows = [row for row in rows if row["split"] == "test"]
    if not rows or not all(row.get("probability") for row in rows):
        raise ReportError(f"{run.id}: found no probabilities of test rows; allowed: runs that kept them")
    if unknown := {row[key] for row in rows for key in ("label", "prediction")}.difference(classes):
        raise ReportError(f"{run.id}: found {min(unknown)!r} in its test rows; allowed: its label_names")
    return sorted(rows, key=lambda row: int(row["index"]))


def _runs(folder: Path, place: Mapping[str, str]) -> list[Run]:
    """The finished runs of a cell; its table, column and row are told."""
    cells = (read_grid(folder).get("tables") or {}).get(place.get("table", ""), [])
    cell = next((cell for cell in cells if all(cell[key] == place.get(key) for key in ("column", "row"))), None)
    if cell is None:
        raise ReportError(f"{folder}: found no cell {dict(place)}; allowed: table=…, column=…, row=… of its grid.json")
    stores = read_stores(sorted(path for path in folder.parent.glob("*") if path.is_dir()))
    return [stores[name] for name in cell["runs"].values() if name in stores]


def main(arguments: Sequence[str]) -> None:
    folder, options, _ = folder_and_options(arguments, ("table", "column", "row", "sizes"))
    told = options.pop("sizes", SIZES)
    runs = _runs(folder, options)
    sizes = [int(size) if size.isdecimal() else 0 for size in told.split(",")]
    if not 2 <= min(sizes) <= max(sizes) <= len(runs):
        raise ReportError(f"sizes: found {told}, allowed: from 2 to {len(runs)}, the runs of the cell")
    classes = _classes(runs)
    rows = [_test_rows(run, classes) for run in runs]
    references = [[(int(row["index"]), row["label"]) for row in each] for each in rows]
    if any(each != references[0] for each in references):
        raise ReportError(f"{folder}: found different test rows in runs of {options['row']}; allowed: the same ones")
    number = {name: place for place, name in enumerate(classes)}
    labels = np.array([number[label] for _, label in references[0]])
    predictions = np.array([[number[row["prediction"]] for row in each] for each in rows])
    probabilities = np.array([[float(row["probability"]) for row in each] for each in rows])
    figures = figures_by_size(labels, predictions, probabilities, len(classes), sizes)
    lines = [
        (str(size), str(len(values["accuracy"])), *(f"{100 * values[key].mean():.2f}" for key in METRICS))
        for size, values in figures.items()
    ]
    header = ("runs that answer together", "sets of them", "accuracy, %", "macro-F1, %")
    print(Table("", header, tuple(lines)).markdown())


if __name__ == "__main__":
    run_command(main, __doc__, least=2)
