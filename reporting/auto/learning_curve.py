"""What twice the labels would bring: mostly what they bring elsewhere, a little what the scores of subsamples say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

LEAST_SIZES = 3
TYPICAL, FALLING = 0.167, -0.35  # share of what macro-F1 lacks that twice 100 rows bring, and its power of the rows
RANGE = (-0.9, 1.8)  # of differences from what was told, in typical gains of 100 rows
RANGE_FALLING = -0.2  # its power of the rows: drawings differ by chance too, which falls less than gains do
OWN = 0.25  # of the difference between a typical gain and what a curve's own power law tells
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


def learning_curve(points: pd.DataFrame, rows: int) -> dict[str, Any]:
    """Means by size, and what twice `rows` labels would bring, with a range for nine of ten files.

    Macro-F1 rises by a share of what it lacks: `TYPICAL` times (rows / 100)^`FALLING`, the mean of eight data sets with
    one label a text, and by `OWN` of the difference between that and the inverse power law through this curve, which
    says little by itself. The range is that of what twice the labels brought there, in such shares, and the standard
    error of the folds' macro-F1 beside it, root of the sum of squares (`benchmarks/twice_the_labels.py`).

    Args:
        points: columns rows, repeat, fold, macro_f1, of one candidate; without classes of one row, which lack what no
            label would bring them.
        rows: labelled rows there are.

    Returns:
        `points` [{rows, macro_f1, lower, upper}], `twice_the_labels` {rows, macro_f1, lower, upper, gain, gain_lower,
        gain_upper} or None, and `note`, which says why it is None.
    """
    sizes, values = _by_share(points)
    if len(np.unique(sizes)) < LEAST_SIZES or len(values) < 2:
        note = f"{len(sizes)} sizes of {len(values)} folds are too few to tell"
        return {"points": _points(sizes, values), "twice_the_labels": None, "note": note}
    means = values.mean(axis=0)
    typical, spread = (TYPICAL * (rows / 100) ** power * (1 - means[-1]) for power in (FALLING, RANGE_FALLING))
    gain = (1 - OWN) * typical + OWN * (_at(sizes, means, 2 * rows) - _at(sizes, means, rows))
    error = values[:, -1].std(ddof=1) / np.sqrt(len(values))
    lower, upper = (np.hypot(part * spread, error) for part in RANGE)
    ends = {"": gain, "_lower": gain - lower, "_upper": gain + upper}
    twice: dict[str, float] = {"rows": 2 * rows, **{f"gain{end}": float(value) for end, value in ends.items()}}
    for name, end in (("macro_f1", ""), ("lower", "_lower"), ("upper", "_upper")):
        twice[name] = float(np.clip(means[-1] + ends[end], 0, 1))
    return {"points": _points(sizes, values), "twice_the_labels": twice, "note": None}


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
