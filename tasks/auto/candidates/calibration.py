"""What every candidate's scores get on rows that they were not fitted on: how sure, and how much rare classes gain.

Temperature: Guo et al. (ICML 2017). Strength of the logit adjustment: Menon et al. (ICLR 2021), post hoc. Where texts
have several labels, in its place the threshold of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax

from reporting.calibration import least_at
from reporting.metrics import classification_metrics
from reporting.multilabel_metrics import best_threshold, multilabel_metrics

STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
LEAST_GAIN = 0.005  # of macro-F1: below it, a stronger adjustment is noise
USUAL_STRENGTH = 0.75  # of solved classifiers: scores follow the sizes of the classes, which validation rows share
CHANCE = 0.7  # over the root of the validation rows: macro-F1 that such a strength may seem to cost
LOG_TEMPERATURES = (-4.0, 4.0)
SCALE_TOLERANCE = 1e-3  # of its logarithm: the loss is flat there
OWN_ROWS = 5.0  # with a label, that its own threshold counts as much for as the one that all share
LOG_ODDS = np.linspace(-6.0, 4.0, 101)  # to choose the shared one among
MOST_LOG_ODDS = 7.0  # of a threshold

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

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """Empty: the most probable class is the answer."""
        return np.empty(0)


@dataclass(frozen=True)
class LabelCalibration:
    """Where texts have several labels: probabilities = sigmoid(logits * scale), answers those above their threshold.

    Attributes:
        scale: > 0.
        thresholds: (C,), of probabilities.
    """

    scale: float
    thresholds: NDArray[np.float64]

    def probabilities(self, logits: Floats) -> NDArray[np.float64]:
        """(N, C) -> (N, C)."""
        return expit(logits.astype(np.float64) * self.scale)

    @property
    def offset(self) -> NDArray[np.float64]:
        return np.zeros(len(self.thresholds))


AnyCalibration = Calibration | LabelCalibration


def decisions(probabilities: Floats, thresholds: Floats) -> NDArray[np.integer]:
    """What is answered: classes (N,), or with `thresholds` (C,) labels (N, C) of 0 and 1."""
    return (probabilities > thresholds).astype(np.uint8) if len(thresholds) else probabilities.argmax(1)


def decision_metrics(labels: NDArray[np.integer], answers: NDArray[np.integer], num_classes: int) -> dict[str, float]:
    """Figures of decisions; `micro_f1` is the accuracy where texts have one label."""
    if labels.ndim == 2:
        return multilabel_metrics(labels, answers)
    return classification_metrics(labels, answers, num_classes)


def calibrated_labels(logits: Floats, labels: NDArray[np.integer], rescale: bool = True) -> LabelCalibration:
    """Chosen on validation rows, (N, C) of 0 and 1: the scale of least cross-entropy, and `label_thresholds`."""
    scale = best_scale(logits, labels) if rescale else 1.0
    return LabelCalibration(scale, label_thresholds(labels, expit(logits.astype(np.float64) * scale)))


def label_thresholds(
    labels: NDArray[np.integer], probabilities: Floats, own_rows: float = OWN_ROWS
) -> NDArray[np.float64]:
    """Of each label (C,): between its own of best F1 and the one of best macro-F1 for all, in log-odds; of a label with
    n rows its own counts n / (n + own_rows).

    Args:
        labels: (N, C) of 0 and 1.
        probabilities: (N, C).
        own_rows: >= 0.
    """
    own = best_threshold(labels, probabilities, "per_label")
    macro = [_macro_f1(labels > 0, probabilities > threshold) for threshold in expit(LOG_ODDS)]
    rows = labels.sum(axis=0)
    share = np.divide(rows, rows + own_rows, out=np.zeros(len(rows)), where=rows > 0)
    between = share * logit(own).clip(-MOST_LOG_ODDS, MOST_LOG_ODDS) + (1 - share) * LOG_ODDS[int(np.argmax(macro))]
    return expit(between)


def _macro_f1(true: NDArray[np.bool_], predicted: NDArray[np.bool_]) -> float:
    """Over the labels that have rows."""
    rows = true.sum(axis=0)
    f1 = 2 * (true & predicted).sum(axis=0) / np.maximum(rows + predicted.sum(axis=0), 1)
    return float(f1[rows > 0].mean()) if rows.any() else 0.0


def uncalibrated(num_classes: int) -> Calibration:
    return Calibration(1.0, np.zeros(num_classes), 0.0)


def calibrated(
    logits: Floats, labels: NDArray[np.integer], class_counts: NDArray[np.integer], is_solved: bool = False
) -> AnyCalibration:
    """Chosen on rows that the scores were not fitted on; of several labels by `calibrated_labels`.

    The strength is the weakest within `LEAST_GAIN` of the best macro-F1, of solved classifiers the nearest to
    `USUAL_STRENGTH` within `CHANCE` / sqrt(N) of it; the temperature before and after it the one of least
    cross-entropy.

    Args:
        logits: (N, C).
        labels: (N,), or (N, C) of 0 and 1.
        class_counts: (C,) rows that the scores were fitted on; a class without any has no prior to correct.
        is_solved: whether the logits are those of linear classifiers that were solved for such rows.
    """
    if labels.ndim == 2:
        return calibrated_labels(logits, labels)
    logits = logits.astype(np.float64)
    num_classes = logits.shape[1]
    first = best_scale(logits, labels)
    prior = np.log(np.maximum(class_counts, 1) / max(class_counts.sum(), 1))
    figures = []
    for strength in STRENGTHS:
        predictions = (logits * first - strength * prior).argmax(1)
        figures.append(classification_metrics(labels, predictions, num_classes)["macro_f1"])
    usual, tolerance = (USUAL_STRENGTH, CHANCE / len(labels) ** 0.5) if is_solved else (0.0, LEAST_GAIN)
    near = [s for s, figure in zip(STRENGTHS, figures, strict=True) if figure >= max(figures) - tolerance]
    chosen = min(reversed(near), key=lambda strength: abs(strength - usual))
    adjusted = logits * first - chosen * prior
    second = best_scale(adjusted, labels)
    return Calibration(first * second, -chosen * second * prior, chosen)


def cross_entropy(logits: Floats, labels: NDArray[np.integer]) -> float:
    """Mean over rows, at the temperature that suits them best."""
    return _best_scale(logits, labels)[1]


def best_scale(logits: Floats, labels: NDArray[np.integer]) -> float:
    """The factor of least cross-entropy."""
    return _best_scale(logits, labels)[0]


def _best_scale(logits: Floats, labels: NDArray[np.integer]) -> tuple[float, float]:
    """The factor of least cross-entropy, and that."""
    return least_at(_cross_entropy_of(logits.astype(np.float64), labels), LOG_TEMPERATURES, SCALE_TOLERANCE)


def _cross_entropy_of(logits: Floats, labels: NDArray[np.integer]) -> Callable[[float], float]:
    """The mean over rows as a function of a factor > 0; with many classes it takes most of a cheap candidate's time."""
    if labels.ndim == 2:
        return lambda scale: float((np.logaddexp(0, scale * logits) - labels * (scale * logits)).mean())
    below = logits - logits.max(axis=1, keepdims=True)
    own = below[np.arange(len(labels)), labels]
    return lambda scale: float((np.log(np.exp(scale * below).sum(axis=1)) - scale * own).mean())
