"""What the neighbours say: weights from distances, label scores, and their mixture with the model's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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


def interpolate(neighbour_scores: Floats, model_scores: Floats, lam: float) -> Floats:
    """lam * neighbours + (1 - lam) * model, both (N, C), 0 <= lam <= 1. Raises ValueError for another lam."""
    if not 0 <= lam <= 1:
        raise ValueError(f"lam must be in [0, 1], got {lam}")
    return lam * neighbour_scores + (1 - lam) * model_scores


def best_vote(
    distances: Floats,
    labels: NDArray,
    model_scores: Floats,
    score: Callable[[Floats], float],
    ks: Sequence[int],
    taus: Sequence[float],
    lams: Sequence[float],
) -> dict[str, float]:
    """The k, tau and lam of the best figure on validation rows, from one search of the largest k.

    Args:
        distances: (N, K) ascending, infinite where there is no neighbour.
        labels: (N, K, C) of the neighbours.
        model_scores: (N, C) probabilities of the model.
        score: the figure, larger is better, of final scores (N, C).
        ks, taus, lams: what to try, all combinations; of equally good ones the first.

    Returns:
        ``k``, ``tau``, ``lam`` and their ``score``.
    """
    best: dict[str, float] = {"score": -np.inf}
    for k in ks:
        for tau in taus:
            neighbour_scores = vote(distances[:, :k], labels[:, :k], tau)
            for lam in lams:
                value = score(interpolate(neighbour_scores, model_scores, lam))
                if value > best["score"]:
                    best = {"k": k, "tau": tau, "lam": lam, "score": value}
    return best


def shared_label_share(labels: NDArray, references: NDArray) -> float:
    """Mean over rows of the share of the neighbours' labels (N, k, C) that the row (N, C) has too (Table 6).

    Rows whose neighbours have no label are left out; NaN where that is all of them.
    """
    brought = labels.sum(axis=(1, 2))
    shared = (labels * references[:, None]).sum(axis=(1, 2))
    kept = brought > 0
    return float(np.mean(shared[kept] / brought[kept])) if kept.any() else float("nan")
