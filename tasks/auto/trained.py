"""Candidates that train the encoder, by successive halving: each trains on the first fold, then each on the second, and
twice, once enough rows were seen, the worse half of them goes. So does what does not fit into the time; those that are
left have the same folds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from callbacks.time_limit import OutOfTime
from tasks.auto.candidate_runs import read_run
from tasks.auto.candidates import Candidate
from tasks.auto.clock import minutes_of
from tasks.auto.durations import (
    START_SECONDS,
    folds_left_seconds,
    longest_fold,
    seconds_of_trained,
    training_seconds,
)
from tasks.auto.folds import cross_calibrated
from tasks.auto.plans import INNER_SHARE
from tasks.auto.study import NO_ENCODER, NO_UNLABELLED, Study

MOST_WRONG, MOST_WRONG_AT_PACE = 3, 1.5  # times that a guess may be too long before a step of any candidate, and after
# some were trained; what is nearer is told from the candidate's own first steps
LEAST_VALIDATION_ROWS = 100  # seen before any candidate is dropped as worse: fewer say little
MOST_HALVINGS = 2
OVERTIME = 0.05  # of the minutes, for a candidate of which folds are there


def try_trained(study: Study, candidates: Sequence[Candidate]) -> None:
    """Fold by fold, with fewer and fewer candidates; the entries of those that end early say why."""
    if study.embeddings is None:
        for candidate in candidates:
            study.entries[candidate.name].reason = NO_ENCODER
        return
    alive, halvings = list(candidates), 0
    for fold in range(study.folds):
        for candidate in list(alive):
            if not _train_fold(study, candidate, fold, [other for other in alive if other is not candidate]):
                alive.remove(candidate)
                study.say_why(candidate)
            study.write()
        trained = list(alive)
        if halvings < MOST_HALVINGS and len(alive) > 1 and fold + 1 < study.folds and _says_much(study, fold):
            halvings += 1
            alive = better_half(study, alive, fold)
        alive = those_that_can_end(study, alive, fold)
        for candidate in trained:
            if candidate not in alive:
                study.say_why(candidate)
    for candidate in alive:
        study.finish(candidate)


def _train_fold(study: Study, candidate: Candidate, fold: int, others: Sequence[Candidate]) -> bool:
    """Train and read one fold; False where it cannot end or fails, the entry says why.

    Time for the other folds of the cheapest of the others is not its own: it would be spent on first folds alone.
    """
    if study.known(candidate.name, 0, fold) is not None:
        return read_run(study, candidate, fold)
    entry = study.entries[candidate.name]
    if candidate.reads_unlabelled and not study.unlabelled:
        entry.reason = NO_UNLABELLED
        return False
    unknown = sum(study.known(candidate.name, 0, f) is None for f in range(study.folds))
    runs = unknown + study.folds / (study.folds - 1)  # and the last fit, on all rows
    reserved = min((folds_left_seconds(study, c) for c in others if longest_fold(study, c)), default=0.0)
    overtime = 60 * OVERTIME * study.clock.minutes if longest_fold(study, candidate) else 0.0
    allowed = (study.clock.left_with_fit + overtime - reserved) / runs
    expected = training_seconds(study, candidate, fold)
    at_pace = seconds_of_trained(study) and not candidate.is_brief  # nothing else could use the time that is left
    if expected > allowed * (MOST_WRONG_AT_PACE if at_pace else MOST_WRONG):
        left = minutes_of(max(study.clock.left - reserved, 0))
        entry.reason = f"all folds take about {minutes_of(expected * runs)}, {left} are left"
        return False
    study.say(f"{entry.title}, fold {fold + 1} of {study.folds}")
    node = "+callbacks.time_limit"
    limit = [f"{node}._target_=callbacks.time_limit.TimeLimit", f"{node}.seconds={max(allowed, 1.0):.1f}"]
    try:
        if not read_run(study, candidate, fold, limit):
            return False
    except OutOfTime as error:
        study.told_seconds[candidate.name] = error.seconds + START_SECONDS
        whole = minutes_of(study.told_seconds[candidate.name] * runs)
        entry.reason = f"all folds would take about {whole}, told from its first steps"
        return False
    study.clock.keep(longest_fold(study, candidate) * study.folds / (study.folds - 1))
    return True


def better_half(study: Study, alive: Sequence[Candidate], fold: int) -> list[Candidate]:
    """The better half of those that were trained up to this fold, in their order; the others are entered as dropped."""
    figures = _so_far(study, alive)
    order = sorted(alive, key=lambda candidate: figures[candidate.name], reverse=True)
    keep = order[: math.ceil(len(order) / 2)]
    where = "on validation rows" if all(c.validates for c in alive) else "on the rows held out"
    for candidate in order[len(keep) :]:
        own, best = figures[candidate.name], figures[order[0].name]
        entry = study.entries[candidate.name]
        entry.status = "dropped"
        entry.reason = (
            f"behind {where} after {fold + 1} of {study.folds} folds: macro-F1 {100 * own:.1f}, "
            f"the best of those trained {100 * best:.1f}"
        )
    return [candidate for candidate in alive if candidate in keep]


def _so_far(study: Study, candidates: Sequence[Candidate]) -> dict[str, float]:
    """Macro-F1 of each by name, over the folds so far: on inner validation rows; where one of the candidates has
    none, on the rows of the folds themselves, the same for all."""
    figures = {}
    for candidate in candidates:
        outcomes = [o for (repeat, _), o in study.outcomes[candidate.name].items() if repeat == 0]
        if all(c.validates for c in candidates):
            figures[candidate.name] = float(np.mean([outcome.validation_macro_f1 for outcome in outcomes]))
        else:
            figures[candidate.name] = study.macro_f1(cross_calibrated(outcomes, study.labels))
    return figures


def _says_much(study: Study, fold: int) -> bool:
    """Whether the inner validation rows of the folds so far are enough to tell which candidate is worse."""
    rows = INNER_SHARE * len(study.labels) * (study.folds - 1) / study.folds * (fold + 1)
    return rows >= LEAST_VALIDATION_ROWS


def those_that_can_end(study: Study, candidates: Sequence[Candidate], fold: int) -> list[Candidate]:
    """Without those whose folds after this one do not fit into the time: the worst go first, or, where too few rows
    tell which that is, the dearest."""
    says_much = _says_much(study, fold)

    def longest(candidate: Candidate) -> float:
        return longest_fold(study, candidate)

    alive = list(candidates)
    while alive:
        refit = max(map(longest, alive)) * study.folds / (study.folds - 1)
        together = sum(folds_left_seconds(study, candidate) for candidate in alive)
        if together == 0 or together + refit <= study.clock.left_with_fit:
            break
        figures = _so_far(study, alive)
        worst = min(alive, key=lambda c: figures[c.name]) if says_much else max(alive, key=longest)
        alive.remove(worst)
        more = math.ceil((together + refit - study.clock.left_with_fit) / 60)
        entry = study.entries[worst.name]
        entry.reason = f"its other folds do not fit into the time; about {more} more minutes would do"
    return alive
