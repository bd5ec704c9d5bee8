"""The recommended candidate learned once more, from all rows, and written as the run in `model/`, calibrated."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from callbacks.time_limit import OutOfTime
from datamodules.labels import class_counts
from engine.finished import load_module
from engine.plan import Plan
from storage.run_store import RunFolder, first_line
from tasks.auto.candidates.declarations import Candidate
from tasks.auto.candidates.folds import fitted, pooled_calibration
from tasks.auto.candidates.plans import plan_of, protocol_words
from tasks.auto.comparison.clock import minutes_of
from tasks.auto.comparison.durations import USUAL_BATCH, foretold_training, longer_of, pace_of, texts_in_training
from tasks.auto.comparison.runs import Learned, learned, limited, run_words
from tasks.auto.comparison.study import PAIR_STEPS, Study
from tasks.auto.comparison.untrained import UNSCALED, path_of, rows_of
from tasks.auto.model import writing

FEW_STEPS = (32, 24)  # of pairs, where there is no time for `PAIR_STEPS` on all rows, but for more than the folds had
SAFE = 1.15  # times as long as told: after it nothing is left that could be shortened
AFTER_SECONDS = 4.0  # of a run, to solve its classifiers and to write the model
OVERTIME = 0.03  # of the minutes, before a run that has become slower is begun anew with fewer steps
MOST_OVERTIME = 0.1  # of the minutes, before one that cannot be shortened gives way to what trains no encoder
SHARPENING = 0.3  # power of the steps of pairs by which scores of unseen rows grow further apart, on train rows


class NotFitted(ValueError):
    """A candidate that trains the encoder could not be fitted to all rows, and another can be."""


def fit_on_all_rows(study: Study, candidate: Candidate, more: dict[str, Any], may_give_way: bool = False) -> None:
    """`model/`: the candidate on all rows, calibrated; `more` goes into its metrics.

    Args:
        may_give_way: whether another candidate can take its place where it trains for too long, or fails.

    Raises:
        NotFitted: it has to give way; nothing is written then.
    """
    run = RunFolder(study.run.path / "model")
    place = (study.label_names, class_counts(study.labels, study.num_classes))
    if candidate.kind in ("trained", "words"):
        _fit_by_run(study, candidate, run, place, more, may_give_way and candidate.kind == "trained")
        return
    path = path_of(study, candidate)
    assert not isinstance(path, str)
    rows, texts = rows_of(study, candidate), study.texts.tolist()
    model = fitted(path, rows, study.labels, texts, study.num_classes, candidate.name not in UNSCALED)
    plan = plan_of([*study.words, *study.words_of(candidate), *protocol_words(candidate.name, None), "logger=null"])
    scorer: Any = model.scorer
    if candidate.name == "neighbours":
        writing.write_neighbours(run, plan, *place, scorer, texts, model.calibration, more)
    elif candidate.reads_words:
        writing.write_linear_words(run, plan, *place, scorer, model.calibration, more)
    else:
        writing.write_linear(run, plan, *place, scorer, model.calibration, more)


def _fit_by_run(
    study: Study,
    candidate: Candidate,
    run: RunFolder,
    place: tuple[list[str], NDArray],
    more: dict[str, Any],
    may_give_way: bool,
) -> None:
    """The run of all rows. It is calibrated as those of the folds were, on validation rows of its own: how sure
    scores are differs from run to run, and what suits those of the folds need not suit its own. Where all its rows
    train, what the folds say of rows that they had not seen has to do."""
    plan, model, sharpness = _learned_in_time(study, candidate, may_give_way)
    calibration = model.calibration
    if calibration is None:
        calibration = pooled_calibration(list(study.outcomes[candidate.name].values()), study.labels, place[1])
        calibration = replace(calibration, scale=calibration.scale / sharpness)
    if not isinstance(model.learned, RunFolder):
        writing.write_module(run, plan, model.learned, *place, calibration, more)
        return
    module = load_module(model.learned, plan)[0]  # scoring has changed the one that it was done by
    if candidate.votes:
        writing.write_voting_module(run, plan, module, *place, model.learned, calibration, more)
    else:
        writing.write_module(run, plan, module, *place, calibration, more)


def _learned_in_time(
    study: Study, candidate: Candidate, may_give_way: bool = False
) -> tuple[Plan, Learned, float]:
    """The candidate learned from all rows, its plan, and how many times as far apart its scores are as those of the
    folds. Pairs are learned from for as many steps as there is time for, fewer where these take longer than told, and
    at the least for as many as in the folds. Without another that can take its place it takes as long as it takes.

    Raises:
        NotFitted: it may give way, and takes longer than the time left and some overtime, or fails.
    """
    steps = longer_steps(study, candidate)
    while True:
        words, sharpness = words_of_all_rows(study, candidate, steps)
        if steps is not None:
            study.clock.say(f"there is time for {steps} steps of pairs on all rows, more than the folds had")
            words = [*words, *limited(_seconds_left(study, OVERTIME))]
        elif may_give_way:
            words = [*words, *limited(_seconds_left(study, MOST_OVERTIME))]
        plan, left = plan_of(words), max(study.clock.left_with_fit, 0)
        try:
            return plan, learned(candidate, plan, plan.datamodule(plan.corpus()), study.num_classes), sharpness
        except OutOfTime as error:
            if steps is None:
                told = f"that would take about {minutes_of(error.seconds)}, {minutes_of(left)} were left"
                raise NotFitted(told) from error
            study.clock.say("they take longer than told: fewer")
            steps = longer_steps(study, candidate, below=steps)
            study.entries[candidate.name].learns_for_longer = steps is not None
            study.write()
        except (ValueError, RuntimeError) as error:  # as of a fold
            if not may_give_way:
                raise
            raise NotFitted(f"that failed: {first_line(error)}") from error


def _seconds_left(study: Study, overtime: float) -> float:
    """For training on all rows, with a share of the minutes as overtime."""
    return study.clock.left_with_fit + 60 * overtime * study.clock.minutes - AFTER_SECONDS


def words_of_all_rows(study: Study, candidate: Candidate, steps: int | None) -> tuple[list[str], float]:
    """Overrides of the run of all rows with so many steps of pairs, None for as many as in the folds, and how many
    times as far apart its scores are as those of the folds."""
    if steps is None:
        return run_words(study, candidate, None), 1.0
    longer = longer_of(study, candidate)
    texts = [texts_in_training(study, *run) for run in ((candidate, 0), (longer, None, steps))]
    return run_words(study, longer, None, steps), (texts[1] / texts[0]) ** SHARPENING


def brief_steps(study: Study, candidate: Candidate) -> tuple[float, float]:
    """Steps of pairs in a fold of a candidate that trains the encoder, and on all rows."""
    steps = longer_steps(study, candidate)
    last = (candidate, None) if steps is None else (longer_of(study, candidate), None, steps)
    of_fold, of_all = (texts_in_training(study, *run) / USUAL_BATCH for run in ((candidate, 0), last))
    return of_fold, of_all


def longer_steps(study: Study, candidate: Candidate, below: int | None = None) -> int | None:
    """Steps of pairs that all rows have time for, in fewer epochs than `below` of them; None where those are no more
    than the folds had."""
    longer = longer_of(study, candidate)
    if not longer.takes_pair_steps or study.embeddings is None:
        return None
    own = foretold_training(study, candidate, None)
    most = math.inf if below is None else foretold_training(study, longer, None, below)
    for steps in (*PAIR_STEPS, *FEW_STEPS):
        seconds = foretold_training(study, longer, None, steps)
        if own < seconds < most and SAFE * pace_of(study, candidate) * seconds <= study.clock.left_with_fit:
            return steps
    return None
