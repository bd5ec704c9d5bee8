"""In which order the candidates of a question are tried: those that train no encoder, cheap ones first; the learning
curve; then those that train the encoder, in the time that is left. What is cheap sees further drawings of the folds
before these where that takes next to nothing of the minutes, and otherwise after them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tasks.auto.candidates.declarations import Candidate
from tasks.auto.comparison.durations import (
    USUAL_PACE,
    folds_wanted,
    foretold_training,
    longer_of,
    refits,
    seconds_of_trained,
    solving_seconds,
)
from tasks.auto.comparison.learning_curve import learning_curve
from tasks.auto.comparison.study import FOLDS_OF_MANY, PAIR_STEPS, Study, enough_folds
from tasks.auto.comparison.trained import try_trained
from tasks.auto.comparison.untrained import FIRST_SHARE, REPEATED_SHARE, repeat_folds, try_untrained

TOLD_TOO_LONG = 2.0  # times, what is told before a step is done; where it is not, fewer folds can be taken then
UNTRAINED_SHARE = 0.25  # of the minutes, foreseen for candidates that train no encoder where the minutes are few


def compare(study: Study, candidates: Sequence[Candidate]) -> None:
    """Try the candidates, cheapest first, and write what comes of it after each.

    Where their first steps say that none which trains the encoder can end its folds, and that fewer would do, all of
    them begin anew with fewer.
    """
    _try_all(study, candidates)
    if _fewer_would_do(study, candidates):
        study.clock.say(f"time for fine-tuning with {FOLDS_OF_MANY} folds, not with {study.folds}: all begin anew")
        study.divide(FOLDS_OF_MANY)
        _try_all(study, candidates)
    for brief in _briefs_once_more(study, candidates):
        study.clock.say(f"{study.entries[brief.name].title}, once more: the machine may have been busy")
        try_trained(study, [brief])
    repeat_folds(study, _cheap(candidates), REPEATED_SHARE)
    study.write()


def _briefs_once_more(study: Study, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Brief candidates that were stopped after their first steps, which took longer than they were foretold to, where
    nothing that trains the encoder ended its folds and by the foretelling there is time for them yet."""
    trained = _trained(candidates)
    if any(map(study.is_finished, trained)):
        return []

    def foretold(brief: Candidate) -> float:
        runs = folds_wanted(study, brief) + refits(study, brief)
        return USUAL_PACE * runs * foretold_training(study, brief, 0)

    stopped = [brief for brief in trained if brief.brief_of and brief.name in study.told_seconds]
    return [brief for brief in stopped if foretold(brief) <= study.clock.left_with_fit]


def _fewer_would_do(study: Study, candidates: Sequence[Candidate]) -> bool:
    trained = {candidate.name: candidate for candidate in _trained(candidates)}
    if study.folds <= FOLDS_OF_MANY or any(map(study.is_finished, trained.values())):
        return False
    outcomes = [pair for name in study.outcomes.keys() - trained for pair in study.outcomes[name].items()]
    again = sum(outcome.seconds_fit for (repeat, _), outcome in outcomes if not repeat)
    told = seconds_of_trained(study)
    needed = (seconds * (FOLDS_OF_MANY + refits(study, trained[name])) for name, seconds in told.items())
    return again + min(needed, default=np.inf) <= study.clock.left_with_fit


def _try_all(study: Study, candidates: Sequence[Candidate]) -> None:
    study.enter(candidates)
    untrained = [candidate for candidate in candidates if candidate.kind != "trained"]
    # with very many classes a solver may leave no time for the others; words alone are the least of a loss
    untrained.sort(key=lambda candidate: (candidate.kind == "words", solving_seconds(study, candidate)))
    waiting = []
    for number, candidate in enumerate(untrained, 1):
        study.say(f"{number} of {len(candidates)}: {study.entries[candidate.name].title}")
        if try_untrained(study, candidate, untrained[number:]):
            study.say("its other folds wait for a sum that it is a part of")
            waiting.append(candidate)
        _write_of(study, candidate)
    for candidate in waiting:
        study.say(f"{study.entries[candidate.name].title}: the other folds")
        try_untrained(study, candidate)
        _write_of(study, candidate)
    cheap = _cheap(untrained)
    repeat_folds(study, cheap, FIRST_SHARE)
    learning_curve(study, cheap)
    try_trained(study, _trained(candidates))
    study.write()


def _write_of(study: Study, candidate: Candidate) -> None:
    """Say why a candidate was left, where it was, and write what came of it."""
    if study.entries[candidate.name].reason:
        study.say_why(candidate)
    study.write()


def _cheap(candidates: Sequence[Candidate]) -> list[Candidate]:
    return [candidate for candidate in candidates if candidate.kind not in ("trained", "words")]


def _trained(candidates: Sequence[Candidate]) -> list[Candidate]:
    return [candidate for candidate in candidates if candidate.kind == "trained"]


def fit_folds(study: Study, candidates: Sequence[Candidate]) -> None:
    """Fewer folds, where with these no candidate that trains the encoder could end in time, and with those one, all
    of them or as many as are enough; also where only with fewer all rows could be learned from for longer, if that is
    known to gain."""
    usual, fewer = study.folds, min(FOLDS_OF_MANY, study.folds)
    if study.embeddings is None or (study.run.path / "folds").exists():
        return
    for_trained = (1 - UNTRAINED_SHARE) * study.clock.left_with_fit
    plans = [(usual, PAIR_STEPS[0]), (fewer, PAIR_STEPS[0]), (usual, PAIR_STEPS[-1]), (fewer, PAIR_STEPS[-1])]
    for folds, steps in plans if study.is_usual else ():
        study.folds = folds
        if _seconds_with_longer(study, candidates, steps) <= for_trained / USUAL_PACE:
            return
    if study.is_usual and _seconds_with_longer(study, candidates, PAIR_STEPS[-1]) <= for_trained:
        return  # with the fewer folds
    allowed = TOLD_TOO_LONG * for_trained
    for folds, is_whole in ((usual, True), (fewer, True), (fewer, False)):
        study.folds = folds
        needed = (_seconds_to_count(study, candidate, is_whole) for candidate in _trained(candidates))
        if min(needed, default=np.inf) <= allowed:
            return
    study.folds = usual


def _seconds_with_longer(study: Study, candidates: Sequence[Candidate], steps: int) -> float:
    """Of all folds of a brief candidate, and its fit on all rows with so many steps of pairs, where these are more."""
    needed = []
    for brief in (candidate for candidate in candidates if candidate.brief_of in study.by_name):
        last = foretold_training(study, longer_of(study, brief), None, steps)
        if last > foretold_training(study, brief, None):
            needed.append(study.folds * foretold_training(study, brief, 0) + last)
    return min(needed, default=np.inf)


def _seconds_to_count(study: Study, candidate: Candidate, is_whole: bool) -> float:
    """Of all folds, or as many as are enough, and the fit on all rows."""
    folds = study.folds if is_whole else enough_folds(candidate, study.folds, len(study.labels))
    return foretold_training(study, candidate, 0) * (folds + refits(study, candidate))
