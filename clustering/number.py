"""How many clusters there are, where nobody says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from clustering.agreement import SMALL_CLUSTERS, average_linkage
from clustering.kmeans import Vectors, kmeans, means, nearest, several_nearest, unit_rows

SPLITS = 6  # with two of them, chance decides between merits a tenth apart
STARTS, MAX_ITER = 3, 20  # a single start of k-means agrees with another by luck
Way = Literal["kmeans", "ward_average"]  # clusters of about one size, and of any


@dataclass(frozen=True)
class Candidate:
    """A number of clusters found in one `way`: how well separated they are, and agreed on by halves of the texts."""

    way: Way
    number: int
    separation: float
    agreement: float

    @property
    def merit(self) -> float:
        return self.separation * self.agreement


@dataclass(frozen=True)
class Estimate:
    """The candidate that was taken, among all of them, in ascending order for each way."""

    taken: Candidate
    candidates: list[Candidate]

    @property
    def number(self) -> int:
        return self.taken.number


def candidates(number: int) -> list[int]:
    """Numbers of clusters that are tried for so many texts: from 2 to 3 sqrt(N), about a quarter apart."""
    largest = max(2, min(int(3 * number**0.5), number // 4))
    grid = np.geomspace(2, largest, 1 + int(np.ceil(np.log(largest / 2) / np.log(1.25))))
    return sorted({int(round(size)) for size in grid})


def estimate_num_clusters(vectors: Vectors, rng: np.random.Generator, sample_rows: int = 6000) -> Estimate:
    """The number of best merit in the way of grouping that halves of the texts agree on most.

    The texts are halved six times, and each half is grouped by k-means and by average linkage of Ward's clusters
    (`clustering.agreement`; of sparse vectors by k-means alone). A candidate's merit is its separation, the mean
    silhouette that the centres of one half have on the other, times the agreement of both halves about all texts
    (adjusted mutual information): the first alone likes many small clusters, the second alone few large ones. Each way
    proposes its number of largest merit; of the two proposals the one is taken that the halves agree on more.
    Silhouettes are the simplified ones, so that nothing but Ward's tree of a half is N x N. After the stability of
    Lange et al. (Neural Computation 2004); the product and the choice between two ways are our own.

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
    halves = [np.array_split(rng.permutation(vectors.shape[0]), 2) for _ in range(SPLITS)]
    ways = get_args(Way)[: 1 if issparse(vectors) else None]
    tried = [_tried(vectors, halves, way, rng) for way in ways]
    proposals = [max(of_way, key=lambda candidate: candidate.merit) for of_way in tried]
    taken = max(proposals, key=lambda candidate: candidate.agreement)
    return Estimate(taken, [candidate for of_way in tried for candidate in of_way])


def _tried(vectors: Vectors, halves: list[list[np.ndarray]], way: Way, rng: np.random.Generator) -> list[Candidate]:
    """All candidates, found in one way; each a mean over the halves."""
    numbers = candidates(vectors.shape[0])
    parts = []
    for rows in halves:
        first, second = (_centres(vectors[half], numbers, way, rng) for half in rows)
        parts.append([_separation_and_agreement(vectors, rows, pair) for pair in zip(first, second, strict=True)])
    merits = np.mean(parts, axis=0)
    return [Candidate(way, size, float(s), float(a)) for size, (s, a) in zip(numbers, merits, strict=True)]


def _centres(vectors: Vectors, numbers: list[int], way: Way, rng: np.random.Generator) -> list[NDArray[np.float32]]:
    """Centres (K, D) for each number K."""
    if way == "kmeans":
        return [kmeans(vectors, size, rng, STARTS, MAX_ITER).centres for size in numbers]
    from scipy.cluster.hierarchy import cut_tree, ward

    rows = unit_rows(vectors)  # average linkage is one of cosines
    small = cut_tree(ward(rows), [min(SMALL_CLUSTERS * size, len(rows)) for size in numbers]).T
    clusters = (average_linkage(rows, cut, size) for cut, size in zip(small, numbers, strict=True))
    return [means(vectors, of_size, size) for of_size, size in zip(clusters, numbers, strict=True)]


def _separation_and_agreement(
    vectors: Vectors, halves: list[np.ndarray], centres: tuple[NDArray[np.float32], NDArray[np.float32]]
) -> tuple[float, float]:
    """Of the centres (K, D) of two halves."""
    from sklearn.metrics import adjusted_mutual_info_score

    held_out = [simplified_silhouette(vectors[rows], c) for rows, c in zip(halves[::-1], centres, strict=True)]
    first, second = (nearest(vectors, c)[0] for c in centres)
    return float(np.mean(held_out)), float(adjusted_mutual_info_score(first, second))


def simplified_silhouette(vectors: Vectors, centres: np.ndarray) -> float:
    """Mean of 1 - a/b: a the distance of a row to the nearest centre, b to the second nearest (Hruschka et al., 2004).

    A row at two centres at once has silhouette 0.
    """
    near, next_near = np.sqrt(several_nearest(vectors, centres, 2)[1]).T
    return float(np.where(next_near > 0, 1 - near / np.where(next_near > 0, next_near, 1), 0).mean())
