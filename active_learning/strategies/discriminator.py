"""Discriminative active learning: choose what can be told apart from the labelled texts."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import numpy as np

from active_learning.selection import Selection, at_random, highest, query_strategy
from active_learning.strategies.uncertainty import over_blocks


@query_strategy
def discriminative(
    *,
    unlabelled: np.ndarray,
    labelled: np.ndarray,
    embeddings: np.ndarray,
    query_size: int,
    rng: np.random.Generator,
    sub_queries: Annotated[int, ">= 1"] = 10,
    factor: Annotated[int, ">= 1"] = 10,
    max_iterations: Annotated[int, ">= 1"] = 100,
) -> Selection:
    """Discriminative active learning (Gissin & Shalev-Shwartz 2019): a classifier learns labelled against unlabelled;
    the texts most surely unlabelled are chosen, in `sub_queries` parts, each counted as labelled in the next. The
    classifier is a logistic regression on standardised embeddings (theirs: a small network), trained on at most
    `factor` random unlabelled texts for each labelled one, both sides with equal weight. Score: its probability of
    "unlabelled" at the time of choice. With nothing labelled: at random."""
    if not len(labelled):
        return at_random(unlabelled, query_size, rng, "drawn at random: nothing labelled yet")
    known, left = labelled, unlabelled
    parts, probabilities = [], []
    for part in np.array_split(np.arange(query_size), min(sub_queries, query_size)):
        weights, bias = discriminator(embeddings, known, left, rng, factor, max_iterations)
        logits = over_blocks(partial(_logits, weights=weights, bias=bias), embeddings, left)
        best = highest(logits, len(part), rng)
        parts.append(left[best])
        probabilities.append(1 / (1 + np.exp(-np.clip(logits[best], -500, 500))))
        known = np.concatenate([known, left[best]])
        left = np.delete(left, best)
    scores = np.concatenate(probabilities)
    reasons = [f"unlike the labelled: told apart with probability {score:.3f}" for score in scores]
    return Selection(np.concatenate(parts), scores, reasons)


def discriminator(
    embeddings: np.ndarray,
    known: np.ndarray,
    left: np.ndarray,
    rng: np.random.Generator,
    factor: int,
    max_iterations: int,
) -> tuple[np.ndarray, float]:
    """(weights (D,), bias) in the scale of the embeddings: the logit of being unlabelled."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    count = min(len(left), factor * len(known))
    rows = embeddings[np.concatenate([known, rng.choice(left, count, replace=False)])]
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    scale[scale == 0] = 1
    is_unlabelled = np.arange(len(rows)) >= len(known)
    model = LogisticRegression(class_weight="balanced", max_iter=max_iterations)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a hundred steps rank well enough
        model.fit((rows - mean) / scale, is_unlabelled)
    weights = (model.coef_[0] / scale).astype(embeddings.dtype)
    return weights, float(model.intercept_[0] - mean @ weights)


def _logits(block: np.ndarray, weights: np.ndarray, bias: float) -> np.ndarray:
    return block @ weights + bias
