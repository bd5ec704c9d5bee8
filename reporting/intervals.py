"""How sure a figure is: intervals by resampling the rows it was measured on, and the rival that needs no model."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reporting.metrics import classification_metrics

DRAWS = 2000
LEVEL = 0.95
INTERVAL_METRICS = ("accuracy", "macro_f1")


def bootstrap_intervals(
    labels: ArrayLike, predictions: ArrayLike, num_classes: int, rng: np.random.Generator
) -> dict[str, float]:
    """Percentile bootstrap over rows (Efron and Tibshirani 1993, ch. 13): `accuracy_low`, `accuracy_high`, the same
    of `macro_f1`, as fractions; they hold `LEVEL` of `DRAWS` resamples.

    Rows of equal label and prediction are interchangeable, so that a resample is a multinomial draw over the cells of
    the confusion matrix.

    Args:
        labels: (N,) class indices, N >= 1.
        predictions: (N,), -1 for no class.
        num_classes: C.
        rng: draws the resamples.
    """
    cells = np.asarray(labels) * (num_classes + 1) + np.asarray(predictions) + 1
    occurring, counts = np.unique(cells, return_counts=True)
    true, predicted = np.divmod(occurring, num_classes + 1)
    draws = rng.multinomial(counts.sum(), counts / counts.sum(), size=DRAWS)
    accuracy = draws[:, true == predicted - 1].sum(axis=1) / counts.sum()
    macro_f1 = _macro_f1(draws, true, predicted - 1, num_classes)
    ends = np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    bounds: dict[str, float] = {}
    for name, values in zip(INTERVAL_METRICS, (accuracy, macro_f1), strict=True):
        bounds[f"{name}_low"], bounds[f"{name}_high"] = map(float, np.quantile(values, ends))
    return bounds


def _macro_f1(
    draws: NDArray[np.int64], true: NDArray[np.int64], predicted: NDArray[np.int64], num_classes: int
) -> NDArray[np.float64]:
    """Of each draw (R, cells), over the classes that occur in it, as `classification_metrics`."""
    classes = np.arange(num_classes)
    is_true, is_predicted = (np.asarray(side)[:, None] == classes for side in (true, predicted))
    hits = draws @ (is_true & is_predicted)
    total = draws @ is_true.astype(np.int64) + draws @ is_predicted.astype(np.int64)
    occurs = total > 0
    f1 = np.divide(2 * hits, total, out=np.zeros(total.shape), where=occurs)
    return f1.sum(axis=1) / occurs.sum(axis=1)


def majority_metrics(labels: ArrayLike, class_counts: ArrayLike) -> dict[str, float]:
    """`majority_accuracy` and `majority_macro_f1`: always the largest class of the train rows; {} without train labels.

    Args:
        labels: (N,) class indices, N >= 1.
        class_counts: (C,) train rows of each class.
    """
    counts = np.asarray(class_counts)
    if not counts.sum():
        return {}
    constant = np.full(np.shape(labels), counts.argmax())
    metrics = classification_metrics(labels, constant, len(counts))
    return {f"majority_{name}": metrics[name] for name in INTERVAL_METRICS}
