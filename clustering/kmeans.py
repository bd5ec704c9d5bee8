"""k-means by Lloyd's algorithm, seeded by k-means++; distances by faiss in blocks, so that nothing is N x N.

Time and memory grow with N K D and N D. With `sample_rows` the centres are found on that many rows, drawn once, and
all rows are then given to the nearest centre: the time of the search no longer grows with N.

Dense rows are clustered here, and not by a library, because the figures in `reports/` hang on these draws: another
implementation gives other clusters for the same seed. The race does not decide it
(`python -m benchmarks.clustering_scale --libraries`; 12,500 made-up rows, three seeds, one thread): with 100 clusters
this takes half the time of scikit-learn's and ends 0.0 to 0.5 % lower in inertia; faiss's takes half of this one's and
ends 1.7 to 2.5 % higher. With 20 clusters scikit-learn is a seventh faster, faiss two fifths, all within 0.2 %.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse

BLOCK = 8192  # sparse rows compared with all centres at a time
Vectors: TypeAlias = NDArray[np.float32] | csr_matrix


@dataclass(frozen=True)
class KMeans:
    """Centres (K, D) float32, the nearest one of each row (N,) int64, the sum of squared distances to them, and what
    else is worth a line among the figures of a run."""

    centres: NDArray[np.float32]
    assignments: NDArray[np.int64]
    inertia: float
    figures: dict[str, float] = field(default_factory=dict)


def kmeans(
    vectors: Vectors,
    num_clusters: int,
    rng: np.random.Generator,
    num_starts: int = 10,
    max_iter: int = 300,
    sample_rows: int | None = None,
) -> KMeans:
    """The best of several k-means, by inertia (Lloyd 1982; k-means++: Arthur and Vassilvitskii, SODA 2007).

    A start ends when no row moves. A centre that loses its last row takes the row that is farthest from its own.
    Sparse rows are clustered by scikit-learn, which does not fill them.

    Args:
        vectors: (N, D) float32, or sparse.
        num_clusters: K, at least 1 and at most N.
        rng: of the starts.
        num_starts: starts, each from other first centres.
        max_iter: iterations of a start.
        sample_rows: rows that the centres are found on, all by default.

    Raises:
        ValueError: more clusters than rows, none, or fewer sampled rows than clusters.
    """
    number = vectors.shape[0]
    if not 1 <= num_clusters <= number:
        raise ValueError(f"method.num_clusters: found {num_clusters}, allowed: 1 to {number}, the texts there are")
    if sample_rows is not None and sample_rows < num_clusters:
        raise ValueError(f"method.sample_rows: found {sample_rows}, allowed: >= {num_clusters}, the clusters")
    if issparse(vectors):
        return _sparse(vectors, num_clusters, rng, num_starts, max_iter, sample_rows)
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    sample = vectors
    if sample_rows is not None and sample_rows < number:
        sample = vectors[np.sort(rng.choice(number, sample_rows, replace=False))]
    starts = (lloyd(sample, seed_centres(sample, num_clusters, rng), max_iter) for _ in range(num_starts))
    best = min(starts, key=lambda result: result.inertia)
    if len(sample) == number:
        return best
    assignments, distances = nearest(vectors, best.centres)
    return KMeans(best.centres, assignments, float(distances.sum(dtype=np.float64)))


def unit_rows(vectors: Vectors) -> Vectors:
    """Rows scaled to length 1; a row of zeros stays."""
    if issparse(vectors):
        from sklearn.preprocessing import normalize

        return normalize(vectors)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)


def nearest(vectors: Vectors, centres: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The nearest centre of each row and the squared Euclidean distance to it: (N,), (N,)."""
    indices, distances = several_nearest(vectors, centres, 1)
    return indices[:, 0], distances[:, 0]


def several_nearest(
    vectors: Vectors, centres: NDArray[np.float32], number: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The `number` nearest centres of each row, nearest first, and the squared distances to them, each (N, number)."""
    if issparse(vectors):
        blocks = [vectors[start : start + BLOCK] for start in range(0, vectors.shape[0], BLOCK)]
        nearest_rows = [_nearest_of_sparse(block, centres, number) for block in blocks]
        indices, distances = (np.concatenate(part) for part in zip(*nearest_rows, strict=True))
    else:
        import faiss

        distances, indices = faiss.knn(np.ascontiguousarray(vectors, np.float32), centres, number)
    return indices, np.maximum(distances, 0)


def _nearest_of_sparse(rows: csr_matrix, centres: NDArray, number: int) -> tuple[NDArray[np.int64], NDArray]:
    norms = np.asarray(rows.multiply(rows).sum(axis=1)).reshape(-1, 1)
    squares = (norms + np.square(centres).sum(axis=1) - 2 * (rows @ centres.T)).astype(np.float32)
    indices = np.argsort(squares, axis=1, kind="stable")[:, :number]
    return indices, np.take_along_axis(squares, indices, axis=1)


def without_direction(vectors: Vectors) -> NDArray[np.bool_]:
    """Which rows are zero, (N,): texts without a known word. Their distance to a centre says nothing."""
    return np.asarray(abs(vectors).sum(axis=1)).ravel() == 0


def distances_to_own(vectors: Vectors, centres: NDArray[np.float32], clusters: NDArray) -> NDArray[np.float32]:
    """Squared Euclidean distance of each row to the centre of its cluster, which need not be the nearest: (N,)."""
    distances = np.empty(vectors.shape[0], np.float32)
    for cluster in np.unique(clusters):
        rows = np.flatnonzero(clusters == cluster)
        distances[rows] = nearest(vectors[rows], centres[[cluster]])[1]
    return distances


def seed_centres(vectors: NDArray[np.float32], num_clusters: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """First centres (K, D): rows drawn one after the other with probability proportional to the squared distance to
    the nearest one drawn before; of several candidates a step takes the one that lowers the sum most (as scikit-learn
    does, 2 + log K of them)."""
    number, trials = len(vectors), 2 + int(np.log(num_clusters))
    norms = np.einsum("nd,nd->n", vectors, vectors)
    chosen = [int(rng.integers(number))]
    closest = _to_rows(vectors, norms, np.array(chosen))[0]
    for _ in range(num_clusters - 1):
        total = np.cumsum(closest, dtype=np.float64)
        drawn = np.minimum(np.searchsorted(total, rng.random(trials) * total[-1]), number - 1)
        candidates = np.minimum(_to_rows(vectors, norms, drawn), closest)
        best = int(candidates.sum(axis=1, dtype=np.float64).argmin())
        chosen.append(int(drawn[best]))
        closest = candidates[best]
    return vectors[chosen].copy()


def _to_rows(vectors: NDArray, norms: NDArray, rows: NDArray) -> NDArray:
    """Squared distances of all rows to some of them, (len(rows), N)."""
    return np.maximum(norms[rows][:, None] + norms - 2 * vectors[rows] @ vectors.T, 0)


def lloyd(vectors: NDArray[np.float32], centres: NDArray[np.float32], max_iter: int) -> KMeans:
    """k-means from these centres, until no row moves."""
    previous = None
    for _ in range(max_iter):
        assignments, distances = nearest(vectors, centres)
        if previous is not None and (assignments == previous).all():
            break
        assignments = _without_empty(assignments, distances, len(centres))
        centres, previous = means(vectors, assignments, len(centres)), assignments
    assignments, distances = nearest(vectors, centres)
    return KMeans(centres, assignments, float(distances.sum(dtype=np.float64)))


def means(vectors: NDArray[np.float32], assignments: NDArray[np.int64], num_clusters: int) -> NDArray[np.float32]:
    """The mean row of each cluster (K, D); of an empty one zeros."""
    number = len(vectors)
    members = csr_matrix((np.ones(number, np.float32), (assignments, np.arange(number))), (num_clusters, number))
    sizes = np.bincount(assignments, minlength=num_clusters)
    return np.asarray(members @ vectors / np.maximum(sizes, 1)[:, None], dtype=np.float32)


def _without_empty(assignments: NDArray, distances: NDArray, num_clusters: int) -> NDArray:
    sizes = np.bincount(assignments, minlength=num_clusters)
    if sizes.all():
        return assignments
    assignments = assignments.copy()
    farthest = iter(np.argsort(-distances, kind="stable"))
    for empty in np.flatnonzero(sizes == 0):
        row = next(row for row in farthest if sizes[assignments[row]] > 1)
        sizes[assignments[row]] -= 1
        assignments[row], sizes[empty] = empty, 1
    return assignments


def _sparse(
    vectors: csr_matrix, num_clusters: int, rng: np.random.Generator, num_starts: int, max_iter: int,
    sample_rows: int | None,
) -> KMeans:  # fmt: skip
    from sklearn.cluster import KMeans as SparseKMeans

    number = vectors.shape[0]
    sample = vectors
    if sample_rows is not None and sample_rows < number:
        sample = vectors[np.sort(rng.choice(number, sample_rows, replace=False))]
    seed = int(rng.integers(2**31))
    model = SparseKMeans(num_clusters, n_init=num_starts, max_iter=max_iter, random_state=seed).fit(sample)
    centres = model.cluster_centers_.astype(np.float32)
    assignments, distances = nearest(vectors, centres)
    return KMeans(centres, assignments, float(distances.sum(dtype=np.float64)))
