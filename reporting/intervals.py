"""How sure a figure is: intervals by resampling the rows it was measured on, and the rival that needs no model."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reporting.metrics import classification_metrics

DRAWS = 2000
LEVEL = 0.95
AT_ONCE = 100  # draws in memory
INTERVAL_METRICS = ("accuracy", "macro_f1")
MULTILABEL_INTERVAL_METRICS = ("micro_f1", "macro_f1")


def bootstrap_intervals(
    labels: ArrayLike, predictions: ArrayLike, num_classes: int, rng: np.random.Generator
) -> dict[str, float]:
    """Percentiles of the Bayesian bootstrap over rows (Rubin 1981): `accuracy_low`, `accuracy_high`, the same of
    `macro_f1`, as fractions; they hold `LEVEL` of `DRAWS` draws.

    In a draw each row has a weight, exponentially distributed, so that rows of equal label and prediction have a gamma
    one together. Rows drawn with replacement would leave rare classes out of some draws, those of F1 0 among them, and
    macro-F1 over the others lies above that of all.

    Args:
        labels: (N,) class indices, N >= 1.
        predictions: (N,), -1 for no class.
        num_classes: C.
        rng: draws the resamples.
    """
    cells = np.asarray(labels) * (num_classes + 1) + np.asarray(predictions) + 1
    occurring, counts = np.unique(cells, return_counts=True)
    true, predicted = np.divmod(occurring, num_classes + 1)
    classes = np.arange(num_classes)
    figures = _resampled(counts, true[:, None] == classes, predicted[:, None] - 1 == classes, rng)
    return _bounds({name: figures[name] for name in INTERVAL_METRICS})


def multilabel_intervals(references: ArrayLike, predictions: ArrayLike, rng: np.random.Generator) -> dict[str, float]:
    """The same of `micro_f1` and `macro_f1` where texts have several labels.

    Args:
        references, predictions: (N, C) of 0 and 1, N >= 1.
        rng: draws the resamples.
    """
    true, predicted = np.asarray(references) > 0, np.asarray(predictions) > 0
    figures = _resampled(np.ones(len(true), np.int64), true, predicted, rng)
    return _bounds({name: figures[name] for name in MULTILABEL_INTERVAL_METRICS})


def _bounds(figures: dict[str, NDArray[np.float64]]) -> dict[str, float]:
    ends = np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    bounds: dict[str, float] = {}
    for name, values in figures.items():
        bounds[f"{name}_low"], bounds[f"{name}_high"] = map(float, np.quantile(values, ends))
    return bounds


def _resampled(
    counts: NDArray[np.int64], is_true: NDArray[np.bool_], is_predicted: NDArray[np.bool_], rng: np.random.Generator
) -> dict[str, NDArray[np.float64]]:
    """Figures of each draw (R,), of classes (M, C) that stand for `counts` (M,) rows each.

    Macro-F1 is over the classes that occur, as in `classification_metrics` and `multilabel_metrics`.
    """
    from scipy.sparse import csr_array

    is_right = (is_true == is_predicted).all(axis=1)
    hits_of = csr_array((is_true & is_predicted).T.astype(np.float64))
    total_of = csr_array(is_true.T.astype(np.float64) + is_predicted.T)
    parts: dict[str, list[NDArray[np.float64]]] = {"accuracy": [], "micro_f1": [], "macro_f1": []}
    for _ in range(DRAWS // AT_ONCE):
        draws = rng.standard_gamma(counts, size=(AT_ONCE, len(counts)))
        hits, total = 2 * (hits_of @ draws.T), total_of @ draws.T  # (C, AT_ONCE)
        occurs = total > 0
        f1 = np.divide(hits, total, out=np.zeros(total.shape), where=occurs)
        parts["accuracy"].append(draws[:, is_right].sum(axis=1) / draws.sum(axis=1))
        parts["micro_f1"].append(hits.sum(axis=0) / np.maximum(total.sum(axis=0), 1e-300))
        parts["macro_f1"].append(f1.sum(axis=0) / np.maximum(occurs.sum(axis=0), 1))
    return {name: np.concatenate(values) for name, values in parts.items()}


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
