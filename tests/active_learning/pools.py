"""Made-up pools, and calls of strategies on them."""

import functools

import numpy as np

from active_learning import strategies
from active_learning.selection import needed_by

WRAPPERS = {
    "class_balanced": functools.partial(strategies.class_balanced, strategy=strategies.entropy),
    "subsample": functools.partial(strategies.subsample, strategy=strategies.coreset, size=20),
    "class_balanced of subsample": functools.partial(
        strategies.class_balanced, strategy=functools.partial(strategies.subsample, strategy=strategies.rep, size=9)
    ),
}
STRATEGIES = {name: getattr(strategies, name) for name in strategies.__all__ if name not in WRAPPERS}
ALL = STRATEGIES | WRAPPERS


def pool(n=60, dimension=5, classes=3, labelled=6, seed=0, dtype=np.float64, query_size=7):
    """Every input that a strategy may ask for: clusters in space, predictions that follow them, a tenth labelled."""
    rng = np.random.default_rng(seed)
    means = 3 * rng.normal(size=(classes, dimension))
    truth = rng.integers(classes, size=n)
    embeddings = means[truth] + rng.normal(size=(n, dimension))
    logits = -((embeddings[:, None] - means) ** 2).sum(-1) / (2 * dimension)
    passes = softmax(logits + 0.5 * rng.normal(size=(4, n, classes)))
    positions = rng.permutation(n)
    known = positions[:labelled]
    return {
        "probabilities": softmax(logits).astype(dtype),
        "mc_probabilities": passes.astype(dtype),
        "embeddings": embeddings.astype(dtype),
        "guesses": truth,
        "unlabelled": np.sort(positions[labelled:]),
        "labelled": known,
        "labels": truth[known],
        "num_classes": classes,
        "num_labels": 1,
        "query_size": query_size,
    }


def softmax(logits):
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def ask(strategy, arguments, seed=0):
    """Calls a strategy with what it needs of `given`, as the loop does."""
    inputs = arguments | {"rng": np.random.default_rng(seed)}
    return strategy(**{name: inputs[name] for name in needed_by(strategy)})
