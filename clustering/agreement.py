"""Which way of grouping suits the texts, where no label tells: the one that two halves of them agree on most."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from clustering.kmeans import KMeans, distances_to_own, kmeans, means, nearest

Grouping = Literal["kmeans", "ward", "ward_average"]
LINKAGE_ROWS = 12_000  # a tree needs the distances of all pairs of rows: 0.6 GB of so many
SMALL_CLUSTERS = 2  # times K that average linkage starts from


def grouped(vectors: NDArray[np.float32], num_clusters: int, rng: np.random.Generator, by: Grouping) -> KMeans:
    """Centres of the clusters that `by` finds, and the nearest one of each row.

    k-means and Ward's linkage (1963) want clusters of about one size, and split a large one. `ward_average` takes 2 K
    clusters of Ward's and joins them by average linkage (Sokal and Michener, 1958) of cosines, which lets a cluster be
    as large as it is; from single rows it would leave most clusters to rows far out. A row goes to the nearest mean,
    so that new texts are given their cluster as these were.

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
    number = num_clusters if by == "ward" else min(SMALL_CLUSTERS * num_clusters, len(sample))
    clusters = AgglomerativeClustering(number, linkage="ward").fit_predict(sample)
    if by == "ward_average":
        clusters = joined(means(sample, clusters, number), np.bincount(clusters), num_clusters)[clusters]
    centres = means(sample, clusters, num_clusters)
    assignments, _ = nearest(vectors, centres)
    inertia = float(distances_to_own(vectors, centres, assignments).sum(dtype=np.float64))
    return KMeans(centres, assignments, inertia)


def joined(centres: NDArray[np.float32], counts: NDArray[np.int64], num_clusters: int) -> NDArray[np.int64]:
    """Number of the cluster (M,), below `num_clusters`, that each of M smaller ones becomes part of.

    Average linkage: the two clusters are joined whose texts have the largest mean cosine, over all pairs of one text
    of each, which for rows of unit length is the product of the means.

    Args:
        centres: (M, D), means of rows of unit length.
        counts: (M,), their rows.
        num_clusters: at least 1, at most M.
    """
    centres, counts = centres.astype(np.float64), counts.astype(np.float64)
    parts = np.arange(len(centres))
    cosines = centres @ centres.T
    np.fill_diagonal(cosines, -np.inf)
    for _ in range(len(centres) - num_clusters):
        kept, lost = np.unravel_index(cosines.argmax(), cosines.shape)
        parts[parts == lost] = kept
        both = counts[kept] + counts[lost]
        joint = (counts[kept] * cosines[kept] + counts[lost] * cosines[lost]) / both  # -inf for both stays -inf
        counts[kept] = both
        cosines[kept], cosines[:, kept] = joint, joint
        cosines[lost], cosines[:, lost] = -np.inf, -np.inf
    return np.unique(parts, return_inverse=True)[1]


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
        sample_rows: at most so many rows are looked at, or 2 K where that is more.
    """
    from sklearn.metrics import adjusted_mutual_info_score

    totals = dict.fromkeys(get_args(Grouping), 0.0)
    for _ in range(repeats):
        rows = vectors[rng.permutation(len(vectors))[: max(sample_rows, 2 * num_clusters)]]
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
