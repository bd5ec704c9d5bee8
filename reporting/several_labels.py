"""Figures of texts with several labels under resampled rows: as `reporting.resampling` has them for one label."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reporting.metrics import f1_of_counts, mean_of_occurring
from reporting.resampling import DRAWS, PIECE, PRIOR, Scores, numbered

WIDENED = 1.8  # of `resampling.interval`: thresholds differ from fold to fold too (`benchmarks/label_intervals.py`)

FIGURES = ("micro_f1", "macro_f1", "f1")

Floats = NDArray[np.float64]
Bits = NDArray[np.bool_]


def counted(labels: Bits, answers: Bits, weights: Floats) -> Floats:
    """Rows that have a label and get it, that lack it, that get it and have it not: (B, 3, C) under weights (B, N)."""
    kinds = (labels & answers, labels & ~answers, ~labels & answers)
    return np.stack([weights @ kind.astype(np.float64) for kind in kinds], axis=1)


def scores(counts: Floats) -> Scores:
    """Micro-F1 and macro-F1 (B,) and F1 of each label (B, C) of counts (B, R, 3, C), means over the R repeats.

    Macro-F1 is over the labels that occur in references or predictions, as `reporting.multilabel_metrics` has it.
    """
    hits, errors = counts[:, :, 0], counts[:, :, 1] + counts[:, :, 2]
    both = 2 * hits + errors
    f1 = f1_of_counts(hits, both)
    macro = mean_of_occurring(f1, both)
    micro = 2 * hits.sum(axis=2) / np.maximum(both.sum(axis=2), 1e-300)
    return Scores(micro.mean(axis=1), macro.mean(axis=1), f1.mean(axis=1))


def estimate(labels: Bits, answers: Bits) -> Scores:
    """Figures of labels (N, C) and answers (R, N, C) of R repeats, each with a first dimension of 1."""
    ones = np.ones((1, len(labels)))
    return scores(np.stack([counted(labels, repeat, ones) for repeat in answers], axis=1))


def bootstrap(
    labels: Bits,
    answers: Bits,
    rng: np.random.Generator,
    draws: int = DRAWS,
    groups: NDArray[np.int64] | None = None,
) -> Scores:
    """Figures of resampled rows: each row weighs as an exponential draw (Rubin 1981, The Bayesian bootstrap), rows of
    equal `groups` (N,) as one draw; pseudo-rows are then as many as a group has on the mean.

    Each label gains `PRIOR` pseudo-rows that are right and as many that are wrong, half of those missed and half false
    alarms, drawn with the rows, so that a rare label whose rows are all right does not look sure; a label's rows that
    have it stay as many as they are. Those pseudo-rows move the mean over many rare labels up; micro-F1 and macro-F1
    are moved back to the figures of the rows.
    """
    shown = labels.any(axis=0) | answers.any(axis=(0, 1))
    has_label = np.maximum(labels.sum(axis=0), 1)
    group = numbered(groups, len(labels))
    num_groups, parts = int(group.max()) + 1, []
    size = max(PIECE // len(labels), 1)
    for start in range(0, draws, size):
        number = min(size, draws - start)
        weights = rng.standard_exponential((number, num_groups)).take(group, axis=1)
        weights *= len(labels) / weights.sum(axis=1, keepdims=True)
        counts = np.stack([counted(labels, repeat, weights) for repeat in answers], axis=1)
        pseudo = rng.standard_gamma([[PRIOR], [PRIOR / 2], [PRIOR / 2]], size=(number, 3, labels.shape[1])) * shown
        counts += len(labels) / num_groups * pseudo[:, None]
        positives = counts[:, :, 0] + counts[:, :, 1]
        shrink = has_label / np.maximum(positives, 1e-300)
        counts[:, :, :2] *= np.where(labels.any(axis=0), shrink, 1.0)[:, :, None]
        parts.append(scores(counts))
    micro, macro, f1 = (np.concatenate([getattr(part, name) for part in parts]) for name in FIGURES)
    whole = estimate(labels, answers)
    micro += whole.micro_f1 - micro.mean()
    macro += whole.macro_f1 - macro.mean()
    return Scores(micro.clip(0, 1), macro.clip(0, 1), f1)


def difference_test(
    labels: Bits,
    first: Bits,
    second: Bits,
    rng: np.random.Generator,
    draws: int = DRAWS,
    groups: NDArray[np.int64] | None = None,
) -> tuple[float, float, float]:
    """Macro-F1 of `first` less that of `second`, its two-sided p and its standard error, by exchanging the answers of
    rows, as `reporting.resampling.difference_test`.

    Args:
        labels: (N, C).
        first, second: (R, N, C) answers in the same repeats.
        groups: (N,) equal where rows have one text; None: no two have.
    """
    ones = np.ones((1, len(labels)))
    own, other = (np.stack([counted(labels, part, ones) for part in side], axis=1) for side in (first, second))
    difference = float((scores(own).macro_f1 - scores(other).macro_f1)[0])
    differs = (first != second).any(axis=(0, 2))
    if not differs.any():
        return difference, 1.0, 0.0
    group = numbered(None if groups is None else groups[differs], int(differs.sum()))
    labels, first, second = labels[differs], first[:, differs], second[:, differs]
    num_groups, parts = int(group.max()) + 1, []
    size = max(PIECE // len(labels), 1)
    for start in range(0, draws, size):
        swaps = rng.integers(0, 2, (min(size, draws - start), num_groups)).take(group, axis=1).astype(np.float64)
        moved = np.stack(
            [counted(labels, two, swaps) - counted(labels, one, swaps) for one, two in zip(first, second, strict=True)],
            axis=1,
        )
        parts.append(scores(own + moved).macro_f1 - scores(other - moved).macro_f1)
    exchanged = np.concatenate(parts)
    extreme = int((np.abs(exchanged) >= abs(difference) - 1e-12).sum())
    return difference, (1 + extreme) / (1 + draws), float(exchanged.std())
