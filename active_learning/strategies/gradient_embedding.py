"""BADGE: uncertain and diverse at once, by k-means++ on the gradients of the last layer."""

from __future__ import annotations

import numpy as np

from active_learning.selection import (
    Selection,
    one_class_a_text,
    one_of_the_highest,
    open_rows,
    query_strategy,
    squared_norms,
)


def output_gradients(probabilities: np.ndarray) -> np.ndarray:
    """(N, C): p - e_yhat, the gradient of the cross-entropy at the predicted class by the logits."""
    gradients = probabilities.copy()
    gradients[np.arange(len(gradients)), probabilities.argmax(axis=1)] -= 1
    return gradients


@one_class_a_text
@query_strategy
def badge(
    *,
    unlabelled: np.ndarray,
    embeddings: np.ndarray,
    query_size: int,
    rng: np.random.Generator,
    probabilities: np.ndarray | None = None,
) -> Selection:
    """BADGE (Ash et al. 2020, algorithm 1): k-means++ over the gradient embeddings (p - e_yhat) x h: first the longest,
    then by the squared distance to the nearest chosen one. The C·D-wide vectors are never built, as
    ||a x h - a' x h'||^2 = |a|^2 |h|^2 + |a'|^2 |h'|^2 - 2 (a·a') (h·h'). Before there is a model, k-means++ over the
    embeddings. Score: that squared distance at the time of choice (of the first: its squared length)."""
    rows, positions, closed = open_rows(embeddings, unlabelled)
    lengths = squared_norms(rows)
    gradients = None
    if probabilities is not None:
        gradients = output_gradients(open_rows(probabilities, unlabelled)[0]).astype(rows.dtype, copy=False)
        lengths *= squared_norms(gradients)
    lengths[closed] = 0
    distances = lengths
    chosen: list[int] = []
    scores = []
    for _ in range(query_size):
        pick = _draw(distances, chosen, closed, rng) if chosen else _longest(lengths, closed, rng)
        scores.append(float(distances[pick]))
        chosen.append(pick)
        products = rows @ rows[pick]
        if gradients is not None:
            products *= gradients @ gradients[pick]
        to_pick = np.maximum(lengths + (lengths[pick] - 2 * products), 0)
        distances = to_pick if len(chosen) == 1 else np.minimum(distances, to_pick)
        distances[chosen] = 0
        distances[closed] = 0
    kind, end = ("gradient", "") if gradients is not None else ("embedding", ", no model yet")
    reasons = [f"squared {kind} distance {score:.3g} to the nearest chosen{end}" for score in scores]
    reasons[0] = f"longest {kind}, squared length {scores[0]:.3g}{end}"
    return Selection(positions[chosen], np.array(scores), reasons)


def _longest(lengths: np.ndarray, closed: np.ndarray, rng: np.random.Generator) -> int:
    lengths = lengths.copy()
    lengths[closed] = -1
    return one_of_the_highest(lengths, rng)


def _draw(distances: np.ndarray, chosen: list[int], closed: np.ndarray, rng: np.random.Generator) -> int:
    """A row with chance in proportion to its distance; any open one where all distances are 0."""
    cumulative = np.cumsum(distances, dtype=np.float64)
    if cumulative[-1] == 0:
        return int(rng.choice(np.delete(np.arange(len(distances)), [*closed, *chosen])))
    return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
