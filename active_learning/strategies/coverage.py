"""Strategies for small budgets: typical texts first, and balls that cover the pool. They need no model."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from active_learning.selection import Selection, one_of_the_highest, query_strategy, squared_norms
from active_learning.strategies.clusters import MAX_ROWS, nearest_centre, quick_centres
from active_learning.strategies.k_centre import distances_to_set


def typicality(rows: np.ndarray, neighbours: int) -> np.ndarray:
    """1 / mean Euclidean distance to the `neighbours` nearest other rows (0 for a row on its own)."""
    import faiss

    if len(rows) == 1:
        return np.zeros(1)
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    squares, _ = faiss.knn(rows, rows, neighbours + 1)
    return 1 / (np.sqrt(np.maximum(squares[:, 1:], 0)).mean(axis=1, dtype=np.float64) + 1e-5)


@query_strategy
def typiclust(
    *,
    unlabelled: np.ndarray,
    labelled: np.ndarray,
    embeddings: np.ndarray,
    query_size: int,
    rng: np.random.Generator,
    neighbours: Annotated[int, ">= 1"] = 20,
    max_clusters: Annotated[int, ">= 1"] = 500,
    min_cluster_size: Annotated[int, ">= 1"] = 5,
    max_members: Annotated[int, ">= 1"] = 5_000,
    max_rows: Annotated[int, ">= 1"] = MAX_ROWS,
) -> Selection:
    """TypiClust (Hacohen et al. 2022): k-means of the pool into L + query_size clusters (at most `max_clusters`), then
    in turn, from the clusters with the fewest labelled and then the most texts, the text of highest typicality
    1 / mean distance to min(neighbours, half its cluster) nearest. Clusters below `min_cluster_size` are passed over
    while there are others. Of a cluster above `max_members`, a random part stands for it. Score: typicality."""
    pool = np.concatenate([unlabelled, labelled])
    count = min(len(pool), query_size + len(labelled), max(max_clusters, 1))
    clusters, _ = nearest_centre(embeddings, pool, quick_centres(embeddings, pool, count, rng, max(max_rows, count)))
    own = clusters[: len(unlabelled)]
    sizes, known = np.bincount(clusters, minlength=count), np.bincount(clusters[len(unlabelled) :], minlength=count)
    by_cluster = np.split(unlabelled[np.argsort(own, kind="stable")], np.cumsum(np.bincount(own, minlength=count))[:-1])
    members = {cluster: texts for cluster, texts in enumerate(by_cluster) if len(texts)}
    order = sorted(members, key=lambda cluster: (sizes[cluster] < min_cluster_size, known[cluster], -sizes[cluster]))
    large = [cluster for cluster in order if sizes[cluster] >= min_cluster_size]

    chosen: list[int] = []
    scores, reasons = [], []
    while len(chosen) < query_size:
        if not large:
            large = [cluster for cluster in order if len(members[cluster])]
        for cluster in large[: query_size - len(chosen)]:
            texts = members[cluster]
            if len(texts) > max_members:
                texts = np.sort(rng.choice(texts, max_members, replace=False))
            values = typicality(embeddings[texts], max(1, min(neighbours, len(texts) // 2)))
            best = one_of_the_highest(values, rng)
            chosen.append(texts[best])
            scores.append(values[best])
            reasons.append(f"most typical of a cluster of {sizes[cluster]}, {known[cluster]} labelled")
            members[cluster] = members[cluster][members[cluster] != texts[best]]
        large = [cluster for cluster in large if len(members[cluster])]
    return Selection(np.array(chosen), np.array(scores), reasons)


@query_strategy
def probcover(
    *,
    unlabelled: np.ndarray,
    labelled: np.ndarray,
    embeddings: np.ndarray,
    num_classes: int,
    query_size: int,
    rng: np.random.Generator,
    radius: Annotated[float, "> 0"] | None = None,
    purity: Annotated[float, "> 0", "<= 1"] = 0.95,
    max_rows: Annotated[int, ">= 1"] = 20_000,
) -> Selection:
    """ProbCover (Yehuda et al. 2022, algorithm 1): again and again the text whose ball of `radius` holds the most texts
    that no labelled or chosen ball holds yet. Without a radius: the largest at which a share `purity` of the balls
    holds one class only, by k-means into `num_classes` clusters (their §3.3). The ball graph is kept as bits, n²/8
    bytes; of a larger pool, a random `max_rows` texts stand for it. Score: texts newly covered; where all are covered,
    0 and drawn."""
    known = labelled if len(labelled) <= max_rows // 2 else rng.choice(labelled, max_rows // 2, replace=False)
    room = max(max_rows - len(known), query_size)
    texts = unlabelled if len(unlabelled) <= room else np.sort(rng.choice(unlabelled, room, replace=False))
    rows = embeddings[np.concatenate([texts, known])]
    if radius is None:
        radius = pure_radius(rows, max(2, num_classes), purity, rng)
    balls = ball_graph(rows, radius)
    covers = np.bitwise_count(balls).sum(axis=1, dtype=np.int64)
    uncovered = np.full(balls.shape[1], 255, dtype=np.uint8)

    def cover(ball: np.ndarray) -> None:
        """Takes what the ball covers anew out of everyone's count: the graph is symmetric."""
        fresh = np.flatnonzero(np.unpackbits(ball & uncovered, count=len(rows)))
        for start in range(0, len(fresh), 1024):
            covered = np.unpackbits(balls[fresh[start : start + 1024]], axis=1, count=len(rows))
            np.subtract(covers, covered.sum(axis=0, dtype=np.int64), out=covers)
        uncovered[:] &= ~ball

    for row in range(len(texts), len(rows)):
        cover(balls[row])
    chosen, scores = [], []
    is_open = np.ones(len(texts), dtype=bool)
    for _ in range(query_size):
        pick = one_of_the_highest(np.where(is_open, covers[: len(texts)], -1), rng)
        chosen.append(pick)
        scores.append(covers[pick])
        is_open[pick] = False
        cover(balls[pick])
    reasons = [f"its ball covers {score} more of {len(rows)} texts" for score in scores]
    return Selection(texts[chosen], np.array(scores, dtype=np.float64), reasons)


def pure_radius(
    rows: np.ndarray, num_classes: int, purity: float, rng: np.random.Generator, probes: int = 1000
) -> float:
    """The largest radius at which a share `purity` of the open balls around `probes` random rows holds no row of other
    k-means clusters: a quantile of the distances to the nearest such row. 0 where there is one cluster only."""
    everyone = np.arange(len(rows))
    count = min(num_classes, len(rows))
    clusters, _ = nearest_centre(rows, everyone, quick_centres(rows, everyone, count, rng, len(rows)))
    asked = everyone if len(rows) <= probes else rng.choice(everyone, probes, replace=False)
    nearest = np.full(len(asked), np.inf)
    for cluster in np.unique(clusters):
        inside = clusters[asked] == cluster
        centres = rows[asked[inside]]
        nearest[inside] = distances_to_set(centres, squared_norms(centres), rows[clusters != cluster])
    if not np.isfinite(nearest).all():
        return 0.0
    impure = min(len(asked) - 1, int((1 - purity) * len(asked) + 1e-9))  # as many balls may hold another cluster
    return float(np.sqrt(max(0.0, np.sort(nearest)[impure])))


def ball_graph(rows: np.ndarray, radius: float, size: int = 1024) -> np.ndarray:
    """(n, ceil(n / 8)) uint8: bit j of row i says whether ||x_i - x_j|| < radius. Each pair is measured once."""
    total = len(rows)
    graph = np.zeros((total, -(-total // 8)), dtype=np.uint8)
    norms = squared_norms(rows)
    for top in range(0, total, size):
        for left in range(top, total, size):
            above, beside = slice(top, top + size), slice(left, left + size)
            products = rows[above] @ rows[beside].T
            near = norms[above, None] + norms[beside] - 2 * products < radius**2
            for part, at, under in ((near, above, left), (near.T, beside, top)):
                packed = np.packbits(part, axis=1)
                graph[at, under // 8 : under // 8 + packed.shape[1]] = packed
    return graph
