"""Core-set selection: no text far from a labelled one."""

from __future__ import annotations

import numpy as np

from active_learning.selection import Selection, one_of_the_highest, open_rows, query_strategy, squared_norms


def distances_to_set(rows: np.ndarray, norms: np.ndarray, others: np.ndarray, size: int = 1024) -> np.ndarray:
    """Squared Euclidean distance from each row to its nearest of `others`, in blocks of `size` by `size`."""
    nearest = np.full(len(rows), np.inf, dtype=rows.dtype)
    for start in range(0, len(others), size):
        part = others[start : start + size].astype(rows.dtype)
        part_norms = squared_norms(part)
        for first in range(0, len(rows), size):
            block = slice(first, first + size)
            products = rows[block] @ part.T
            np.minimum(nearest[block], norms[block] + (part_norms - 2 * products).min(axis=1), out=nearest[block])
    return nearest


@query_strategy
def coreset(
    *,
    unlabelled: np.ndarray,
    labelled: np.ndarray,
    embeddings: np.ndarray,
    query_size: int,
    rng: np.random.Generator,
) -> Selection:
    """k-centre greedy (Sener & Savarese 2018, algorithm 1): again and again the text farthest from all labelled and
    chosen ones. Where nothing is labelled the first is drawn. Score: Euclidean distance to the nearest of them at the
    time of choice (0 for a drawn one). Each choice is one product of the pool with a vector: O(N D query_size)."""
    rows, positions, closed = open_rows(embeddings, unlabelled)
    norms = squared_norms(rows)
    distances = distances_to_set(rows, norms, embeddings[labelled])
    chosen: list[int] = []
    scores, reasons = [], []
    for _ in range(query_size):
        distances[closed] = -np.inf
        distances[chosen] = -np.inf
        pick = one_of_the_highest(distances, rng)
        distance = float(np.sqrt(max(distances[pick], 0)))
        is_first = not np.isfinite(distance)
        scores.append(0.0 if is_first else distance)
        reasons.append("first centre, drawn at random" if is_first else f"distance {distance:.3g} to the nearest known")
        chosen.append(pick)
        np.minimum(distances, norms + (norms[pick] - 2 * (rows @ rows[pick])), out=distances)
    return Selection(positions[chosen], np.array(scores), reasons)
