"""Which way of grouping suits the texts, where no label tells: the one that two halves of them agree on most."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from clustering.kmeans import KMeans, distances_to_own, kmeans, means, nearest

Grouping = Literal["kmeans", "ward", "average"]
LINKAGE_ROWS = 12_000  # a tree needs the distances of all pairs of rows: 0.6 GB of so many


def grouped(vectors: NDArray[np.float32], num_clusters: int, rng: np.random.Generator, by: Grouping) -> KMeans:
    """Centres of the clusters that `by` finds, and the nearest one of each row.

    k-means wants clusters of about one size; average linkage of cosine distances (Sokal and Michener, 1958) lets a
    cluster be as large as it is, and Ward's linkage (1963) lies between. A row goes to the nearest mean, so that new
    texts are given their cluster as these were.

    Args:
        vectors: (N, D) of unit length, N at least `num_clusters`.
        num_clusters: K.
        rng: of the starts of k-means, and of the rows that a tree is built on where there are more than
            `LINKAGE_ROWS`.
        by: how.
    """
    if by == "kmeans":
        return kmeans(vectors, num_clusters, rng)
    from sklearn.cluster import AgglomerativeClustering

    sample = vectors
    if len(vectors) > LINKAGE_ROWS:
        sample = vectors[np.sort(rng.choice(len(vectors), LINKAGE_ROWS, replace=False))]
    metric = "cosine" if by == "average" else "euclidean"
    tree = AgglomerativeClustering(num_clusters, linkage=by, metric=metric)
    centres = means(sample, tree.fit_predict(sample), num_clusters)
    assignments, _ = nearest(vectors, centres)
    inertia = float(distances_to_own(vectors, centres, assignments).sum(dtype=np.float64))
    return KMeans(centres, assignments, inertia)


def agreements(
    vectors: NDArray[np.float32],
    num_clusters: int,
    rng: np.random.Generator,
    repeats: int = 3,
    sample_rows: int = 6_000,
) -> dict[Grouping, float]:
    """How well two halves of the texts agree about all of them under each grouping: adjusted mutual information.

    The texts are halved `repeats` times, each half is grouped by itself, and both halves' centres say where all texts
    belong; the mean over the repeats, 1 where they agree whole. All groupings see the same halves. After the stability
    of Lange et al. (Neural Computation 2004).

    Args:
        vectors: (N, D) of unit length, at least 2 K.
        num_clusters: K.
        rng: of the halves and the starts.
        repeats: >= 1.
        sample_rows: at most so many rows are looked at.
    """
    from sklearn.metrics import adjusted_mutual_info_score

    totals = dict.fromkeys(get_args(Grouping), 0.0)
    for _ in range(repeats):
        rows = vectors[rng.permutation(len(vectors))[:sample_rows]]
        halves = np.array_split(rows, 2)
        for by in totals:
            first, second = (nearest(rows, grouped(half, num_clusters, rng, by).centres)[0] for half in halves)
            totals[by] += float(adjusted_mutual_info_score(first, second)) / repeats
    return totals


def most_agreed(vectors: NDArray[np.float32], num_clusters: int, rng: np.random.Generator) -> KMeans:
    """The grouping whose halves agree most, done on all texts; `figures` says what each reached.

    k-means where there are fewer than 2 K texts.
    """
    if len(vectors) < 2 * num_clusters:
        return kmeans(vectors, num_clusters, rng)
    reached = agreements(vectors, num_clusters, rng)
    best = grouped(vectors, num_clusters, rng, max(reached, key=lambda by: reached[by]))
    return replace(best, figures={f"agreement/{by}": value for by, value in reached.items()})
