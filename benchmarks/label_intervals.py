"""How often the intervals of `task=auto` hold the truth where texts have several labels, on train rows alone.

    python -m benchmarks.label_intervals [--datasets reuters21578 goemotions] [--rows 300 1000] [--trials 40]

Each trial draws rows of a train split at random, leaves out labels that fewer than two of them have, and predicts them
out of fold by `linear_words` as `task=auto` does, without the names of the labels. The truth is read off the rows that
were not drawn: the mean figure of the very models of the folds, and that of the model fitted to all rows.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from benchmarks.label_thresholds import drawn_labels, encoded
from benchmarks.rare_classes import Texts
from reporting import several_labels
from reporting.resampling import interval
from tasks.auto.candidates import cheap
from tasks.auto.candidates.calibration import decisions
from tasks.auto.candidates.folds import Fitted, cheap_fold, each_fold, fitted

FOLDS = 5
PATH = cheap.Stacked(None)


def trial(texts: Texts, drawn: NDArray, further: NDArray, rng: np.random.Generator) -> dict[str, NDArray]:
    """Whether each interval holds the truth, by what it is of: one value, or one a label."""
    drawn, kept = drawn_labels(texts, drawn)
    labels, rows = texts.labels[drawn][:, kept], texts.rows[drawn]
    own = np.array([texts.texts[row] for row in drawn], dtype=object)
    asked, true = texts.rows[further], texts.labels[further][:, kept].astype(bool)

    def answers(model: Fitted) -> NDArray[np.bool_]:
        probabilities = model.calibration.probabilities(model.scorer(asked))
        return decisions(probabilities, model.calibration.thresholds).astype(bool)

    predicted, of_folds = np.zeros_like(true, shape=labels.shape), []
    for test in each_fold(labels, list(own), FOLDS, 0):
        outcome, model = cheap_fold(PATH, rows, labels, own, test, labels.shape[1])
        predicted[test] = outcome.answers
        of_folds.append(answers(model))
    whole = fitted(PATH, rows, labels, own.tolist(), labels.shape[1])
    truths = {
        "of the folds": several_labels.estimate(true, np.stack(of_folds)),
        "refit": several_labels.estimate(true, answers(whole)[None]),
    }
    values = several_labels.estimate(labels.astype(bool), predicted[None])
    draws = several_labels.bootstrap(labels.astype(bool), predicted[None], rng)
    held = {}
    for name in several_labels.FIGURES:
        lower, upper = interval(getattr(draws, name), getattr(values, name)[0], several_labels.WIDENED)
        for whose, truth in truths.items():
            figure = getattr(truth, name)[0]
            held[f"{name} {whose}"] = np.atleast_1d((lower <= figure) & (figure <= upper))
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=("reuters21578", "goemotions"))
    parser.add_argument("--rows", nargs="+", type=int, default=(300, 1000))
    parser.add_argument("--trials", type=int, default=40)
    options = parser.parse_args()
    for dataset in options.datasets:
        texts = encoded(dataset)
        for rows in options.rows:
            held: dict[str, list[NDArray]] = defaultdict(list)
            for seed in range(options.trials):
                rng = np.random.default_rng([seed, 31])
                order = rng.permutation(len(texts.labels))
                for name, values in trial(texts, order[:rows], order[rows:], rng).items():
                    held[name].append(values)
            print(f"{dataset}, {rows} rows, {options.trials} trials", flush=True)
            for name, parts in held.items():
                print(f"  {name:30s} {100 * np.concatenate(parts).mean():6.1f} %", flush=True)


if __name__ == "__main__":
    main()
