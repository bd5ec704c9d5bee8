"""What the neighbours say: weights from distances, label scores, and their mixture with the model's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]


def neighbour_weights(distances: Floats, tau: float) -> Floats:
    """Weights of the neighbours, softmax of -d/tau: (N, k), rows sum to 1. Source: kNN-MLTC (ACL 2022), eq. 1.

    Args:
        distances: (N, k) Euclidean, not squared; infinite where there is no neighbour.
        tau: temperature, > 0, in units of distance.

    Raises:
        ValueError: tau out of range, or a row without a neighbour.
    """
    if not tau > 0:
        raise ValueError(f"tau must be > 0, got {tau}")
    nearest = distances.min(axis=1, keepdims=True, initial=np.inf)
    if not np.isfinite(nearest).all():
        raise ValueError("distances: found a row without a neighbour, allowed: at least one")
    weights = np.exp(-(distances - nearest) / tau)
    return weights / weights.sum(axis=1, keepdims=True)


def vote(distances: Floats, labels: NDArray, tau: float) -> Floats:
    """Label scores of the neighbours in [0, 1], (N, C): their labels (N, k, C) of 0 and 1, weighted."""
    return np.einsum("nk,nkc->nc", neighbour_weights(distances, tau), labels)


def interpolate(of_neighbours: Floats, of_model: Floats, lam: float) -> Floats:
    """lam * neighbours + (1 - lam) * model, both (N, C), 0 <= lam <= 1. Raises ValueError for another lam."""
    if not 0 <= lam <= 1:
        raise ValueError(f"lam must be in [0, 1], got {lam}")
    return lam * of_neighbours + (1 - lam) * of_model


def best_vote(
    distances: Floats,
    labels: NDArray,
    of_model: Floats,
    references: NDArray,
    ks: Sequence[int],
    taus: Sequence[float],
    lams: Sequence[float],
    threshold: float = 0.5,
) -> dict[str, float]:
    """The k, tau and lam of the best micro-F1 on validation rows, from one search of the largest k.

    Args:
        distances: (N, K) ascending, K at least the largest of ``ks``.
        labels: (N, K, C) of the neighbours.
        of_model: (N, C) probabilities of the model.
        references: (N, C) of 0 and 1.
        ks, taus, lams: what to try, all combinations; of equally good ones the first.
        threshold: a label is predicted where its score is above it.

    Returns:
        ``k``, ``tau``, ``lam`` and their ``micro_f1``.
    """
    best: dict[str, float] = {"micro_f1": -1.0}
    for k in ks:
        for tau in taus:
            scores = vote(distances[:, :k], labels[:, :k], tau)
            for lam in lams:
                predicted = interpolate(scores, of_model, lam) > threshold
                total = predicted.sum() + references.sum()
                micro_f1 = float(2 * (predicted & (references > 0)).sum() / total) if total else 0.0
                if micro_f1 > best["micro_f1"]:
                    best = {"k": k, "tau": tau, "lam": lam, "micro_f1": micro_f1}
    return best


def shared_label_share(labels: NDArray, references: NDArray) -> float:
    """Mean over rows of the share of the neighbours' labels (N, k, C) that the row (N, C) has too (Table 6).

    Rows whose neighbours have no label are left out; NaN where that is all of them.
    """
    brought = labels.sum(axis=(1, 2))
    shared = (labels * references[:, None]).sum(axis=(1, 2))
    kept = brought > 0
    return float(np.mean(shared[kept] / brought[kept])) if kept.any() else float("nan")
