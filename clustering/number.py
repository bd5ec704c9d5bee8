"""How many clusters there are, where nobody says."""

from __future__ import annotations

import numpy as np

from clustering.kmeans import Vectors, kmeans, several_nearest


def candidates(number: int) -> list[int]:
    """Numbers of clusters that are tried for so many texts: from 2 to 3 sqrt(N), about a quarter apart."""
    largest = max(2, min(int(3 * number**0.5), number // 2))
    grid = np.geomspace(2, largest, 1 + int(np.ceil(np.log(largest / 2) / np.log(1.25))))
    return sorted({int(round(size)) for size in grid})


def estimate_num_clusters(vectors: Vectors, rng: np.random.Generator, sample_rows: int = 20_000) -> int:
    """The candidate with the largest simplified silhouette of its k-means.

    Args:
        vectors: (N, D).
        rng: of the sample and the starts.
        sample_rows: at most so many rows are looked at.

    Raises:
        ValueError: fewer than 4 rows.
    """
    number = vectors.shape[0]
    if number < 4:
        raise ValueError(f"method.num_clusters: found auto with {number} texts, allowed: a number, or at least 4 texts")
    if number > sample_rows:
        vectors = vectors[np.sort(rng.choice(number, sample_rows, replace=False))]
    scores = {k: simplified_silhouette(vectors, kmeans(vectors, k, rng, 1, 50).centres) for k in candidates(number)}
    return max(scores, key=lambda k: (scores[k], -k))


def simplified_silhouette(vectors: Vectors, centres: np.ndarray) -> float:
    """Mean of 1 - a/b: a the distance of a row to the nearest centre, b to the second nearest."""
    near, next_near = np.sqrt(several_nearest(vectors, centres, 2)[1]).T
    return float((1 - near / np.maximum(next_near, np.finfo(np.float32).tiny)).mean())
