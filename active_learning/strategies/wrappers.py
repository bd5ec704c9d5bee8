"""Strategies around a strategy: `strategy` is a partial of another, wrapped or not."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from active_learning.selection import Selection, Strategy, needed_by, query_strategy
from active_learning.strategies.uncertainty import over_blocks


def _ask(strategy: Strategy, **inputs) -> Selection:
    return strategy(**{name: inputs[name] for name in needed_by(strategy) & inputs.keys()})


@query_strategy
def class_balanced(
    *,
    strategy: Strategy,
    unlabelled: np.ndarray,
    labels: np.ndarray,
    num_classes: int,
    query_size: int,
    rng: np.random.Generator,
    probabilities: np.ndarray | None = None,
    guesses: np.ndarray | None = None,
    **inputs,
) -> Selection:
    """Asks `strategy` class by predicted class, for as many texts as bring the labelled counts nearest to equal (Bengar
    et al. 2022, greedily, as small-text's ClassBalancer): each place goes to the class with the fewest labelled and
    promised texts that still has candidates. Scores are the wrapped strategy's, 0 where all candidates of a class are
    taken; the order goes from class to class, for a person may answer the first of them alone. Before there is a
    model, `guesses` are the predicted classes; without them, the wrapped strategy chooses alone."""
    inputs |= {"labels": labels, "num_classes": num_classes, "rng": rng}
    inputs |= {"probabilities": probabilities, "guesses": guesses}
    if probabilities is not None:
        predicted = over_blocks(lambda block: block.argmax(axis=1), probabilities, unlabelled).astype(np.int64)
    elif guesses is not None:
        predicted = guesses[unlabelled]
    else:
        return _ask(strategy, **inputs, unlabelled=unlabelled, query_size=query_size)
    candidates = np.bincount(predicted, minlength=num_classes)
    quotas = class_quotas(np.bincount(labels, minlength=num_classes), candidates, query_size, rng)
    asked = np.flatnonzero(quotas)
    parts = [
        _ask(strategy, **inputs, unlabelled=unlabelled[predicted == number], query_size=int(quotas[number]))
        for number in asked
    ]
    told = "predicted class {}" if probabilities is not None else "class {} by the names"
    reasons = []
    for number, part in zip(asked, parts, strict=True):
        of_class, is_whole = told.format(number), quotas[number] == candidates[number]  # there was nothing to choose
        reasons += [f"all {len(part.reasons)} of {of_class}" if is_whole else f"{reason}; {of_class}"
                    for reason in part.reasons]  # fmt: skip
    in_turn = np.argsort(np.concatenate([np.arange(len(part.indices)) for part in parts]), kind="stable")
    indices, scores = (np.concatenate(arrays)[in_turn] for arrays in zip(*(part[:2] for part in parts), strict=True))
    return Selection(indices, scores, [reasons[place] for place in in_turn])


def class_quotas(counts: np.ndarray, candidates: np.ndarray, query_size: int, rng: np.random.Generator) -> np.ndarray:
    """(C,) places of each class; `query_size` in all."""
    quotas = np.zeros_like(candidates)
    for _ in range(query_size):
        held = np.where(quotas < candidates, counts + quotas, np.inf)
        quotas[rng.choice(np.flatnonzero(held == held.min()))] += 1
    return quotas


@query_strategy
def subsample(
    *,
    strategy: Strategy,
    unlabelled: np.ndarray,
    query_size: int,
    rng: np.random.Generator,
    size: Annotated[int, ">= 1"] = 10_000,
    **inputs,
) -> Selection:
    """Asks `strategy` about a random `size` of the texts (never fewer than the query), for pools too large for it."""
    size = max(size, query_size)
    if size < len(unlabelled):
        unlabelled = np.sort(rng.choice(unlabelled, size, replace=False))
    return _ask(strategy, **inputs, unlabelled=unlabelled, query_size=query_size, rng=rng)
