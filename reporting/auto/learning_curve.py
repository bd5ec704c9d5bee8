"""What twice the labels would bring: an inverse power law through the scores of subsamples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

DRAWS = 300
LEAST_SIZES = 3
WIDEST = 0.15  # an interval of macro-F1 that says nothing
Floats = NDArray[np.float64]


def fit_power_law(rows: Floats, scores: Floats) -> tuple[float, float, float]:
    """a, b, c of a - b n^-c by least squares, 0 <= a <= 1, b >= 0, 0.05 <= c <= 1.5.

    For each exponent of a grid a and b are solved, so there is no start to depend on. Source: Cortes et al. 1993,
    Learning curves; Figueroa et al. 2012.
    """
    exponents = np.linspace(0.05, 1.5, 59)
    curves = rows[None] ** -exponents[:, None]
    centred, offset = curves - curves.mean(axis=1, keepdims=True), scores.mean()
    slopes = np.maximum(-(centred @ scores) / (centred**2).sum(axis=1), 0)
    tops = np.minimum(offset + slopes * curves.mean(axis=1), 1.0)
    # where the top is held at 1, the slope that is best for it
    held = np.maximum(((1 - scores) * curves).sum(axis=1) / (curves**2).sum(axis=1), 0)
    slopes = np.where(tops >= 1, held, slopes)
    errors = ((tops[:, None] - slopes[:, None] * curves - scores) ** 2).sum(axis=1)
    best = int(errors.argmin())
    return float(tops[best]), float(slopes[best]), float(exponents[best])


def learning_curve(points: pd.DataFrame, rows: int, seed: int) -> dict[str, Any]:
    """Means by size, and macro-F1 that twice `rows` labels would bring, with a 95 % interval.

    Args:
        points: columns rows, repeat, fold, macro_f1, of one candidate.
        rows: labelled rows there are.
        seed: of resampled folds; a fold is one unit, with all its sizes.

    Returns:
        `points` [{rows, macro_f1, lower, upper}], `twice_the_labels` {rows, macro_f1, lower, upper} or None, and
        `note`, which says why it is None.
    """
    sizes, values = _by_share(points)
    if len(np.unique(sizes)) < LEAST_SIZES or len(values) < 2:
        note = f"{len(sizes)} sizes of {len(values)} folds are too few to tell"
        return {"points": _points(sizes, values), "twice_the_labels": None, "note": note}
    rng = np.random.default_rng(seed)
    folds = rng.integers(0, len(values), (DRAWS, len(values)))
    at_twice = np.array([_at(sizes, values[draw].mean(axis=0), 2 * rows) for draw in folds])
    middle = _at(sizes, values.mean(axis=0), 2 * rows)
    lower, upper = np.quantile(at_twice, [0.025, 0.975])
    twice = {"rows": 2 * rows, "macro_f1": middle, "lower": min(lower, middle), "upper": max(upper, middle)}
    note = ""
    if upper - lower > WIDEST:
        note = f"the folds differ too much to tell: {lower:.0%} to {upper:.0%}"
    return {"points": _points(sizes, values), "twice_the_labels": None if note else twice, "note": note or None}


def _by_share(points: pd.DataFrame) -> tuple[Floats, Floats]:
    """Sizes (S,) and macro-F1 (F, S) of the folds that have all shares: equal shares of folds differ by a few rows, and
    the size is their mean."""
    table = points.sort_values("rows", kind="stable")
    table = table.assign(share=table.groupby(["repeat", "fold"]).cumcount())
    folds = table.pivot(index=["repeat", "fold"], columns="share", values=["rows", "macro_f1"]).dropna()
    return folds["rows"].to_numpy(np.float64).mean(0).round(), folds["macro_f1"].to_numpy(np.float64)


def _at(sizes: Floats, scores: Floats, rows: int) -> float:
    top, slope, exponent = fit_power_law(sizes, scores)
    return float(np.clip(top - slope * rows**-exponent, 0, 1))


def _points(sizes: Floats, values: Floats) -> list[dict[str, float]]:
    """Means over folds, with 1.96 standard errors of the mean on either side."""
    error = 1.96 * values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.zeros(len(sizes))
    means = values.mean(axis=0) if len(values) else np.zeros(0)
    return [
        {"rows": int(size), "macro_f1": float(mean), "lower": float(mean - part), "upper": float(mean + part)}
        for size, mean, part in zip(sizes, means, error, strict=bool(len(values)))
    ]
