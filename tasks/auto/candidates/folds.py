"""What one fold gives: a candidate fitted on the other rows, its choices made there, and the fold's rows read once."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from datamodules.labels import class_counts
from datamodules.splits import fold_numbers, split_together
from storage.files import replacing
from storage.tables import folded
from tasks.auto.candidates.calibration import (
    AnyCalibration,
    best_scale,
    calibrated,
    calibrated_labels,
    cross_entropy,
    decision_metrics,
    decisions,
    uncalibrated,
)
from tasks.auto.candidates.cheap import REGRESSIONS, Added, AnyPath, Scorer, Stacked, Sum
from tasks.auto.candidates.cheap import Path as SettingPath

INNER_FOLDS = 3
ONE_SPLIT_FROM = 3000  # rows from which one split of a fifth chooses in place of inner folds
PATIENCE = 1  # settings in a row without a lower loss end a path
_INNER = 9  # stream of random numbers

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Fitted:
    """A candidate fitted on rows, with what their inner validation chose.

    Attributes:
        scorer: rows -> logits (N, C).
        calibration: of the logits.
        setting: the chosen setting in words.
        validation_macro_f1: of the calibrated scores on inner validation rows.
    """

    scorer: Scorer
    calibration: AnyCalibration
    setting: str
    validation_macro_f1: float


def fitted(path: AnyPath, rows: Any, labels: NDArray[np.int64], texts: list[str], num_classes: int,
           calibrate: bool = True) -> Fitted:  # fmt: skip
    """The candidate on these rows: its setting by the cross-entropy of inner validation rows, then calibrated on them.

    Args:
        path: of settings, or several in one sum, see `tasks.auto.candidates.cheap`.
        rows: (N, D) embeddings; `TextRows` of what is added.
        labels: (N,), or (N, C) of 0 and 1.
        texts: N texts, equal ones stay on one side.
        num_classes: C.
        calibrate: False leaves the scores as they are; thresholds of several labels are chosen all the same.
    """
    with threadpool_limits(1):  # so small that threads cost more than they bring, most of all on a busy machine
        scorer, setting, logits, truth = inner_logits(path, rows, labels, texts, num_classes)
    calibration: AnyCalibration
    if calibrate:
        is_solved = isinstance(path, Added) or path in REGRESSIONS
        calibration = calibrated(logits, truth, class_counts(labels, num_classes), is_solved)
    elif labels.ndim == 2:
        calibration = calibrated_labels(logits, truth, rescale=False)
    else:
        calibration = uncalibrated(num_classes)
    answers = decisions(calibration.probabilities(logits), calibration.thresholds)
    return Fitted(scorer, calibration, setting, decision_metrics(truth, answers, num_classes)["macro_f1"])


def inner_logits(
    path: AnyPath, rows: Any, labels: NDArray[np.int64], texts: list[str], num_classes: int
) -> tuple[Scorer, str, Floats, NDArray[np.int64]]:
    """The setting of least cross-entropy fitted to all rows, its name, and what the models of the inner folds say of
    their validation rows: logits (M, C) and labels (M,). Arguments are those of `fitted`."""
    if isinstance(path, Stacked):
        folds = fold_numbers(labels, texts, min(INNER_FOLDS, len(set(map(folded, texts)))))
        return *path.fitted(rows, labels, folds), labels
    parts = _inner_parts(labels, texts)
    if isinstance(path, Added):
        scorer, setting, logits = _added(path, rows, labels, parts, num_classes)
    else:
        scorer, setting, logits = _chosen(path, rows, labels, parts, num_classes)
    return scorer, setting, logits, np.concatenate([labels[val] for _, val in parts])


Parts = list[tuple[NDArray, NDArray]]


def _chosen(
    path: SettingPath, rows: Any, labels: NDArray[np.int64], parts: Parts, num_classes: int
) -> tuple[Scorer, str, Floats]:
    """The setting of least cross-entropy on all rows, its name, and its logits of the validation rows of all parts."""
    truth = np.concatenate([labels[val] for _, val in parts])
    logits = [_path_logits(path, rows, labels, train, val, num_classes) for train, val in parts]
    depth = min(map(len, logits))
    pooled = [np.concatenate([part[number] for part in logits]) for number in range(depth)]
    best = int(np.argmin([cross_entropy(scores, truth) for scores in pooled]))
    for number, (setting, scorer) in enumerate(path(rows, labels, num_classes)):
        if number == best:
            return scorer, setting, pooled[best]
    raise AssertionError("a path of settings has the same length on all rows")


def _added(
    path: Added, rows: Any, labels: NDArray[np.int64], parts: Parts, num_classes: int
) -> tuple[Scorer, str, Floats]:
    """The same of several paths in one sum, each at the temperature that suits the validation rows."""
    truth = np.concatenate([labels[val] for _, val in parts])
    scorers, settings, scaled = [], [], []
    for part, member in path.members:
        scorer, setting, logits = _chosen(member, getattr(rows, part), labels, parts, num_classes)
        scale = best_scale(logits, truth)
        scorers.append((part, scorer, scale))
        settings.append(setting)
        scaled.append(scale * logits)
    return Sum(tuple(scorers)), "; ".join(settings), np.sum(scaled, axis=0)


def _inner_parts(labels: NDArray[np.int64], texts: list[str]) -> Parts:
    if len(labels) >= ONE_SPLIT_FROM:
        return [split_together(labels, texts, 0.2, np.random.default_rng([0, _INNER]), "keep_in_train")]
    numbers = fold_numbers(labels, texts, min(INNER_FOLDS, len(set(map(folded, texts)))), repeat=0)
    return [(np.flatnonzero(numbers != fold), np.flatnonzero(numbers == fold)) for fold in range(numbers.max() + 1)]


def _path_logits(
    path: SettingPath, rows: Any, labels: NDArray[np.int64], train: NDArray, val: NDArray, num_classes: int
) -> list[Floats]:
    """Logits of the validation rows for one setting after the other, until they stop to get better."""
    logits: list[Floats] = []
    losses: list[float] = []
    for _, scorer in path(rows[train], labels[train], num_classes):
        logits.append(scorer(rows[val]))
        losses.append(cross_entropy(logits[-1], labels[val]))
        if len(losses) - 1 - int(np.argmin(losses)) > PATIENCE:
            break
    return logits


@dataclass(frozen=True)
class FoldOutcome:
    """Of the rows of one fold: their numbers (N,), calibrated probabilities (N, C), what was chosen, and seconds.

    `thresholds` are (C,) where texts have several labels, and empty where they have one. `logits` (N, C) are those of a
    candidate without validation rows, empty otherwise: its probabilities are calibrated by `cross_calibrated`, once
    other folds are there, and `validation_macro_f1` is not a number.
    """

    rows: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    validation_macro_f1: float
    seconds_fit: float
    seconds_predict: float
    setting: str = ""
    run_id: str = ""
    epochs: float = 0.0
    thresholds: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    logits: Floats = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def answers(self) -> NDArray[np.integer]:
        """Classes (N,), or labels (N, C) of 0 and 1."""
        return decisions(self.probabilities, self.thresholds)

    def save(self, file: Path) -> None:
        with replacing(file) as stream:
            np.savez(stream, **vars(self))


def load_outcome(file: Path) -> FoldOutcome | None:
    """The outcome that a file holds; None where there is no whole one, as this version writes it."""
    try:
        with np.load(io.BytesIO(file.read_bytes())) as arrays:
            values: dict[str, Any] = {name: arrays[name] for name in arrays.files}
        return FoldOutcome(**{name: value if value.ndim else value.item() for name, value in values.items()})
    except (OSError, ValueError, EOFError, KeyError, TypeError, zipfile.BadZipFile):
        return None


def pooled_calibration(
    outcomes: Sequence[FoldOutcome], labels: NDArray[np.int64], class_counts: NDArray[np.integer]
) -> AnyCalibration:
    """The calibration that suits the logits of all rows of these folds, each by the model that had not seen it.

    Args:
        labels: (N,) of all rows.
        class_counts: (C,) rows that the scores to be calibrated were fitted on.
    """
    logits = np.concatenate([outcome.logits for outcome in outcomes])
    rows = np.concatenate([outcome.rows for outcome in outcomes])
    return calibrated(logits, labels[rows], class_counts, is_solved=True)  # after pairs linear classifiers are solved


def cross_calibrated(outcomes: Sequence[FoldOutcome], labels: NDArray[np.int64]) -> list[FoldOutcome]:
    """Each outcome of logits calibrated on the rows of the others, never on its own; one alone stays as it is.

    Outcomes calibrated already come back unchanged.

    Args:
        outcomes: of different folds of one drawing.
        labels: (N,) of all rows.
    """
    result = []
    for number, outcome in enumerate(outcomes):
        others = [other for place, other in enumerate(outcomes) if place != number]
        if len(outcome.logits) and others:
            train = np.setdiff1d(np.arange(len(labels)), outcome.rows)
            counts = class_counts(labels[train], outcome.logits.shape[1])
            calibration = pooled_calibration(others, labels, counts)
            probabilities = calibration.probabilities(outcome.logits)
            outcome = replace(outcome, probabilities=probabilities, thresholds=calibration.thresholds)
        result.append(outcome)
    return result


def cheap_fold(
    path: AnyPath,
    rows: Any,
    labels: NDArray[np.int64],
    texts: NDArray,
    test: NDArray[np.int64],
    num_classes: int,
    calibrate: bool = True,
    seconds_per_text: float = 0.0,
) -> tuple[FoldOutcome, Fitted]:
    """Fit on all other rows, then read the rows `test` once."""
    train = np.setdiff1d(np.arange(len(labels)), test)
    started = time.perf_counter()
    model = fitted(path, rows[train], labels[train], texts[train].tolist(), num_classes, calibrate)
    ready = time.perf_counter()
    probabilities = model.calibration.probabilities(model.scorer(rows[test]))
    seconds = time.perf_counter() - ready + seconds_per_text * len(test)
    outcome = FoldOutcome(
        test,
        probabilities,
        model.validation_macro_f1,
        ready - started,
        seconds,
        model.setting,
        thresholds=model.calibration.thresholds,
    )
    return outcome, model


def each_fold(labels: NDArray[np.int64], texts: list[str], folds: int, repeat: int) -> list[NDArray[np.int64]]:
    """Rows of each fold, the same that `protocol=kfold` takes."""
    numbers = fold_numbers(labels, texts, folds, repeat)
    return [np.flatnonzero(numbers == fold) for fold in range(folds)]
