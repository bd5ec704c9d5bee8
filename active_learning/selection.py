"""What a query strategy takes and gives: `Selection`, the checks of its arguments, and how ties are broken.

A strategy is a function of keyword arguments that touches nothing but them. It names those it wants, of

- `unlabelled` (U,) int64: positions in the pool that may be chosen, ascending; `query_size`: how many to choose;
- `rng`: numpy Generator, the only source of chance;
- `probabilities` (N, C): the model's class probabilities for the pool, `None` before there is a model;
- `mc_probabilities` (T, N, C): the same from T passes with dropout on, `None` before there is a model;
- `embeddings` (N, D) float32 or float64: the pool's embeddings;
- `guesses` (N,) int64: the classes that the names of the classes tell before there is a model, otherwise `None`;
- `labelled` (L,) int64 positions, `labels` (L,) int64 their classes, `num_classes`;
- `num_labels`: how many labels a text may have, where its probabilities are those of `label_by_label`, otherwise 1,

and its own options, and returns a `Selection`. `needed_by(strategy)` says which; rows of the pool that stand neither
in `unlabelled` nor in `labelled` are never looked at. A query as large as what is left returns all of it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from active_learning.inputs import INPUTS

BLOCK = 16_384  # rows at a time: what a strategy holds besides the pool stays small
PROBABILITIES = frozenset(["probabilities", "mc_probabilities"])


class StrategyError(ValueError):
    """Arguments that no query can be made from, in one line."""


class Selection(NamedTuple):
    """The chosen texts in order of choice: `indices` (q,) int64 positions in the pool, `scores` (q,) float64 (what the
    strategy maximised; see each), `reasons`: a short phrase each."""

    indices: np.ndarray
    scores: np.ndarray
    reasons: list[str]


Strategy = Callable[..., Selection]


class CheckedStrategy(Protocol):
    """A strategy whose arguments are checked; `__wrapped__` is the one without the check."""

    __wrapped__: Strategy

    def __call__(self, **arguments: Any) -> Selection:
        """What the strategy chooses."""


def needed_by(strategy: Strategy) -> frozenset[str]:
    """Which of `INPUTS` a strategy takes, through partials and wrappers (their `strategy` argument) alike."""
    wrapped = strategy.keywords.get("strategy") if isinstance(strategy, functools.partial) else None
    own = INPUTS & inspect.signature(strategy).parameters.keys()
    return own | needed_by(wrapped) if wrapped else own


def label_by_label(probabilities: np.ndarray) -> np.ndarray:
    """Probabilities (…, C) of classes that apply each by itself, as those (…, 2 C) of one event: a class drawn at
    random, and whether it applies. Its entropy is log C more than the mean of the classes' entropies, of which
    `num_labels` tells; divergence and mutual information are such means, too."""
    return np.concatenate([probabilities, 1 - probabilities], axis=-1) / probabilities.shape[-1]


def one_class_a_text(strategy: CheckedStrategy) -> CheckedStrategy:
    """Marks a strategy that compares the likeliest classes of a text: what it asks means nothing where each class
    applies or not by itself."""
    vars(strategy)["takes_one_class"] = True
    return strategy


def takes_one_class(strategy: Strategy) -> bool:
    """Whether a strategy asks by the one class of a text, itself or by what it wraps."""
    wrapped = strategy.keywords.get("strategy") if isinstance(strategy, functools.partial) else None
    own: Any = strategy.func if isinstance(strategy, functools.partial) else strategy
    marked = getattr(own, "takes_one_class", False) or "labels" in inspect.signature(own).parameters
    return marked or bool(wrapped and takes_one_class(wrapped))


def query_strategy(function: Strategy) -> CheckedStrategy:
    """Checks the arguments before `function` sees them, and answers a query for all that is left without it."""

    @functools.wraps(function)
    def checked(**arguments) -> Selection:
        check(**arguments)
        unlabelled = arguments["unlabelled"]
        if arguments["query_size"] >= len(unlabelled):
            left = len(unlabelled)
            return Selection(unlabelled.astype(np.int64), np.zeros(left), [f"one of the last {left}"] * left)
        return function(**arguments)

    return checked


def check(
    *,
    unlabelled: np.ndarray,
    query_size: int,
    probabilities: np.ndarray | None = None,
    mc_probabilities: np.ndarray | None = None,
    embeddings: np.ndarray | None = None,
    labelled: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    num_classes: int | None = None,
    **_,
) -> None:
    """Raises `StrategyError` where the arguments do not fit what this module's docstring says of them."""
    _check_positions("unlabelled", unlabelled)
    if len(unlabelled) == 0:
        raise StrategyError("unlabelled: the pool is empty, no text is left to choose")
    if np.any(np.diff(unlabelled) <= 0):
        raise StrategyError("unlabelled: positions must ascend without repetition")
    if query_size < 1:
        raise StrategyError(f"query_size={query_size}: must be at least 1")
    asked = unlabelled
    if labelled is not None:
        _check_positions("labelled", labelled)
        if np.isin(labelled, unlabelled, assume_unique=True).any():
            raise StrategyError("labelled: holds positions that stand in unlabelled too")
        asked = np.concatenate([unlabelled, labelled])
    if labels is not None:
        _check_labels(labels, labelled, num_classes)
    for name, array, axes in (
        ("probabilities", probabilities, "(N, C)"),
        ("mc_probabilities", mc_probabilities, "(T, N, C)"),
        ("embeddings", embeddings, "(N, D)"),
    ):
        if array is not None:
            _check_array(name, array, axes, asked)


def _check_positions(name: str, positions: np.ndarray) -> None:
    if not isinstance(positions, np.ndarray) or positions.ndim != 1 or positions.dtype.kind not in "iu":
        raise StrategyError(f"{name}: must be one-dimensional integers, got {_form(positions)}")


def _check_labels(labels: np.ndarray, labelled: np.ndarray | None, num_classes: int | None) -> None:
    _check_positions("labels", labels)
    if labelled is not None and len(labels) != len(labelled):
        raise StrategyError(f"labels: {len(labels)} for {len(labelled)} labelled texts")
    if num_classes is not None and len(labels) and not 0 <= labels.min() <= labels.max() < num_classes:
        raise StrategyError(f"labels: must lie in [0, {num_classes}), got {labels.min()} to {labels.max()}")


def _check_array(name: str, array: np.ndarray, axes: str, asked: np.ndarray) -> None:
    """Shape, type and values of a pool's array, over the rows in `asked`."""
    dimensions = axes.count(",") + 1
    is_array = isinstance(array, np.ndarray) and array.ndim == dimensions
    if not is_array or array.dtype not in (np.float32, np.float64) or 0 in array.shape:
        raise StrategyError(f"{name}: must be filled float32 or float64 {axes}, got {_form(array)}")
    if asked.min() < 0 or asked.max() >= array.shape[-2]:
        raise StrategyError(f"{name}: has {array.shape[-2]} rows, position {asked.max()} was asked for")
    if name != "embeddings" and array.shape[-1] < 2:
        raise StrategyError(f"{name}: needs at least 2 classes, got {array.shape[-1]}")
    for part in array if array.ndim == 3 else [array]:
        for rows in blocks(asked):
            block = part.take(rows, axis=0)
            with np.errstate(over="ignore", invalid="ignore"):
                total = block.sum()
            # A finite sum has finite terms; only a sum that overflows needs the second look.
            if not np.isfinite(total) and not np.isfinite(block).all():
                row = rows[np.flatnonzero(~np.isfinite(block).all(axis=1))[0]]
                raise StrategyError(f"{name}: row {row} holds a value that is not finite")
            if name != "embeddings" and (block.min() < 0 or block.max() > 1 + 1e-4):
                raise StrategyError(f"{name}: must lie in [0, 1], got {block.min():.4g} to {block.max():.4g}")


def _form(value: object) -> str:
    return f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


def blocks(rows: np.ndarray, size: int = BLOCK) -> Iterator[np.ndarray]:
    """`rows` in consecutive parts of at most `size`."""
    return (rows[start : start + size] for start in range(0, len(rows), size))


def highest(scores: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Positions of the `count` highest scores, in falling order; who gets the last places among equals is drawn, so
    that no order of the pool is preferred."""
    threshold = np.partition(scores, len(scores) - count)[len(scores) - count]
    above = np.flatnonzero(scores > threshold)
    equal = rng.choice(np.flatnonzero(scores == threshold), count - len(above), replace=False)
    return np.concatenate([above[np.argsort(-scores[above], kind="stable")], equal])


def at_random(unlabelled: np.ndarray, query_size: int, rng: np.random.Generator, reason: str) -> Selection:
    """`query_size` positions drawn without replacement; the score is the chance that each had."""
    chosen = rng.choice(unlabelled, query_size, replace=False)
    return Selection(chosen, np.full(query_size, query_size / len(unlabelled)), [reason] * query_size)


def open_rows(array: np.ndarray, unlabelled: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows, positions, closed): the pool's rows that may be chosen and where they stand in the pool. Where nearly all
    may be, the whole array stands for them uncopied, and `closed` lists those of its rows that may not."""
    total = array.shape[0]
    if len(unlabelled) < 0.9 * total:
        return array[unlabelled], unlabelled, np.array([], dtype=np.int64)
    positions = np.arange(total)
    return array, positions, np.setdiff1d(positions, unlabelled, assume_unique=True)


def one_of_the_highest(scores: np.ndarray, rng: np.random.Generator) -> int:
    """Position of the highest score; among equals one is drawn."""
    equal = np.flatnonzero(scores == scores.max())
    return int(equal[0] if len(equal) == 1 else rng.choice(equal))


def squared_norms(rows: np.ndarray) -> np.ndarray:
    """Squared lengths (n,) of the rows (n, d)."""
    return np.einsum("nd,nd->n", rows, rows)
