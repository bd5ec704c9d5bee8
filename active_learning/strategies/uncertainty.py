"""Strategies that ask where the model is least sure. Before there is a model they draw at random, and say so."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from active_learning.selection import Selection, at_random, blocks, highest, one_class_a_text, query_strategy

NO_MODEL = "drawn at random: no model yet"


def shannon_entropy(probabilities: np.ndarray) -> np.ndarray:
    """-sum_c p_c log p_c in nats over the last axis, with 0 log 0 = 0: a row of zeros (no class could be read) has
    entropy 0, the least uncertain."""
    logs = np.log(np.maximum(probabilities, np.finfo(probabilities.dtype).tiny))
    return -np.einsum("...c,...c->...", probabilities, logs)


def over_blocks(score: Callable[[np.ndarray], np.ndarray], array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """`score` of the pool's `rows` (the last axis but one), in blocks; float64."""
    return np.concatenate([score(np.take(array, block, axis=-2)) for block in blocks(rows)]).astype(np.float64)


def _most(scores, unlabelled, query_size, rng, phrase: str) -> Selection:
    best = highest(scores, query_size, rng)
    return Selection(unlabelled[best], scores[best], [phrase.format(abs(score)) for score in scores[best]])


def mean_entropy(probabilities: np.ndarray, rows: np.ndarray, num_labels: int) -> np.ndarray:
    """Entropy (n,) of the pool's `rows` in nats; of several labels the mean over them."""
    return over_blocks(shannon_entropy, probabilities, rows) - np.log(num_labels)


@query_strategy
def entropy(
    *,
    unlabelled: np.ndarray,
    query_size: int,
    rng: np.random.Generator,
    probabilities: np.ndarray | None = None,
    num_labels: int = 1,
) -> Selection:
    """Highest Shannon entropy of the predicted classes (Shannon 1948; Settles 2009, §3.1), of several labels the mean
    over them. Score: entropy in nats."""
    if probabilities is None:
        return at_random(unlabelled, query_size, rng, NO_MODEL)
    scores = mean_entropy(probabilities, unlabelled, num_labels)
    return _most(scores, unlabelled, query_size, rng, "entropy {:.2f} nats")


def _missing_confidence(block: np.ndarray) -> np.ndarray:
    few = block.shape[1] <= 32  # a maximum over long columns beats one over many short rows
    return 1 - (np.ascontiguousarray(block.T).max(axis=0) if few else block.max(axis=1))


@one_class_a_text
@query_strategy
def least_confidence(
    *, unlabelled: np.ndarray, query_size: int, rng: np.random.Generator, probabilities: np.ndarray | None = None
) -> Selection:
    """Lowest probability of the predicted class (Lewis & Gale 1994). Score: 1 - max_c p_c."""
    if probabilities is None:
        return at_random(unlabelled, query_size, rng, NO_MODEL)
    scores = over_blocks(_missing_confidence, probabilities, unlabelled)
    return _most(scores, unlabelled, query_size, rng, "1 - highest probability is {:.2f}")


def _negative_margin(block: np.ndarray) -> np.ndarray:
    first_two = np.partition(block, -2, axis=1)[:, -2:]
    return first_two[:, 0] - first_two[:, 1]


@one_class_a_text
@query_strategy
def margin(
    *, unlabelled: np.ndarray, query_size: int, rng: np.random.Generator, probabilities: np.ndarray | None = None
) -> Selection:
    """Smallest distance between the two likeliest classes (Scheffer et al. 2001; "breaking ties", Luo et al. 2005).
    Score: minus that margin."""
    if probabilities is None:
        return at_random(unlabelled, query_size, rng, NO_MODEL)
    scores = over_blocks(_negative_margin, probabilities, unlabelled)
    return _most(scores, unlabelled, query_size, rng, "margin {:.2f} between the first two classes")


def _mutual_information(passes: np.ndarray) -> np.ndarray:
    return shannon_entropy(passes.mean(axis=0)) - shannon_entropy(passes).mean(axis=0)


@query_strategy
def bald(
    *, unlabelled: np.ndarray, query_size: int, rng: np.random.Generator, mc_probabilities: np.ndarray | None = None
) -> Selection:
    """Highest mutual information between the prediction and the weights, estimated from T passes with dropout
    (Houlsby et al. 2011; Gal et al. 2017). Score: H(mean_t p_t) - mean_t H(p_t), in nats; 0 where T = 1."""
    if mc_probabilities is None:
        return at_random(unlabelled, query_size, rng, NO_MODEL)
    scores = over_blocks(_mutual_information, mc_probabilities, unlabelled)
    return _most(scores, unlabelled, query_size, rng, "dropout passes disagree by {:.3f} nats")
