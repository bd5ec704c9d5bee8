"""Whether the learning curve of `task=auto` foretells what twice the labels bring: on train rows alone.

    python -m benchmarks.twice_the_labels [--datasets agnews trec …] [--rows 100 300 1000] [--drawings 10]

Of each train split, embedded by MiniLM as it comes, twice as many rows are drawn as are "labelled". Logistic regression
as `task=auto` has it sees the folds of the first half and shares of their train rows, from which the gain is foretold;
the truth is its macro-F1 on up to 5,000 further train rows, fitted to all drawn rows, less that fitted to the half.
What is told was chosen on drawings 100 to 105 of all these sets but r52; r52 came later.
"""

from __future__ import annotations

import argparse
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tabulate import tabulate

from benchmarks import two_views
from benchmarks.auto import thinned
from reporting.auto.learning_curve import learning_curve
from reporting.metrics import classification_metrics
from tasks.auto.candidates.cheap import logistic
from tasks.auto.candidates.folds import each_fold, fitted
from tasks.auto.comparison.learning_curve import SHARES, share_of_classes

DATASETS = ("agnews", "biomedical", "cr", "dblp", "ohsumed", "r52", "searchsnippets", "stackoverflow", "trec")
RATIOS = (None, 1.0, 10.0)  # largest to smallest class; None as the set has them
FOLDS, MOST_TEXTS, FURTHER = 5, 8000, 5000
train_rows = cache(two_views.train_rows)


class Drawing:
    """Rows that are labelled, as many again, and further ones."""

    def __init__(self, texts: list[str], labels: NDArray[np.int64], vectors: NDArray, rows: int, ratio: float | None,
                 rng: np.random.Generator) -> None:  # fmt: skip
        self.num_classes = int(labels.max()) + 1
        both = rng.permutation(thinned(labels, 2 * rows, ratio, rng))
        self.half, self.both = both[: len(both) // 2], both
        self.further = rng.permutation(np.setdiff1d(np.arange(len(labels)), both))[:FURTHER]
        self.texts, self.labels, self.vectors = texts, labels, vectors

    def macro_f1(self, train: NDArray[np.int64], asked: NDArray[np.int64]) -> float:
        """Of the rows `asked`, by a model of the rows `train`."""
        own = [self.texts[row] for row in train]
        model = fitted(logistic, self.vectors[train], self.labels[train], own, self.num_classes)
        answers = model.calibration.probabilities(model.scorer(self.vectors[asked])).argmax(1)
        return classification_metrics(self.labels[asked], answers, self.num_classes)["macro_f1"]

    def curve(self) -> pd.DataFrame:
        """Macro-F1 of each fold of the half with shares of its train rows."""
        labels, points = self.labels[self.half], []
        for fold, test in enumerate(each_fold(labels, [self.texts[row] for row in self.half], FOLDS, 0)):
            train = np.setdiff1d(np.arange(len(labels)), test)
            for share in (*SHARES, 1.0):
                part = share_of_classes(labels, train, share, self.num_classes, np.random.default_rng([fold, 11]))
                points.append((len(part), 0, fold, self.macro_f1(self.half[part], self.half[test])))
        return pd.DataFrame(points, columns=["rows", "repeat", "fold", "macro_f1"])

    def gain(self) -> float:
        return self.macro_f1(self.both, self.further) - self.macro_f1(self.half, self.further)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--drawings", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="number of the first drawing")
    options = parser.parse_args()
    lines: list[list[Any]] = []
    for rows in options.rows:
        told: list[dict[str, float]] = []
        for dataset in options.datasets:
            texts = train_rows(dataset, MOST_TEXTS)
            for drawing in range(options.first, options.first + options.drawings):
                rng = np.random.default_rng([drawing, rows])
                drawn = Drawing(*texts, rows, RATIOS[drawing % len(RATIOS)], rng)
                curve = learning_curve(drawn.curve(), len(drawn.half))
                told.append({"true": drawn.gain(), **curve["twice_the_labels"]})
        true, gain, lower, upper = (
            np.array([entry[name] for entry in told]) for name in ("true", "gain", "gain_lower", "gain_upper")
        )
        spread, error = true.std(), np.sqrt(np.mean((true - gain) ** 2))
        figures = [true.mean(), spread, gain.mean(), error, np.mean((lower <= true) & (true <= upper))]
        lines.append([rows, len(told), *(100 * figure for figure in figures)])
    head = ("rows", "drawings", "true gain", "its spread", "told", "error", "in the interval, %")
    print(tabulate(lines, head, tablefmt="github", floatfmt=".1f"))


if __name__ == "__main__":
    main()
