"""Clusters where texts lie dense, and texts that lie in none: HDBSCAN in the space of a graph of neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags

LARGEST = 0.5  # share of the texts: where one region holds nearly all, those inside it are the answer


def density_clusters(
    vectors: NDArray[np.float32], min_cluster_size: int, min_samples: int, num_neighbours: int, num_components: int
) -> NDArray[np.int64]:
    """Clusters (N,) by HDBSCAN (Campello et al., TKDD 2015; scikit-learn's), numbered by size; -1 is an outlier.

    Density says little between embeddings of some hundred dimensions, where all distances are alike; it is looked at
    between Laplacian eigenmaps of the graph of nearest neighbours (`neighbour_eigenmaps`). A region of more than half
    of the texts gives way to the regions inside it.

    Args:
        vectors: (N, D) of length 1.
        min_cluster_size: least texts of a cluster.
        min_samples: texts within reach that make a region dense, the text itself among them.
        num_neighbours, num_components: of the graph and its eigenmaps; as many as N allows.

    Raises:
        ValueError: fewer texts than a cluster must have.
    """
    from sklearn.cluster import HDBSCAN

    number = len(vectors)
    if number < max(min_cluster_size, min_samples):
        needed = max(min_cluster_size, min_samples)
        raise ValueError(f"method.min_cluster_size: found {needed} with {number} texts, allowed: at most {number}")
    maps = neighbour_eigenmaps(vectors, min(num_neighbours, number - 1), min(num_components, number - 2))
    largest = max(int(LARGEST * number), min_cluster_size)
    options = {"min_cluster_size": min_cluster_size, "min_samples": min_samples, "max_cluster_size": largest}
    clusters = HDBSCAN(**options, copy=True).fit_predict(maps)
    sizes = np.bincount(clusters[clusters >= 0])
    place = np.empty(len(sizes), np.int64)
    place[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return np.where(clusters >= 0, place[clusters] if len(sizes) else -1, -1)


def neighbour_eigenmaps(vectors: NDArray[np.float32], num_neighbours: int, num_components: int) -> NDArray[np.float64]:
    """Laplacian eigenmaps (Belkin and Niyogi, Neural Computation 2003) of a graph of nearest neighbours: (N, C + 1).

    An edge of weight 1 joins two texts of which one is among the nearest of the other. The maps are the eigenvectors of
    the random walk on the graph with the largest eigenvalues; the constant one, which parts no texts, is among them: in
    a graph of several parts none of those that belong to the eigenvalue 1 need be it.

    Args:
        vectors: (N, D).
        num_neighbours: of each text, without itself, below N.
        num_components: C, below N - 1.
    """
    import faiss
    from scipy.sparse.linalg import eigsh

    number = len(vectors)
    _, neighbours = faiss.knn(vectors, vectors, num_neighbours + 1)
    rows = np.repeat(np.arange(number), num_neighbours + 1)
    graph = csr_matrix((np.ones(len(rows)), (rows, neighbours.ravel())), (number, number))
    graph.setdiag(0)  # of equal texts the first of the nearest need not be the text itself
    graph = graph.maximum(graph.T)
    scale = 1 / np.sqrt(np.asarray(graph.sum(axis=1)).ravel())
    start = np.ones(number)  # the same eigenvectors on every call
    _, maps = eigsh(diags(scale) @ graph @ diags(scale), k=num_components + 1, which="LA", v0=start)
    return maps[:, ::-1] * scale[:, None]
