"""Clusters beside each other: a map of texts, which clusters are near, how they merge, which texts lie far out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from clustering.kmeans import Vectors, several_nearest, unit_rows

COMPONENTS = 50  # principal ones that the map is drawn from
PERPLEXITY, ITERATIONS = 30, 500
FENCE = 1.5  # interquartile ranges above the third quartile (Tukey 1977)


def map_points(vectors: Vectors, seed: int) -> NDArray[np.float32]:
    """Points (N, 2) of a t-SNE map (van der Maaten and Hinton 2008) that begins with the principal components.

    The same on every call with this seed, on one machine. Time grows with N log N: some 3,000 rows are seconds.

    Args:
        vectors: (N, D), dense or sparse; fewer than 4 rows, or rows that are all the same, lie in the middle.
        seed: of the decomposition and the map.
    """
    from sklearn.decomposition import PCA, TruncatedSVD
    from sklearn.manifold import TSNE

    number, width = vectors.shape
    if number < 4 or width < 2:
        return np.zeros((number, 2), np.float32)
    components = min(COMPONENTS, number - 1, width - 1)
    reduce = TruncatedSVD if issparse(vectors) else PCA
    with np.errstate(invalid="ignore"):  # the share of variance of rows that are all the same
        rows = reduce(components, random_state=seed).fit_transform(vectors)
    if not np.ptp(rows):
        return np.zeros((number, 2), np.float32)
    if rows.shape[1] < 2:
        rows = np.column_stack([rows, np.zeros(number, rows.dtype)])
    perplexity = min(PERPLEXITY, (number - 1) / 3)
    tsne = TSNE(2, perplexity=perplexity, max_iter=ITERATIONS, init="pca", random_state=seed)
    return tsne.fit_transform(rows.astype(np.float32)).astype(np.float32)


def fences(distances: NDArray, clusters: NDArray[np.int64], num_clusters: int) -> NDArray[np.float32]:
    """Of each cluster the distance above which a text lies far out, (K,): Q3 + 1.5 (Q3 - Q1) of its texts' distances.

    Distances that are infinite, those of texts without a known word, do not count; without any the fence is 0.
    """
    fence = np.zeros(num_clusters, np.float32)
    for cluster in np.unique(clusters):
        own = distances[clusters == cluster]
        if len(own := own[np.isfinite(own)]):
            first, third = np.quantile(own, (0.25, 0.75))
            fence[cluster] = third + FENCE * (third - first)
    return fence


def near_clusters(centres: NDArray[np.float32], number: int) -> NDArray[np.int64]:
    """The clusters with the nearest centres, nearest first, without the cluster itself: (K, at most `number`)."""
    number = min(number, len(centres) - 1)
    indices, _ = several_nearest(centres, centres, number + 1)
    return np.array([[other for other in row if other != cluster][:number] for cluster, row in enumerate(indices)])


def merges(centres: NDArray[np.float32]) -> NDArray[np.int64]:
    """Which two groups merge, step by step until one is left, (K - 1, 2): Ward's criterion on centres of length 1.

    Clusters are groups 0 to K - 1; the s-th step, counted from 0, makes group K + s.
    """
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import pdist

    if len(centres) < 2:
        return np.empty((0, 2), np.int64)
    return linkage(pdist(unit_rows(centres).astype(np.float64)), "ward")[:, :2].astype(np.int64)


def groups_at(steps: NDArray[np.int64], level: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """When so many groups are left, the place of each cluster's group, (K,), and the groups themselves, (level,).

    Groups are as `merges` counts them, and stand in the order of their first clusters.

    Raises:
        ValueError: fewer than 1 group, or more than there are clusters.
    """
    number = len(steps) + 1
    if not 1 <= level <= number:
        raise ValueError(f"cluster.level: found {level}, allowed: 1 to {number}, the clusters that hold texts")
    parent = np.arange(2 * number - 1)
    for step, pair in enumerate(steps[: number - level]):
        parent[pair] = number + step
    roots = np.arange(number)
    while (above := parent[roots] != roots).any():
        roots[above] = parent[roots[above]]
    groups, first, codes = np.unique(roots, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return np.argsort(order)[codes], groups[order]
