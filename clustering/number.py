"""How many clusters there are, where nobody says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clustering.kmeans import Vectors, kmeans, nearest, several_nearest

FIRST_SPLITS, SPLITS = 6, 12  # with two of them, chance decides between merits a tenth apart
FIRST_RATIO, RATIO = 1.25, 1.12  # between candidates
STARTS, MAX_ITER = 3, 20  # a single start of k-means agrees with another by luck
ROUNDING = 1e-3  # of a distance, as a share of the length of the rows: its square is a difference of squares in float32
NEARLY_BEST = 0.92  # share of the best merit that is as good as it

Candidate = tuple[int, float, float]  # number, separation, agreement


@dataclass(frozen=True)
class Estimate:
    """The number that was taken, and what each candidate was worth."""

    number: int
    candidates: list[Candidate]


def candidates(number: int, ratio: float = FIRST_RATIO) -> list[int]:
    """Numbers of clusters that are tried for so many texts: from 2 to 3 sqrt(N), at most that ratio apart."""
    largest = max(2, min(int(3 * number**0.5), number // 4))
    grid = np.geomspace(2, largest, 1 + int(np.ceil(np.log(largest / 2) / np.log(ratio))))
    return sorted({int(round(size)) for size in grid})


def estimate_num_clusters(vectors: Vectors, rng: np.random.Generator, sample_rows: int = 6000) -> Estimate:
    """The last candidate, from the best on, whose clusters are nearly as well separated, and agreed on, as its own.

    The texts are halved, and k-means is done in each half. A candidate's merit is its separation, the mean
    silhouette that the centres of one half have on the other, times the agreement of both halves about all texts
    (adjusted mutual information): the first alone likes many small clusters, the second alone few large ones. Where
    labels cut finer than the embeddings do, the merit is nearly flat between the coarse groups and the fine ones; from
    the best number on, the last is taken before the merit falls below `NEARLY_BEST` of the best, as the prediction
    strength of Tibshirani and Walther (2005) takes the largest number above its bound. Silhouettes are the simplified
    ones, so that nothing is N x N. After the stability of Lange et al. (2004); the product is our own.

    Six halvings and candidates a quarter apart say where the best one is; from the candidate before it on, twelve
    halvings and candidates an eighth apart say where the merit falls.

    Args:
        vectors: (N, D).
        rng: of the sample, the halves and the starts.
        sample_rows: at most so many rows are looked at, which also bounds the candidates.

    Raises:
        ValueError: fewer than 8 rows, or no number of groups that are apart.
    """
    number = vectors.shape[0]
    if number < 8:
        raise ValueError(f"method.num_clusters: found auto with {number} texts, allowed: a number, or at least 8 texts")
    if number > sample_rows:
        vectors = vectors[np.sort(rng.choice(number, sample_rows, replace=False))]
    halves = [np.array_split(rng.permutation(vectors.shape[0]), 2) for _ in range(SPLITS)]
    first = [_judged(vectors, size, halves[:FIRST_SPLITS], rng) for size in candidates(vectors.shape[0])]
    best = int(_merits(first).argmax())
    if not _merits(first)[best] > 0:
        raise ValueError("method.num_clusters: auto found no two groups of texts that are apart, allowed: a number")
    fine: list[Candidate] = []
    for size in candidates(vectors.shape[0], RATIO):
        if size >= first[max(best - 1, 0)][0]:
            fine.append(_judged(vectors, size, halves, rng))
            if size > first[best][0] and _merits(fine)[-1] < NEARLY_BEST * _merits(fine).max():
                break
    looked_at = {candidate[0]: candidate for candidate in (*first, *fine)}
    return Estimate(last_nearly_best(fine), [looked_at[size] for size in sorted(looked_at)])


def last_nearly_best(curve: list[Candidate]) -> int:
    """The last number, from the best one on, before the merit falls below `NEARLY_BEST` of the best.

    Where it rises again later, far finer groups are as good by chance: that is another answer and not the same one.

    Args:
        curve: candidates, ascending.
    """
    merits = _merits(curve)
    best = int(merits.argmax())
    below = np.flatnonzero(merits[best:] < NEARLY_BEST * merits[best])
    return curve[best + int(below[0]) - 1 if len(below) else -1][0]


def _merits(curve: list[Candidate]) -> np.ndarray:
    return np.array([separation * agreement for _, separation, agreement in curve])


def _judged(
    vectors: Vectors, size: int, halves: Sequence[list[np.ndarray]], rng: np.random.Generator
) -> Candidate:
    """A number of clusters with its separation and agreement, the means over the halvings."""
    parts = [_separation_and_agreement(vectors, half, rest, size, rng) for half, rest in halves]
    separation, agreement = np.mean(parts, axis=0)
    return size, float(separation), float(agreement)


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

    A row at two centres at once, but for rounding, has silhouette 0.
    """
    near, next_near = np.sqrt(several_nearest(vectors, centres, 2)[1]).T
    apart = next_near > ROUNDING * np.linalg.norm(centres, axis=1).max()
    return float(np.where(apart, 1 - near / np.where(apart, next_near, 1), 0).mean())
