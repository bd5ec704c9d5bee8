"""Candidates that train the encoder, by successive halving: each trains on the first fold, then each on the second, and
twice, once enough rows were seen, the worse half of them goes. So does what does not fit into the time; those that are
left have the same folds. One that time stops counts by the folds it has, where their rows are enough."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from callbacks.time_limit import OutOfTime
from tasks.auto.candidates.declarations import Candidate
from tasks.auto.candidates.folds import cross_calibrated
from tasks.auto.candidates.plans import INNER_SHARE
from tasks.auto.comparison.clock import minutes_of
from tasks.auto.comparison.durations import (
    START_SECONDS,
    USUAL_PACE,
    finished,
    folds_left,
    folds_wanted,
    longer_seconds,
    longest_fold,
    mean_fold,
    refit_seconds,
    refits,
    seconds_of_trained,
    training_seconds,
)
from tasks.auto.comparison.runs import limited, read_run
from tasks.auto.comparison.study import LACKS_CLASS, NO_ENCODER, NO_UNLABELLED, PAIR_STEPS, Study

MOST_WRONG, MOST_WRONG_AT_PACE = 3, 1.5  # times that a guess may be too long before a step of any candidate, and after
# some were trained; what is nearer is told from the candidate's own first steps
LEAST_VALIDATION_ROWS = 100  # seen before any candidate is dropped as worse: fewer say little
MOST_HALVINGS = 2
OVERTIME = 0.03  # of the minutes, for a candidate of which folds are there


def try_trained(study: Study, candidates: Sequence[Candidate]) -> None:
    """Fold by fold, with fewer and fewer candidates; the entries of those that end early say why."""
    if study.embeddings is None:
        for candidate in candidates:
            study.entries[candidate.name].reason = NO_ENCODER
        return
    alive, halvings = longer_first(study, candidates), 0
    replaced: list[Candidate] = []
    for fold in range(study.folds):
        for candidate in list(alive):
            others = [other for other in alive if other is not candidate]
            is_needless = _is_needless(study, candidate, others)
            if is_needless or not _train_fold(study, candidate, fold, others):
                replaced += [candidate] if is_needless else []
                alive.remove(candidate)
                _leave(study, candidate)
            study.write()
        trained = list(alive)
        if halvings < MOST_HALVINGS and len(alive) > 1 and fold + 1 < study.folds and _says_much(study, fold):
            halvings += 1
            alive = better_half(study, alive, fold)
        alive = those_that_can_end(study, alive, fold)
        for candidate in trained:
            if candidate not in alive:
                _leave(study, candidate)
    for candidate in alive:
        study.finish(candidate)
    for candidate in replaced:
        if study.entries[candidate.brief_of].status != "finished":  # there was no time for it after all
            study.entries[candidate.name].status = "skipped"
            try_trained(study, [candidate])


def longer_first(study: Study, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Before a brief candidate the one that trains alike for longer, where that began in an earlier start, or all its
    folds and its fit on all rows are told to fit into the time."""
    order = list(candidates)
    for brief in [candidate for candidate in candidates if candidate.brief_of]:
        longer = next((candidate for candidate in candidates if candidate.name == brief.brief_of), None)
        if longer is None:
            continue
        has_begun = study.known(longer.name, 0, 0) is not None and study.known(brief.name, 0, 0) is None
        if has_begun or _fits(study, longer):
            order.remove(longer)
            order.insert(order.index(brief), longer)
    return order


def _fits(study: Study, candidate: Candidate) -> bool:
    """Whether all folds of a candidate and its fit on all rows are told to fit into the time, with the most steps that
    do."""
    for steps in PAIR_STEPS if candidate.takes_pair_steps else PAIR_STEPS[-1:]:
        if candidate.takes_pair_steps and study.known(candidate.name, 0, 0) is None:
            study.take_pair_steps(steps)
        seconds = (folds_left(study, candidate) + refits(study, candidate)) * training_seconds(study, candidate, 0)
        seconds *= 1.0 if seconds_of_trained(study) else USUAL_PACE
        if seconds <= study.clock.left_with_fit:
            return True
    return False


def _takes_fewer_steps(study: Study, candidate: Candidate, fold: int) -> bool:
    """Whether a candidate whose first steps say that there is no time for so many can take fewer, as it does then."""
    fewer = [steps for steps in PAIR_STEPS if steps < study.pair_steps]
    if fold or not candidate.takes_pair_steps or not fewer:
        return False
    study.told_seconds[candidate.name] *= fewer[0] / study.pair_steps
    study.take_pair_steps(fewer[0])
    return True


def _is_needless(study: Study, candidate: Candidate, others: Sequence[Candidate]) -> bool:
    """Whether another trains alike for longer or has done so, and this one has not begun; the entry says so."""
    name, entry = candidate.brief_of, study.entries[candidate.name]
    is_tried = any(other.name == name and longest_fold(study, other) for other in others)
    is_tried |= name in study.entries and study.entries[name].status == "finished"
    if not is_tried or study.known(candidate.name, 0, 0) is not None:
        return False
    entry.status, entry.reason = "dropped", f"{name} trains alike for longer, and there is time for it"
    return True


def _leave(study: Study, candidate: Candidate) -> None:
    """Say why it goes; where nothing but time is against it and its folds are enough, they count."""
    if study.entries[candidate.name].status == "skipped" and study.has_enough(candidate):
        study.finish(candidate)
    study.say_why(candidate)


def _train_fold(study: Study, candidate: Candidate, fold: int, others: Sequence[Candidate]) -> bool:
    """Train and read one fold; False where it cannot end or fails, the entry says why.

    Time for the other folds of the cheapest of the others is not its own: it would be spent on first folds alone. Nor
    is that in which one of the others would learn for longer on all rows.
    """
    if study.known(candidate.name, 0, fold) is not None:
        return read_run(study, candidate, fold) and _keep_last_fit(study, candidate)
    entry = study.entries[candidate.name]
    if candidate.reads_unlabelled and not study.unlabelled:
        entry.status, entry.reason = "dropped", NO_UNLABELLED
        return False
    if candidate.needs_all_classes and study.lacks_class:
        entry.status, entry.reason = "dropped", LACKS_CLASS
        return False
    wanted = folds_wanted(study, candidate)
    runs = wanted + refits(study, candidate)
    begun = [other for other in others if longest_fold(study, other)]
    reserved = min((_wanted_seconds(study, other) for other in begun), default=0.0)
    needs_it = longest_fold(study, candidate) and not study.has_enough(candidate)
    overtime = 60 * OVERTIME * study.clock.minutes if needs_it else 0.0
    time = study.clock.left_with_fit + overtime - reserved
    comparable = [*finished(study), *(other for other in begun if study.has_enough(other))]
    kept = max(refit_seconds(study, comparable), longer_seconds(study, [*finished(study), *begun]))
    allowed = min(time / runs, (time - kept) / wanted)
    expected = training_seconds(study, candidate, fold)
    if expected > allowed * _most_wrong(study, candidate):
        left = minutes_of(max(study.clock.left_with_fit - reserved, 0))
        entry.reason = f"{_folds(wanted)} take about {minutes_of(expected * runs)}, {left} are left"
        return False
    study.say(f"{entry.title}, fold {fold + 1} of {study.folds}")
    try:
        if not read_run(study, candidate, fold, limited(allowed - START_SECONDS)):
            return False
    except OutOfTime as error:
        study.told_seconds[candidate.name] = error.seconds + START_SECONDS
        if _takes_fewer_steps(study, candidate, fold):
            return _train_fold(study, candidate, fold, others)
        whole = minutes_of(study.told_seconds[candidate.name] * runs)
        entry.reason = f"{_folds(wanted)} would take about {whole}, told from its first steps"
        return False
    return _keep_last_fit(study, candidate)


def _keep_last_fit(study: Study, candidate: Candidate) -> bool:
    """Keep the time that it would take on all rows, the longest that is known to gain; True."""
    study.clock.keep(max(refit_seconds(study, [candidate]), longer_seconds(study, [candidate])))
    return True


def _most_wrong(study: Study, candidate: Candidate) -> float:
    """Times that the seconds told of a fold may be more than there are, for it to begin all the same."""
    if study.has_enough(candidate):
        return 1.0
    at_pace = seconds_of_trained(study) and not candidate.brief_of  # a brief one comes last if the longer is stopped
    return MOST_WRONG_AT_PACE if at_pace else MOST_WRONG


def _wanted_seconds(study: Study, candidate: Candidate) -> float:
    """Of the folds that it needs yet to be compared: none where those that are there are enough."""
    return 0.0 if study.has_enough(candidate) else folds_wanted(study, candidate) * mean_fold(study, candidate)


def _folds(wanted: int) -> str:
    """What a candidate needs, in words."""
    return f"{wanted} more fold{'' if wanted == 1 else 's'} and the fit on all rows"


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
    tell which that is, the dearest. The last one stays if as many fit as it needs to count."""
    says_much = _says_much(study, fold)

    alive = list(candidates)
    while alive:
        refit = refit_seconds(study, [c for c in candidates if c in alive or study.has_enough(c)])
        together = sum(folds_left(study, candidate) * mean_fold(study, candidate) for candidate in alive)
        if len(alive) == 1:
            together = min(together, _wanted_seconds(study, alive[0]))
            together /= MOST_WRONG_AT_PACE if alive[0].brief_of else 1.0  # folds that do not fit are stopped one by one
        if together == 0 or together + refit <= study.clock.left_with_fit:
            break
        figures = _so_far(study, alive) if says_much else {c.name: -mean_fold(study, c) for c in alive}
        worst = min(alive, key=lambda c: figures[c.name])
        alive.remove(worst)
        more = math.ceil((together + refit - study.clock.left_with_fit) / 60)
        entry = study.entries[worst.name]
        entry.reason = f"its other folds do not fit into the time; about {more} more minutes would do"
    return alive
