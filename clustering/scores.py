"""Scores of a clustering against labels, as fractions; and how pure an attention between texts is."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def clustering_scores(labels: ArrayLike, clusters: ArrayLike) -> dict[str, float]:
    """How well clusters agree with labels, both (N,) of whole numbers; any numbering gives the same.

    Returns:
        ``acc``: share of texts in the cluster that stands for their label, under the best one-to-one matching of
        clusters and labels (AECL, eq. 16; clusters or labels that are left over match nothing); ``nmi``: mutual
        information over the geometric mean of both entropies (AECL, eq. 17); ``nmi_arithmetic``: over their arithmetic
        mean, as AECL's code has it; ``ari``: adjusted Rand index; ``purity``: share of texts whose label is the most
        frequent one of their cluster.

    Raises:
        ValueError: lengths differ, or there are no texts.
    """
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    labels, clusters = np.asarray(labels), np.asarray(clusters)
    counts = contingency(labels, clusters)
    return {
        "acc": _matched(counts) / len(labels),
        "nmi": float(normalized_mutual_info_score(labels, clusters, average_method="geometric")),
        "nmi_arithmetic": float(normalized_mutual_info_score(labels, clusters, average_method="arithmetic")),
        "ari": float(adjusted_rand_score(labels, clusters)),
        "purity": float(counts.max(axis=0).sum() / len(labels)),
    }


def contingency(labels: ArrayLike, clusters: ArrayLike) -> NDArray[np.int64]:
    """Texts of each label (rows) in each cluster (columns), of those that occur.

    Raises:
        ValueError: lengths differ, or there are no texts.
    """
    labels, clusters = np.asarray(labels), np.asarray(clusters)
    if labels.shape != clusters.shape or labels.ndim != 1 or not len(labels):
        shapes = f"{labels.shape} and {clusters.shape}"
        raise ValueError(f"labels, clusters: found shapes {shapes}, allowed: both (N,) with N >= 1")
    _, rows = np.unique(labels, return_inverse=True)
    _, columns = np.unique(clusters, return_inverse=True)
    counts = np.zeros((rows.max() + 1, columns.max() + 1), dtype=np.int64)
    np.add.at(counts, (rows, columns), 1)
    return counts


def _matched(counts: NDArray[np.int64]) -> int:
    from scipy.optimize import linear_sum_assignment

    return int(counts[linear_sum_assignment(counts, maximize=True)].sum())


def negative_similarity(similarity: ArrayLike, labels: ArrayLike) -> float:
    """NS = 1/N sum of S_ij over pairs of different labels (AECL, eq. 18); PS = 1 - NS (eq. 19).

    Args:
        similarity: S (N, N), rows summing to 1.
        labels: (N,).
    """
    labels = np.asarray(labels)
    differs = labels[:, None] != labels[None, :]
    return float(np.asarray(similarity)[differs].sum() / len(labels))


def within_label_cosine(vectors: ArrayLike, labels: ArrayLike) -> float:
    """Mean cosine of two texts of one label, averaged over the labels with at least two texts; nan without any.

    Args:
        vectors: (N, D).
        labels: (N,).
    """
    vectors = np.asarray(vectors, dtype=np.float64)
    rows = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    _, codes, sizes = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
    sums, squares = np.zeros((len(sizes), rows.shape[1])), np.zeros(len(sizes))
    np.add.at(sums, codes, rows)
    np.add.at(squares, codes, (rows**2).sum(axis=1))
    paired = sizes > 1
    if not paired.any():
        return float("nan")
    return float((((sums**2).sum(axis=1) - squares)[paired] / (sizes * (sizes - 1))[paired]).mean())
