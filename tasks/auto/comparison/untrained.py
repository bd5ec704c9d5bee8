"""Candidates that leave the encoder as it is, tried on every fold as long as there is time: from class counts, from
embeddings, from words. What is cheap among them is tried on further drawings of the folds, so that the draw matters
less."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.kmeans import unit_rows
from storage.run_store import first_line
from tasks.auto.candidates import cheap
from tasks.auto.candidates.declarations import Candidate
from tasks.auto.candidates.folds import FoldOutcome, cheap_fold, each_fold
from tasks.auto.comparison.clock import minutes_of
from tasks.auto.comparison.durations import finished, folds_left, folds_wanted, refit_seconds, refits, solving_seconds
from tasks.auto.comparison.runs import read_run
from tasks.auto.comparison.study import NO_ENCODER, NO_UNLABELLED, Study

REPEATS = 3  # of cheap candidates, as far as they take no more than a share of the minutes: before those that train the
FIRST_SHARE, REPEATED_SHARE = 0.01, 0.2  # encoder, for which two minutes hardly suffice, and after them
MOST_WRONG = 1.5  # times that the seconds told of the folds may be more than there are, for the first to be solved
MOST_REPEATED = 2000  # rows; the drawing of the folds hardly matters where there are more
UNSCALED = ("majority", "neighbours")  # candidates whose scores are shares of rows, and stay what they are


def try_untrained(study: Study, candidate: Candidate, later: Sequence[Candidate] = ()) -> bool:
    """All folds of a candidate that trains no encoder, in the first drawing; the entry says how it went.

    Returns:
        Whether those after the first wait: one of `later`, a sum that it is a part of, is told to have time without
        them and none after them.
    """
    if candidate.kind == "words":
        _try_words(study, candidate)
        return False
    return _try_cheap(study, candidate, 0, later)


def _is_to_wait(study: Study, part: Candidate, later: Sequence[Candidate]) -> bool:
    """Whether there is time for a sum of `later`, and not for the other folds of this part of it besides."""
    rest = folds_left(study, part) * solving_seconds(study, part)
    for whole in (candidate for candidate in later if part.name in candidate.parts):
        needed = (folds_wanted(study, whole) + refits(study, whole)) * solving_seconds(study, whole)
        if needed <= MOST_WRONG * study.clock.left and study.clock.left < rest + needed:
            return True
    return False


def repeat_folds(study: Study, candidates: Sequence[Candidate], most: float) -> None:
    """More drawings of the folds for what is cheap, so that the draw of the folds matters less; `most` is the share of
    the minutes that they may take."""
    done = [candidate for candidate in candidates if study.is_finished(candidate)]
    once = sum(o.seconds_fit for c in done for o in study.outcomes[c.name].values())  # nothing is encoded again
    known = study.drawings_on_disk()
    is_many = len(study.labels) > MOST_REPEATED
    share = 0.0 if is_many else most * 60 * study.clock.minutes
    study.repeats = max(min(REPEATS, 1 + int(share / max(once, 1e-3))), 1 + max(known, default=0))
    for repeat in range(1, study.repeats):
        if study.clock.left <= once and repeat not in known:
            return
        study.say(f"drawing {repeat + 1} of the folds, for what is cheap")
        for candidate in done:
            _try_cheap(study, candidate, repeat)


def _try_words(study: Study, candidate: Candidate) -> None:
    """Every fold is solved anew, words and all; that takes seconds."""
    for fold in range(study.folds):
        if study.known(candidate.name, 0, fold) is None and (reason := _no_time(study, candidate, 0, fold)):
            if study.has_enough(candidate):
                break
            study.entries[candidate.name].reason = reason
            return
        if not read_run(study, candidate, fold):
            return
    study.finish(candidate)


def _try_cheap(study: Study, candidate: Candidate, repeat: int, later: Sequence[Candidate] = ()) -> bool:
    entry, path = study.entries[candidate.name], path_of(study, candidate)
    if isinstance(path, str):
        entry.status, entry.reason = "skipped" if path == NO_ENCODER else "dropped", path
        return False
    for fold, test in enumerate(each_fold(study.labels, list(study.texts), study.folds, repeat)):
        outcome = study.known(candidate.name, repeat, fold)
        if outcome is not None:
            study.keep(candidate.name, repeat, fold, outcome)
            continue
        if fold and _is_to_wait(study, candidate, later):
            return True
        if candidate.kind != "counts" and (reason := _no_time(study, candidate, repeat, fold)):
            if repeat == 0 and study.has_enough(candidate):
                break
            if repeat == 0:
                entry.reason = reason
            return False
        try:
            outcome = _cheap_outcome(study, candidate, path, test)
        except ValueError as error:
            if repeat == 0:  # further drawings only add to it
                entry.status, entry.reason = "failed", first_line(error)
            return False
        study.save(candidate.name, repeat, fold, outcome)
    study.finish(candidate)
    return False


def _no_time(study: Study, candidate: Candidate, repeat: int, fold: int) -> str | None:
    """Why there is no time for this fold and the next ones, as many as it needs to count, and for the fit on all rows;
    None where there is; its entry says how many seconds are needed. Further drawings count whole."""
    told, wanted = solving_seconds(study, candidate), study.folds - fold
    if repeat == 0:
        wanted = folds_wanted(study, candidate)
    needed = wanted * told + max(refits(study, candidate) * told, refit_seconds(study, finished(study)))
    is_told = candidate.name in study.outcomes or wanted == 1  # otherwise its first fold says it better
    if needed <= (1.0 if is_told else MOST_WRONG) * study.clock.left and study.clock.left > 0:
        return None
    study.entries[candidate.name].needed_seconds = needed
    folds = "one fold" if wanted == 1 else f"{wanted} folds"
    return f"{folds} and the fit on all rows take about {minutes_of(needed)}, no time is left for that"


def _cheap_outcome(
    study: Study, candidate: Candidate, path: cheap.AnyPath, test: NDArray[np.int64]
) -> FoldOutcome:
    encoder = study.embeddings if candidate.kind == "embeddings" else None
    outcome, _ = cheap_fold(
        path, rows_of(study, candidate), study.labels, study.texts, test, study.num_classes,
        candidate.name not in UNSCALED, 0.0 if encoder is None else encoder.seconds_per_text,
    )  # fmt: skip
    return outcome


def path_of(study: Study, candidate: Candidate) -> cheap.AnyPath | str:
    """The candidate's path of settings, see `tasks.auto.candidates.cheap`, or why it cannot be tried."""
    if candidate.kind == "counts":
        return cheap.majority
    if study.embeddings is None:
        return NO_ENCODER
    if candidate.reads_unlabelled and not study.unlabelled:
        return NO_UNLABELLED
    names = study.embeddings.names
    if candidate.name == "nearest_name":
        return "the labels are codes, called alike, or very many" if names is None else cheap.nearest_name(names)
    if candidate.name == "prototypes":
        return cheap.prototypes(names)
    if candidate.name == "discriminant_unlabelled":
        return cheap.refined(names, unit_rows(study.embeddings.unlabelled))
    if candidate.name == "words_unlabelled":
        others = cheap.TextRows(unit_rows(study.embeddings.unlabelled), study.embeddings.unlabelled_counts)
        return cheap.co_trained_views(names, others)
    if candidate.name == "linear_words" and study.several:
        return cheap.Stacked(names)
    if candidate.name == "linear_words":
        on_embeddings = (cheap.logistic, cheap.prototypes(names))
        return cheap.Added((*(("embeddings", path) for path in on_embeddings), ("counts", cheap.words)))
    logistic = cheap.label_by_label if study.several else cheap.logistic
    return {"logistic": logistic, "neighbours": cheap.neighbours}[candidate.name]


def rows_of(study: Study, candidate: Candidate) -> Any:
    """Embeddings (N, D), with token counts where they are read; without an encoder, what a candidate of counts slices:
    (N, 0)."""
    if study.embeddings is None:
        return np.empty((len(study.labels), 0))
    if candidate.reads_words:
        return cheap.TextRows(unit_rows(study.embeddings.rows), study.embeddings.counts)
    return study.embeddings.rows
