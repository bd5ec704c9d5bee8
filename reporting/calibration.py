"""Whether probabilities mean what they say, and from which one on an answer is right as often as asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

BINS = 10
LEVEL = 0.05  # chance that the precision of kept answers is below the one asked for
FIRST_SHARE, STEP = 0.3, 0.05  # of the rows, the surest first
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def brier_score(labels: Ints, probabilities: Floats) -> float:
    """Mean squared distance of probabilities (N, C) from the label's indicator, 0 to 2 (Brier 1950)."""
    distance = probabilities.copy()
    distance[np.arange(len(labels)), labels] -= 1
    return float((distance**2).sum(axis=1).mean())


def answers(labels: Ints, probabilities: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """The probability of the answer of each row (N, C), and whether it is the label."""
    return probabilities.max(axis=1), probabilities.argmax(axis=1) == labels


def answers_of_texts(
    confidence: Floats, right: NDArray[np.bool_], texts: NDArray[Any]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Of each different text, in the order in which `texts` (N,) sorts, what its rows (N,) say: as sure as the least
    sure, and right where all are, so that a text that stands with two labels is wrong."""
    numbers = np.unique(texts, return_inverse=True)[1]
    least, all_right = np.ones(numbers.max() + 1), np.ones(numbers.max() + 1, bool)
    np.minimum.at(least, numbers, confidence)
    np.logical_and.at(all_right, numbers, right)
    return least, all_right


def calibration_bins(confidence: Floats, right: NDArray[np.bool_], bins: int = BINS) -> list[dict[str, float]]:
    """Rows in order of the probability of their answer, in bins of about as many rows: mean confidence, accuracy, rows.

    Rows of equal confidence stay in one bin.

    Args:
        confidence: (N,), the probability of each answer.
        right: (N,), whether it is the label.
        bins: at the most.
    """
    edges = np.unique(np.quantile(confidence, np.linspace(0, 1, bins + 1)[1:-1], method="higher"))
    places = np.searchsorted(edges, confidence, side="right")
    return [
        {
            "confidence": float(confidence[places == place].mean()),
            "accuracy": float(right[places == place].mean()),
            "rows": int((places == place).sum()),
        }
        for place in np.unique(places)
    ]


def expected_calibration_error(confidence: Floats, right: NDArray[np.bool_], bins: int = BINS) -> float:
    """Mean over rows of |confidence - accuracy| of their bin, 0 to 1 (Naeini et al. 2015; bins of equal size).

    Args as of `calibration_bins`.
    """
    listed = calibration_bins(confidence, right, bins)
    gaps = [part["rows"] * abs(part["confidence"] - part["accuracy"]) for part in listed]
    return float(sum(gaps) / len(confidence))


def at_temperature(probabilities: Floats, temperature: float) -> Floats:
    """softmax(log p / T) of probabilities (N, C)."""
    from scipy.special import softmax

    return softmax(_logs(probabilities) / temperature, axis=1)


def _logs(probabilities: Floats) -> Floats:
    return np.log(np.maximum(probabilities, 1e-12))


def fit_temperature(labels: Ints, probabilities: Floats) -> float:
    """T of softmax(log p / T) with the least negative log-likelihood, 0.05 to 20 (Guo et al. 2017)."""
    from scipy.special import log_softmax

    logs, rows = _logs(probabilities), np.arange(len(labels))

    def loss(temperature: float) -> float:
        return -float(log_softmax(logs / temperature, axis=1)[rows, labels].mean())

    return least_at(loss, (np.log(0.05), np.log(20)))[0]


def least_at(
    loss: Callable[[float], float], log_bounds: tuple[float, float], tolerance: float = 1e-5
) -> tuple[float, float]:
    """The factor > 0 of least loss, its logarithm to `tolerance` and within bounds, and that loss."""
    from scipy.optimize import minimize_scalar

    options = {"xatol": tolerance}
    minimum = minimize_scalar(lambda power: loss(np.exp(power)), bounds=log_bounds, method="bounded", options=options)
    return float(np.exp(minimum.x)), float(minimum.fun)


@dataclass(frozen=True)
class Abstention:
    """From which confidence on answers are kept; None where the rows cannot show the precision."""

    precision: float
    threshold: float | None
    coverage: float
    kept_precision: float | None

    @property
    def reached(self) -> bool:
        return self.threshold is not None


def abstention(confidence: Floats, right: NDArray[np.bool_], precision: float) -> Abstention:
    """The lowest threshold of confidence above which answers are right with `precision`, with `LEVEL` chance of error.

    Shares of the rows with the highest confidence are tested one after the other by the binomial test, from
    `FIRST_SHARE`, or what could pass without an error, to all rows in steps of `STEP`, as long as they pass: an order
    that is fixed before the labels are looked at needs no correction (fixed sequence testing: Bauer 1991; Angelopoulos
    et al. 2021, Learn then test).

    Args:
        confidence: (N,) of the answers to rows that the models had not seen.
        right: (N,), whether they are right.
        precision: share of kept answers that must be right, 0 to 1, both excluded.
    """
    from scipy.stats import binom

    order = np.argsort(-confidence, kind="stable")
    confidence, wrong = confidence[order], np.cumsum(~right[order])
    least = int(np.ceil(np.log(LEVEL) / np.log(precision)))
    best: int | None = None
    for share in np.arange(FIRST_SHARE, 1 + STEP / 2, STEP):
        last = int(np.flatnonzero(confidence >= confidence[max(round(share * len(right)), 1) - 1])[-1])
        if last + 1 < least:
            continue
        if binom.cdf(wrong[last], last + 1, 1 - precision) > LEVEL:
            break
        best = last
    if best is None:
        return Abstention(precision, None, 0.0, None)
    kept = best + 1
    return Abstention(precision, float(confidence[best]), kept / len(right), float(1 - wrong[best] / kept))
