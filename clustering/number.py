"""How many clusters there are, where nobody says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clustering.kmeans import Vectors, kmeans, nearest, several_nearest

SPLITS = 6  # with two of them, chance decides between merits a tenth apart
STARTS, MAX_ITER = 3, 20  # a single start of k-means agrees with another by luck
NEARLY_BEST = 0.92  # share of the best merit that is as good as it


@dataclass(frozen=True)
class Estimate:
    """The number that was taken, and what each candidate was worth: (number, separation, agreement)."""

    number: int
    candidates: list[tuple[int, float, float]]


def candidates(number: int) -> list[int]:
    """Numbers of clusters that are tried for so many texts: from 2 to 3 sqrt(N), about a quarter apart."""
    largest = max(2, min(int(3 * number**0.5), number // 4))
    grid = np.geomspace(2, largest, 1 + int(np.ceil(np.log(largest / 2) / np.log(1.25))))
    return sorted({int(round(size)) for size in grid})


def estimate_num_clusters(vectors: Vectors, rng: np.random.Generator, sample_rows: int = 6000) -> Estimate:
    """The last candidate, from the best on, whose clusters are nearly as well separated, and agreed on, as its own.

    The texts are halved six times, and k-means is done in each half. A candidate's merit is its separation, the mean
    silhouette that the centres of one half have on the other, times the agreement of both halves about all texts
    (adjusted mutual information): the first alone likes many small clusters, the second alone few large ones. Where
    labels cut finer than the embeddings do, the merit is nearly flat between the coarse groups and the fine ones; from
    the best number on, the last is taken before the merit falls below `NEARLY_BEST` of the best, as the prediction
    strength of Tibshirani and Walther (2005) takes the largest number above its bound. Silhouettes are the simplified
    ones, so that nothing is N x N. After the stability of Lange et al. (2004); the product is our own.

    Args:
        vectors: (N, D).
        rng: of the sample, the halves and the starts.
        sample_rows: at most so many rows are looked at, which also bounds the candidates.

    Raises:
        ValueError: fewer than 8 rows.
    """
    number = vectors.shape[0]
    if number < 8:
        raise ValueError(f"method.num_clusters: found auto with {number} texts, allowed: a number, or at least 8 texts")
    if number > sample_rows:
        vectors = vectors[np.sort(rng.choice(number, sample_rows, replace=False))]
    orders = [rng.permutation(vectors.shape[0]) for _ in range(SPLITS)]
    halves = [np.array_split(order, 2) for order in orders]
    curve = []
    for size in candidates(vectors.shape[0]):
        parts = [_separation_and_agreement(vectors, half, rest, size, rng) for half, rest in halves]
        separation, agreement = np.mean(parts, axis=0)
        curve.append((size, float(separation), float(agreement)))
    return Estimate(last_nearly_best(curve), curve)


def last_nearly_best(curve: list[tuple[int, float, float]]) -> int:
    """The last number, from the best one on, before the merit falls below `NEARLY_BEST` of the best.

    Where it rises again later, far finer groups are as good by chance: that is another answer and not the same one.

    Args:
        curve: (number, separation, agreement) of each candidate, ascending.
    """
    merits = np.array([separation * agreement for _, separation, agreement in curve])
    best = int(merits.argmax())
    below = np.flatnonzero(merits[best:] < NEARLY_BEST * merits[best])
    return curve[best + int(below[0]) - 1 if len(below) else -1][0]


def _separation_and_agreement(
    vectors: Vectors, half: np.ndarray, rest: np.ndarray, num_clusters: int, rng: np.random.Generator
) -> tuple[float, float]:
    from sklearn.metrics import adjusted_mutual_info_score

    centres = [kmeans(vectors[rows], num_clusters, rng, STARTS, MAX_ITER).centres for rows in (half, rest)]
    held_out = [simplified_silhouette(vectors[rows], c) for rows, c in zip((rest, half), centres, strict=True)]
    first, second = (nearest(vectors, c)[0] for c in centres)
    return float(np.mean(held_out)), float(adjusted_mutual_info_score(first, second))


def simplified_silhouette(vectors: Vectors, centres: np.ndarray) -> float:
    """Mean of 1 - a/b: a the distance of a row to the nearest centre, b to the second nearest (Hruschka et al., 2004).

    A row at two centres at once has silhouette 0.
    """
    near, next_near = np.sqrt(several_nearest(vectors, centres, 2)[1]).T
    return float(np.where(next_near > 0, 1 - near / np.where(next_near > 0, next_near, 1), 0).mean())
