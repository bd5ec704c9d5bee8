"""What more rows would bring: a cheap candidate that is through, fitted again on shares of the train rows of each fold,
into `learning_curve.csv`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamodules.labels import class_counts
from datamodules.splits import rank_in_class
from reporting.metrics import class_scores
from reporting.multilabel_metrics import label_scores
from tasks.auto.candidates.calibration import decision_metrics, decisions
from tasks.auto.candidates.declarations import Candidate
from tasks.auto.candidates.folds import each_fold, fitted
from tasks.auto.comparison.study import ENOUGH_ROWS, Study
from tasks.auto.comparison.untrained import path_of, rows_of

SHARES = (0.25, 0.5, 0.75)
MOST_OF_TIME = 0.2  # of what is left
LEAST_FOLDS = 3  # fewer say nothing of how folds differ
DRAWN = ("logistic",)  # candidates with a curve
FILE, HEADER = "learning_curve.csv", ("candidate", "rows", "repeat", "fold", "macro_f1", "micro_f1")


def learning_curve(study: Study, candidates: Sequence[Candidate]) -> None:
    """`learning_curve.csv`: macro-F1, without classes of one row, and accuracy with shares of the train rows, on the
    folds of the first draw."""
    if study.run.has(FILE):
        return
    lines: list[tuple[Any, ...]] = []
    enough = math.ceil(ENOUGH_ROWS * study.folds / len(study.labels))
    folds = each_fold(study.labels, list(study.texts), study.folds, 0)[: max(enough, LEAST_FOLDS)]
    for candidate in candidates:
        if candidate.name not in DRAWN or not study.is_finished(candidate):
            continue
        outcomes = study.outcomes[candidate.name]
        if any((0, fold) not in outcomes for fold in range(len(folds))):
            continue
        once = sum(outcomes[0, fold].seconds_fit for fold in range(len(folds)))
        if once * sum(SHARES) > MOST_OF_TIME * study.clock.left:
            continue
        study.say(f"learning curve of {study.entries[candidate.name].title}")
        for fold, test in enumerate(folds):
            points = _points(study, candidate, fold, test)
            lines += [(candidate.name, rows, 0, fold, *figures) for rows, figures in points]
    if lines:
        study.run.write_csv(FILE, lines, HEADER)


def _points(
    study: Study, candidate: Candidate, fold: int, test: NDArray[np.int64]
) -> Iterator[tuple[int, tuple[float, float]]]:
    """Numbers of train rows and the figures that the fold's rows have with them; the last is that of all rows."""
    path, rows, labels = path_of(study, candidate), rows_of(study, candidate), study.labels
    assert not isinstance(path, str)
    train = np.setdiff1d(np.arange(len(labels)), test)
    for share in SHARES:
        part = share_of_classes(labels, train, share, study.num_classes, np.random.default_rng([fold, 11]))
        try:
            model = fitted(path, rows[part], labels[part], study.texts[part].tolist(), study.num_classes)
        except ValueError:  # too few different texts
            continue
        probabilities = model.calibration.probabilities(model.scorer(rows[test]))
        yield len(part), _figures(study, test, decisions(probabilities, model.calibration.thresholds))
    whole = study.outcomes[candidate.name][0, fold]
    yield len(train), _figures(study, whole.rows, whole.answers)


def share_of_classes(
    labels: NDArray[np.int64], train: NDArray[np.int64], share: float, num_classes: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """A share of the rows `train`, of one label each class by class; a larger share holds the smaller one.

    Args:
        labels: (N,) of all rows, or (N, C) of 0 and 1.
        train: (n,) positions.
        share: above 0, at most 1.
    """
    if labels.ndim == 2:
        return np.sort(rng.permutation(train)[: math.ceil(share * len(train))])
    sizes = class_counts(labels[train], num_classes)
    return train[rank_in_class(labels[train], rng) < np.ceil(share * sizes)[labels[train]]]


def _figures(study: Study, rows: NDArray[np.int64], answers: NDArray[np.integer]) -> tuple[float, float]:
    """Macro-F1 over the classes that occur and have more than one row, for no more rows of the others would ever be
    right; and micro-F1."""
    labels = study.labels[rows]
    of_class = label_scores(labels, answers) if study.several else class_scores(labels, answers, study.num_classes)
    f1 = of_class.f1[(of_class.references + of_class.predictions > 0) & (study.class_counts > 1)]
    micro_f1 = decision_metrics(labels, answers, study.num_classes)["micro_f1"]
    return float(f1.mean()) if len(f1) else 0.0, micro_f1
