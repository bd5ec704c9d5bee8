"""A candidate learned by a run, as `task=fit` would do it, of the other rows of a fold or of all rows: the words that
the run is composed from, the model that it leaves, and what that says of the fold's rows. Candidates that train the
encoder learn so, and the one that reads words alone, whose module is solved without a run of its own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from threadpoolctl import threadpool_limits

from callbacks.time_limit import OutOfTime
from datamodules.texts.datamodule import TextDataModule
from engine.finished import load_module
from engine.plan import Plan
from lightning_modules.base import ClassifierModule
from storage.run_store import RunFolder, first_line
from tasks.auto.candidates.calibration import (
    AnyCalibration,
    calibrated,
    calibrated_labels,
    decision_metrics,
    decisions,
    uncalibrated,
)
from tasks.auto.candidates.declarations import Candidate
from tasks.auto.candidates.folds import FoldOutcome
from tasks.auto.candidates.plans import plan_of, protocol_words
from tasks.auto.comparison.study import Study
from tasks.fit import trained_run
from tasks.predict import Encoded, classifier_predictor

LEAST_STEPS, MOST_EPOCHS = 80, 15  # of training: more bring nothing on train rows of TREC
BATCH_OF_PAIRS = 32
SOON_TRAINED = 300  # rows: a run of so few is sooner begun again than its state written
LEAST_SHARE = 1e-6


@dataclass(frozen=True)
class Learned:
    """A candidate learned from rows: its run, or the module where it has none; texts to logits (N, C); what validation
    rows chose, None and not a number where there are none."""

    learned: RunFolder | ClassifierModule
    scores: Callable[[list[str]], tuple[NDArray[np.floating], Any]]  # logits come first
    calibration: AnyCalibration | None
    validation_macro_f1: float


def run_words(study: Study, candidate: Candidate, fold: int | None, pair_steps: int | None = None) -> list[str]:
    """Overrides of the run of a fold, or of all rows with None; with so many steps of pairs in place of the study's."""
    if candidate.kind == "words":
        words = [word for word in study.words if not word.startswith("encoder")]
        return [*words, *study.words_of(candidate), *protocol_words(candidate.name, fold, study.folds), "logger=null"]
    has_schedule = any(word.startswith("trainer.max_epochs=") for word in candidate.words)
    is_soon_trained = len(study.labels) <= SOON_TRAINED and not candidate.reads_unlabelled
    is_soon_trained |= "trainer.max_epochs=1" in candidate.words
    return [
        *study.words,
        *(study.unlabelled if candidate.reads_unlabelled else []),
        *protocol_words(candidate.name, fold, study.folds),
        *study.words_of(candidate),
        *([] if study.has_names or candidate.method != "pairs_words" else ["method.use_names=false"]),
        *([] if has_schedule else _schedule(study, candidate, fold, pair_steps or study.pair_steps)),
        *(["callbacks.last=null"] if is_soon_trained else []),
        *("callbacks.progress=null", "logger=null", "rival=null"),
    ]


def _schedule(study: Study, candidate: Candidate, fold: int | None, pair_steps: int) -> list[str]:
    rows = len(study.labels) if fold is None else len(study.labels) * (study.folds - 1) // study.folds
    if candidate.takes_pair_steps:
        return [f"trainer.max_epochs={math.ceil(pair_steps * BATCH_OF_PAIRS / rows)}"]
    epochs, batch = epochs_and_batch(rows)
    return [f"trainer.max_epochs={epochs}", f"sampler.batch_size={batch}"]


def epochs_and_batch(rows: int) -> tuple[int, int]:
    """Epochs, and texts in a batch, of a candidate that trains on so many rows but for those that validate."""
    batch = 16 if rows < 2000 else 32
    steps = max(1, int(0.8 * rows) // batch)
    return max(3, min(MOST_EPOCHS, math.ceil(LEAST_STEPS / steps))), batch


def limited(seconds: float) -> list[str]:
    """Overrides of a run whose training is told from its first steps to end within so many seconds, or raises
    `OutOfTime`."""
    node = "+callbacks.time_limit"
    return [f"{node}._target_=callbacks.time_limit.TimeLimit", f"{node}.seconds={max(seconds, 0.01):.2f}"]


def read_run(study: Study, candidate: Candidate, fold: int, more: Sequence[str] = ()) -> bool:
    """Keep the outcome of a fold, from its file or by the run; False where that fails, the entry says why.

    Args:
        more: overrides of the run alone.

    Raises:
        OutOfTime: the run would take longer than those overrides allow.
    """
    outcome = study.known(candidate.name, 0, fold)
    if outcome is not None:
        study.keep(candidate.name, 0, fold, outcome)
        return True
    try:
        outcome = _run_outcome(candidate, plan_of([*run_words(study, candidate, fold), *more]), study.num_classes)
    except OutOfTime:
        raise
    except (ValueError, RuntimeError) as error:
        entry = study.entries[candidate.name]
        entry.status, entry.reason = "failed", first_line(error)
        return False
    study.save(candidate.name, 0, fold, outcome)
    return True


def _run_outcome(candidate: Candidate, plan: Plan, num_classes: int) -> FoldOutcome:
    started = time.perf_counter()
    datamodule = plan.datamodule(plan.corpus())
    model = learned(candidate, plan, datamodule, num_classes)
    ready = time.perf_counter()
    test, _ = model.scores(datamodule.texts("test"))
    seconds = time.perf_counter() - ready
    spent = ready - started
    figures: dict[str, Any] = {}
    if isinstance(model.learned, RunFolder):
        metrics = model.learned.read_metrics()
        spent = max(spent, metrics["seconds/total"])
        figures = {"run_id": model.learned.id, "epochs": metrics["epochs"]}
    calibration = model.calibration
    if calibration is None:
        figures["logits"], calibration = test, uncalibrated(num_classes)
    return FoldOutcome(
        datamodule.indices["test"],
        calibration.probabilities(test),
        model.validation_macro_f1,
        spent,
        seconds,
        thresholds=calibration.thresholds,
        **figures,
    )


def learned(candidate: Candidate, plan: Plan, datamodule: TextDataModule, num_classes: int) -> Learned:
    """The candidate learned from the train rows of a plan, then calibrated on its validation rows, if any."""
    result: RunFolder | ClassifierModule
    scores: Callable[[list[str]], Any]
    if candidate.kind == "words":  # seconds of work are not worth a run of their own
        result = _solved(plan, datamodule)
        scores = Encoded(result, plan)
    else:
        result = trained_run(plan, is_part=True)
        scores = _voted(result, plan) if candidate.votes else Encoded(load_module(result, plan)[0], plan)
    if not candidate.validates:
        return Learned(result, scores, None, math.nan)
    (val, _), labels = scores(datamodule.texts("val")), datamodule.labels["val"].astype(np.int64)
    calibration: AnyCalibration
    if candidate.votes:
        calibration = calibrated_labels(val, labels, rescale=False)
    else:
        is_solved = candidate.kind == "words"
        calibration = calibrated(val, labels, datamodule.class_counts.numpy(), is_solved)
    answers = decisions(calibration.probabilities(val), calibration.thresholds)
    return Learned(result, scores, calibration, decision_metrics(labels, answers, num_classes)["macro_f1"])


def _solved(plan: Plan, datamodule: TextDataModule) -> ClassifierModule:
    module = plan.module(datamodule).eval()
    with threadpool_limits(1):
        module.solve({split: datamodule.token_rows(split) for split in ("train", "val")})
    return module


def _voted(run: RunFolder, plan: Plan) -> Callable[[list[str]], tuple[NDArray[np.floating], None]]:
    """Logits (N, C) of what a model and its neighbours say together, each label by itself."""
    predictor = classifier_predictor(run, plan, explain=False)
    return lambda texts: (logit(np.clip(predictor.scores(texts)[0], LEAST_SHARE, 1 - LEAST_SHARE)), None)
