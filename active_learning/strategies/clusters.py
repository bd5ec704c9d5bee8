"""Strategies over k-means clusters: one text from each.

Rep(En), ClUn(En), Rep(En)-ClUn(En) and UnRep are those of Ahmadnia et al. (NAACL 2025), which SCL-HNM (LREC 2026) takes
over: k-means as in their published code (random centres, 10 starts, 300 iterations). Clusters are found among the
texts that may be chosen; where these are more than `max_rows`, the centres come from a random `max_rows` of them and
every text then joins its nearest centre.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Annotated

import numpy as np

from active_learning.selection import Selection, blocks, highest, query_strategy
from active_learning.strategies.uncertainty import mean_entropy, over_blocks, shannon_entropy

MAX_ROWS = 50_000


def published_centres(
    embeddings: np.ndarray, rows: np.ndarray, count: int, rng: np.random.Generator, max_rows: int, starts: int
) -> np.ndarray:
    """(count, D) centres of scikit-learn's k-means with the settings of the published code of SCL-HNM."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    model = KMeans(count, init="random", n_init=starts, max_iter=300, random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct texts than clusters
        return model.fit(embeddings[_sample(rows, max_rows, rng)]).cluster_centers_


def quick_centres(
    embeddings: np.ndarray, rows: np.ndarray, count: int, rng: np.random.Generator, max_rows: int
) -> np.ndarray:
    """(count, D) float32 centres of faiss' k-means, one start, 25 iterations: for hundreds of clusters."""
    import faiss

    sample = np.ascontiguousarray(embeddings[_sample(rows, max_rows, rng)], dtype=np.float32)
    seed = int(rng.integers(2**31 - 1))
    model = faiss.Kmeans(
        sample.shape[1], count, niter=25, seed=seed, min_points_per_centroid=1, max_points_per_centroid=max_rows
    )
    model.train(sample)
    return np.asarray(model.centroids)


def _sample(rows: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    return rows if len(rows) <= size else np.sort(rng.choice(rows, size, replace=False))


def nearest_centre(embeddings: np.ndarray, rows: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(number of the nearest centre, squared Euclidean distance to it) of each of `rows`."""
    half_norms = np.einsum("kd,kd->k", centres, centres) / 2
    clusters, distances = [], []
    for part in blocks(rows):
        block = embeddings[part]
        own = (block @ centres.T.astype(block.dtype) - half_norms).argmax(axis=1)
        gap = block - centres[own]
        clusters.append(own)
        distances.append(np.einsum("nd,nd->n", gap, gap))
    return np.concatenate(clusters), np.concatenate(distances).astype(np.float64)


def best_of_each(
    clusters: np.ndarray, scores: np.ndarray, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(positions, cluster numbers): in each cluster the row of highest score, by number of the cluster; the places of
    empty clusters go to the highest scores of what is left. Equals are drawn."""
    shuffled = rng.permutation(len(scores))
    order = shuffled[np.lexsort((-scores[shuffled], clusters[shuffled]))]
    first = np.flatnonzero(np.diff(clusters[order], prepend=-1))
    best = order[first]
    if len(best) < count:
        left = np.setdiff1d(np.arange(len(scores)), best, assume_unique=True)
        best = np.concatenate([best, left[highest(scores[left], count - len(best), rng)]])
    return best, clusters[best]


def _nearest_to_centres(unlabelled, embeddings, centres, query_size, rng) -> Selection:
    clusters, distances = nearest_centre(embeddings, unlabelled, centres)
    best, numbers = best_of_each(clusters, -distances, query_size, rng)
    scores = -np.sqrt(distances[best])
    return Selection(unlabelled[best], scores, _phrases("nearest to the centre of cluster", numbers, query_size))


def _phrases(before: str, clusters: Iterable[int], count: int) -> list[str]:
    return [f"{before} {cluster + 1} of {count}" for cluster in clusters]


@query_strategy
def kmeans(
    *,
    unlabelled: np.ndarray,
    embeddings: np.ndarray,
    query_size: int,
    rng: np.random.Generator,
    max_rows: Annotated[int, ">= 1"] = MAX_ROWS,
) -> Selection:
    """The member nearest to the centre of each of query_size clusters (Yuan et al. 2020 call it embedding k-means).
    Made for large queries: one start of faiss' k-means; `rep` is the careful form. Score: minus the Euclidean distance
    to the centre."""
    centres = quick_centres(embeddings, unlabelled, query_size, rng, max(max_rows, query_size))
    return _nearest_to_centres(unlabelled, embeddings, centres, query_size, rng)


@query_strategy
def rep(
    *,
    unlabelled: np.ndarray,
    embeddings: np.ndarray,
    query_size: int,
    rng: np.random.Generator,
    max_rows: Annotated[int, ">= 1"] = MAX_ROWS,
    starts: Annotated[int, ">= 1"] = 10,
) -> Selection:
    """Rep(En): the member nearest to the centre of each of query_size clusters, k-means as published. Score: minus the
    Euclidean distance to the centre."""
    centres = published_centres(embeddings, unlabelled, query_size, rng, max(max_rows, query_size), starts)
    return _nearest_to_centres(unlabelled, embeddings, centres, query_size, rng)


@query_strategy
def clun(
    *,
    unlabelled: np.ndarray,
    embeddings: np.ndarray,
    query_size: int,
    rng: np.random.Generator,
    probabilities: np.ndarray | None = None,
    num_labels: int = 1,
    max_rows: Annotated[int, ">= 1"] = MAX_ROWS,
    starts: Annotated[int, ">= 1"] = 10,
) -> Selection:
    """ClUn(En): the most uncertain member of each of query_size clusters: clusters first, entropy second. Score:
    entropy in nats. Before there is a model: `rep`."""
    if probabilities is None:
        return rep.__wrapped__(
            unlabelled=unlabelled,
            embeddings=embeddings,
            query_size=query_size,
            rng=rng,
            max_rows=max_rows,
            starts=starts,
        )
    centres = published_centres(embeddings, unlabelled, query_size, rng, max(max_rows, query_size), starts)
    clusters, _ = nearest_centre(embeddings, unlabelled, centres)
    scores = mean_entropy(probabilities, unlabelled, num_labels)
    best, numbers = best_of_each(clusters, scores, query_size, rng)
    phrases = _phrases("highest in cluster", numbers, query_size)
    reasons = [f"entropy {score:.2f} nats, {phrase}" for score, phrase in zip(scores[best], phrases, strict=True)]
    return Selection(unlabelled[best], scores[best], reasons)


@query_strategy
def rep_clun(
    *,
    unlabelled: np.ndarray,
    labelled: np.ndarray,
    embeddings: np.ndarray,
    query_size: int,
    rng: np.random.Generator,
    probabilities: np.ndarray | None = None,
    num_labels: int = 1,
    max_rows: Annotated[int, ">= 1"] = MAX_ROWS,
    starts: Annotated[int, ">= 1"] = 10,
) -> Selection:
    """Rep(En)-ClUn(En): `rep` while nothing is labelled, `clun` afterwards. Embeddings are those of the pretrained
    encoder in the first round and of the model of the last round later on: the caller gives them."""
    return clun.__wrapped__(
        unlabelled=unlabelled,
        embeddings=embeddings,
        query_size=query_size,
        rng=rng,
        probabilities=probabilities if len(labelled) else None,
        num_labels=num_labels,
        max_rows=max_rows,
        starts=starts,
    )


@query_strategy
def unrep(
    *,
    unlabelled: np.ndarray,
    embeddings: np.ndarray,
    query_size: int,
    rng: np.random.Generator,
    probabilities: np.ndarray | None = None,
    factor: Annotated[int, ">= 1"] = 10,
    max_rows: Annotated[int, ">= 1"] = MAX_ROWS,
    starts: Annotated[int, ">= 1"] = 10,
) -> Selection:
    """UnRep: `rep` among the factor * query_size most uncertain texts: entropy first, clusters second. Score: minus the
    Euclidean distance to the centre. Before there is a model: `rep` among all."""
    candidates = unlabelled
    if probabilities is not None and factor * query_size < len(unlabelled):
        scores = over_blocks(shannon_entropy, probabilities, unlabelled)
        candidates = np.sort(unlabelled[highest(scores, factor * query_size, rng)])
    return rep.__wrapped__(
        unlabelled=candidates,
        embeddings=embeddings,
        query_size=query_size,
        rng=rng,
        max_rows=max_rows,
        starts=starts,
    )
