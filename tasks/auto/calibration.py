"""Two numbers that every candidate's scores get on validation rows: how sure they are, and how much rare classes gain.

Temperature: Guo et al. (ICML 2017). Strength of the logit adjustment: Menon et al. (ICLR 2021), post hoc.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from reporting.metrics import classification_metrics

STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
LEAST_GAIN = 0.005  # of macro-F1: below it, a stronger adjustment is noise
LOG_TEMPERATURES = (-4.0, 4.0)

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Calibration:
    """probabilities = softmax(logits * scale + offset).

    Attributes:
        scale: > 0, one over the temperature.
        offset: (C,), from the log prior.
        strength: of the adjustment, 0 to 1.
    """

    scale: float
    offset: NDArray[np.float64]
    strength: float

    def probabilities(self, logits: Floats) -> NDArray[np.float64]:
        """(N, C) -> (N, C), rows sum to 1."""
        return softmax(logits.astype(np.float64) * self.scale + self.offset, axis=1)


def uncalibrated(num_classes: int) -> Calibration:
    return Calibration(1.0, np.zeros(num_classes), 0.0)


def calibrated(logits: Floats, labels: NDArray[np.integer], class_counts: NDArray[np.integer]) -> Calibration:
    """Chosen on validation rows that the scores were not fitted on.

    The strength is the weakest within `LEAST_GAIN` of the best macro-F1, the temperature before and after it the one of
    least cross-entropy.

    Args:
        logits: (N, C).
        labels: (N,).
        class_counts: (C,) rows that the scores were fitted on; a class without any has no prior to correct.
    """
    logits = logits.astype(np.float64)
    num_classes = logits.shape[1]
    first = _scale(logits, labels)
    prior = np.log(np.maximum(class_counts, 1) / max(class_counts.sum(), 1))
    figures = []
    for strength in STRENGTHS:
        predictions = (logits * first - strength * prior).argmax(1)
        figures.append(classification_metrics(labels, predictions, num_classes)["macro_f1"])
    chosen = next(s for s, figure in zip(STRENGTHS, figures, strict=True) if figure >= max(figures) - LEAST_GAIN)
    adjusted = logits * first - chosen * prior
    second = _scale(adjusted, labels)
    return Calibration(first * second, -chosen * second * prior, chosen)


def cross_entropy(logits: Floats, labels: NDArray[np.integer]) -> float:
    """Mean over rows, at the temperature that suits them best."""
    return _cross_entropy(logits.astype(np.float64) * _scale(logits, labels), labels)


def _cross_entropy(logits: Floats, labels: NDArray[np.integer]) -> float:
    return float(-log_softmax(logits, axis=1)[np.arange(len(labels)), labels].mean())


def _scale(logits: Floats, labels: NDArray[np.integer]) -> float:
    """The factor of least cross-entropy."""
    logits = logits.astype(np.float64)
    minimum = minimize_scalar(
        lambda power: _cross_entropy(logits * np.exp(power), labels), bounds=LOG_TEMPERATURES, method="bounded"
    )
    return float(np.exp(minimum.x))
