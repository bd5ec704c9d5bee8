"""Metrics of rows with several labels, as fractions."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reporting.metrics import ClassScores, f1_of_counts


def multilabel_metrics(references: ArrayLike, scores: ArrayLike, threshold: ArrayLike = 0.5) -> dict[str, float]:
    """Figures of N rows and C labels.

    Args:
        references: (N, C) of 0 and 1.
        scores: (N, C); a label is predicted where its score is above the threshold.
        threshold: one, or one a label (C,).

    Returns:
        ``micro_f1``; ``macro_f1``, the mean over labels that occur in references or predictions; ``hamming_loss``;
        ``subset_accuracy``, the share of rows with exactly their labels; ``precision_at_{1,3,5}``, the share of true
        labels among the best scored, and ``ndcg_at_5``, both over all rows, a row without labels counting 0. Of equal
        scores the first label ranks first.

    Raises:
        ValueError: no rows, or shapes that do not fit.
    """
    true, scores = np.asarray(references) > 0, np.asarray(scores, dtype=np.float64)
    if true.ndim != 2 or not true.size or true.shape != scores.shape:
        raise ValueError(f"references {true.shape} and scores {scores.shape} must be (N, C), the same, and not empty")
    predicted = scores > threshold
    hits, total = (true & predicted).sum(axis=0), true.sum(axis=0) + predicted.sum(axis=0)
    f1 = f1_of_counts(hits, total)
    metrics = {
        "micro_f1": float(2 * hits.sum() / total.sum()) if total.any() else 0.0,
        "macro_f1": float(f1[total > 0].mean()) if total.any() else 0.0,
        "hamming_loss": float(np.mean(true != predicted)),
        "subset_accuracy": float((true == predicted).all(axis=1).mean()),
    }
    order = np.argsort(-scores, axis=1, kind="stable")
    ranked = np.take_along_axis(true, order[:, :5], axis=1)
    for k in (1, 3, 5):
        metrics[f"precision_at_{k}"] = float(ranked[:, :k].sum() / (k * len(true)))
    metrics["ndcg_at_5"] = _ndcg(true, order)
    return metrics


def _ndcg(true: NDArray[np.bool_], order: NDArray[np.int64]) -> float:
    """nDCG at 5 of labels (N, C) ranked by `order` (N, C), the best first."""
    from sklearn.metrics import ndcg_score

    if true.shape[1] == 1:
        return float(true.mean())  # scikit-learn refuses to rank one label
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(order.shape[1])[None], axis=1)  # no ties, which it would average
    return float(ndcg_score(true, -ranks, k=5, ignore_ties=True))


def label_scores(references: ArrayLike, scores: ArrayLike, threshold: ArrayLike = 0.5) -> ClassScores:
    """Precision, recall and F1 of each label. Arguments as for `multilabel_metrics`."""
    true, predicted = np.asarray(references) > 0, np.asarray(scores, dtype=np.float64) > np.asarray(threshold)
    hits, rows, counts = (mask.sum(axis=0) for mask in (true & predicted, true, predicted))
    return ClassScores(_ratio(hits, counts), _ratio(hits, rows), f1_of_counts(hits, rows + counts), rows, counts)


def _ratio(numerator: NDArray[np.int64], denominator: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.divide(numerator, denominator, out=np.zeros(len(numerator)), where=denominator > 0)


def best_threshold(
    references: ArrayLike, scores: ArrayLike, how: Literal["global", "per_label"]
) -> float | NDArray[np.float64]:
    """The threshold of best F1, in the middle between two scores; of equally good ones the highest.

    Args:
        references: (N, C) of 0 and 1.
        scores: (N, C) in [0, 1].
        how: ``global``: one, for the micro-F1; ``per_label``: (C,), for the F1 of each label.

    Returns:
        The threshold or thresholds; 0.5 where no row has a label.
    """
    true, scores = np.asarray(references) > 0, np.asarray(scores, dtype=np.float64)
    if how == "global":
        return _best_cut(true.ravel(), scores.ravel())
    return np.array([_best_cut(*column) for column in zip(true.T, scores.T, strict=True)])


def _best_cut(true: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    if not true.any():
        return 0.5
    order = np.argsort(-scores, kind="stable")
    ranked = np.append(scores[order], 0.0)
    number = np.arange(1, len(order) + 1)
    f1 = 2 * np.cumsum(true[order]) / (number + true.sum())
    best = int(np.argmax(np.where(ranked[1:] < ranked[:-1], f1, -1.0)))  # equal scores are on one side
    middle = (ranked[best] + ranked[best + 1]) / 2
    return float(middle if middle < ranked[best] else ranked[best + 1])
