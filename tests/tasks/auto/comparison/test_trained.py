"""Candidates that train the encoder, within the minutes: which of them go on, and for how long."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from callbacks import time_limit
from storage.run_store import RunFolder
from tasks.auto.candidates.declarations import CANDIDATES, by_name, chosen
from tasks.auto.candidates.folds import FoldOutcome
from tasks.auto.comparison import trained
from tasks.auto.comparison.clock import Clock
from tasks.auto.comparison.study import Entry, Study
from tasks.auto.comparison.trained import better_half, those_that_can_end
from tests.tasks.auto.studies import embeddings_of


def test_a_loss_that_reads_class_sizes_is_left_out_where_a_fold_has_none_of_a_class(tmp_path):
    labels, embeddings = np.repeat([0, 1, 2], [40, 12, 1]), embeddings_of(53, 0.01)
    study = Study(RunFolder(tmp_path), Clock(3), [], ["a", "b", "c"], labels, list(map(str, range(53))), embeddings)
    candidate = by_name(False)["logit_adjusted"]
    study.enter([candidate])
    assert not trained._train_fold(study, candidate, 0, [])
    assert study.entries["logit_adjusted"].reason.startswith("all rows of a class lie in one fold")
    labels[-1] = 1
    assert not Study(study.run, Clock(3), [], ["a", "b"], labels, study.texts, embeddings).lacks_class


@pytest.mark.parametrize(("rows", "dropped"), [(60, "scl_ce"), (1500, "ce")])
def test_the_worst_goes_first_where_enough_rows_say_so_and_the_dearest_where_few_do(tmp_path, rows, dropped):
    study = Study(RunFolder(tmp_path), Clock(1), [], ["a", "b"], np.arange(rows) % 2, list(map(str, range(rows))), None)
    candidates = [c for c in CANDIDATES if c.name in ("ce_half", "ce", "scl_ce")]
    study.entries = {c.name: Entry(c.name, c.title, [], c.cost) for c in candidates}
    for candidate, seconds, figure in zip(candidates, (4.0, 4.0, 6.0), (0.8, 0.5, 0.9), strict=True):
        outcome: Any = SimpleNamespace(seconds_fit=seconds, validation_macro_f1=figure, run_id="")
        study.keep(candidate.name, 0, 0, outcome)
    left = those_that_can_end(study, candidates, 0)
    assert [c.name for c in candidates if c not in left] == [dropped]


def test_what_has_no_validation_rows_is_judged_with_the_others_on_the_rows_held_out(tmp_path):
    """On validation rows, which chose its epoch, the first would look best."""
    labels = np.arange(1500) % 2
    study = Study(RunFolder(tmp_path), Clock(1), [], ["a", "b"], labels, list(map(str, range(1500))), None)
    candidates = [c for c in CANDIDATES if c.name in ("ce_half", "setfit_half")]
    study.entries = {c.name: Entry(c.name, c.title, [], c.cost) for c in candidates}
    rows = np.arange(300)
    for candidate, validation, wrong in zip(candidates, (0.95, np.nan), (60, 30), strict=True):
        scores = np.eye(2)[np.where(rows < wrong, 1 - labels[rows], labels[rows])]
        logits = np.empty((0, 0)) if candidate.validates else scores
        study.keep(candidate.name, 0, 0, FoldOutcome(rows, scores, validation, 4.0, 1.0, logits=logits))
    assert [c.name for c in better_half(study, candidates, 0)] == ["setfit_half"]
    assert study.entries["ce_half"].reason.endswith("macro-F1 80.0, the best of those trained 90.0")


@pytest.mark.parametrize(
    ("seconds", "most", "begun", "steps"),
    [
        (220, 80, "setfit_half", 80),
        (180, 64, "setfit_half", 64),  # the first steps say that more would not end
        (180, 0, "setfit_brief", 48),
        (180, 80, "setfit_half", 64),
        (145, 80, "setfit_half", 48),
        (80, 80, "setfit_brief", 48),
    ],
)
def test_pairs_are_trained_for_as_long_as_there_is_time(tmp_path, monkeypatch, seconds, most, begun, steps):
    """Six runs of `setfit_half` are told to take 200, 166 or 131 s, of `setfit_brief` 57 s."""
    embeddings = embeddings_of(100, 1e-2)
    labels, texts, clock = np.arange(100) % 2, list(map(str, range(100))), Clock(seconds / 60, now=lambda: 0.0)
    study = Study(RunFolder(tmp_path), clock, [], ["a", "b"], labels, texts, embeddings)
    candidates = [c for c in CANDIDATES if c.name.startswith("setfit_") and "half" in c.name or c.brief_of]
    study.enter(candidates)
    study.run.write_json("question.json", {})

    def read(study, candidate, fold, more=()):
        if candidate.name == "setfit_half" and study.pair_steps > most:
            raise time_limit.OutOfTime(30.0, 5.0)
        held_out = np.arange(20 * fold, 20 * (fold + 1))
        scores = np.eye(2)[labels[held_out]]
        study.save(candidate.name, 0, fold, FoldOutcome(held_out, scores, np.nan, 2.0, 1.0, logits=scores))
        return True

    monkeypatch.setattr(trained, "read_run", read)
    trained.try_trained(study, candidates)
    assert study.entries[begun].status == "finished" and study.pair_steps == steps
    assert Study(study.run, clock, [], ["a", "b"], labels, texts, embeddings).pair_steps == steps  # a later start
    brief = study.entries["setfit_brief"]
    if begun == "setfit_half":
        why = "setfit_half trains alike for longer, and there is time for it"
        assert (brief.status, brief.reason) == ("dropped", why)  # the sentence says of what is skipped: no time
    assert study.entries[begun].is_known_to_gain


@pytest.mark.parametrize(
    ("largest", "unlabelled", "begins"), [(50, [], False), (80, [], False), (50, ["dataset.unlabelled=a"], True)]
)
def test_time_to_learn_for_longer_on_all_rows_is_kept_where_that_is_known_to_gain(
    tmp_path, monkeypatch, largest, unlabelled, begins
):
    """After the folds of `setfit_brief` 42 s are left: 80 steps of pairs take 22, a fold of `ce_half` 9."""
    now = [0.0]
    embeddings = embeddings_of(100, 1e-2)
    labels, texts = (np.arange(100) >= largest).astype(int), list(map(str, range(100)))
    clock = Clock(77 / 60, now=lambda: now[0])
    study = Study(RunFolder(tmp_path), clock, [], ["a", "b"], labels, texts, embeddings, unlabelled)
    brief, other = (by_name(False)[name] for name in ("setfit_brief", "ce_half"))
    study.enter([brief, other])

    def read(study, candidate, fold, more=()):
        seconds = {"setfit_brief": 6.0, "ce_half": 6.0}[candidate.name]
        now[0] += seconds
        held_out = np.arange(fold, 100, 5)
        scores = np.eye(2)[labels[held_out]]
        study.save(candidate.name, 0, fold, FoldOutcome(held_out, scores, 0.5, seconds, 1.0, logits=scores))
        return True

    monkeypatch.setattr(trained, "read_run", read)
    trained.try_trained(study, [brief])
    trained.try_trained(study, [other])
    assert study.entries["setfit_brief"].status == "finished"
    assert (study.entries["ce_half"].status == "finished") == begins


def test_the_brief_candidate_is_tried_after_all_where_the_longer_does_not_end(tmp_path, monkeypatch):
    """A fold of `setfit_half` was told to take 13 s and takes 30."""
    now = [0.0]
    embeddings = embeddings_of(100, 1e-2)
    labels, texts, clock = np.arange(100) % 2, list(map(str, range(100))), Clock(110 / 60, now=lambda: now[0])
    study = Study(RunFolder(tmp_path), clock, [], ["a", "b"], labels, texts, embeddings)
    candidates = [by_name(False)[name] for name in ("setfit_brief", "setfit_half")]
    study.enter(candidates)
    seconds = {"setfit_half": 30.0, "setfit_brief": 8.0}

    def read(study, candidate, fold, more=()):
        now[0] += seconds[candidate.name]
        held_out = np.arange(20 * fold, 20 * (fold + 1))
        scores = np.eye(2)[labels[held_out]]
        outcome = FoldOutcome(held_out, scores, np.nan, seconds[candidate.name], 1.0, logits=scores)
        study.save(candidate.name, 0, fold, outcome)
        return True

    monkeypatch.setattr(trained, "read_run", read)
    trained.try_trained(study, candidates)
    assert {name: entry.status for name, entry in study.entries.items()} == {
        "setfit_brief": "finished", "setfit_half": "skipped"
    }  # fmt: skip
    assert study.entries["setfit_brief"].reason is None


def test_what_trains_for_longer_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    """Its first fold is there, though now there is less time than its folds are told to take."""
    embeddings = embeddings_of(100, 1e-2)
    labels, texts, clock = np.arange(100) % 2, list(map(str, range(100))), Clock(1.4, now=lambda: 0.0)
    study = Study(RunFolder(tmp_path), clock, [], ["a", "b"], labels, texts, embeddings)
    half, brief = (by_name(False)[name] for name in ("setfit_half", "setfit_brief"))
    assert trained.longer_first(study, [brief, half]) == [brief, half]
    scores = np.eye(2)[labels[:20]]
    outcome = FoldOutcome(np.arange(20), scores, np.nan, 2.0, 1.0, logits=scores)
    outcome.save(tmp_path / "folds" / "setfit_half-0-0.npz")
    assert trained.longer_first(study, [brief, half]) == [half, brief]
    assert [c.brief_of for c in chosen([], ["setfit_brief", "setfit_half"])] == ["", "", ""]  # both are asked for


def test_time_for_the_folds_of_a_candidate_that_began_is_kept(tmp_path, monkeypatch):
    """Otherwise first folds of several use it up, and none ends."""
    embeddings: Any = SimpleNamespace(names=None, seconds_per_text=1e-3, unlabelled=[], encoder="minilm", blocks=6)
    texts = list(map(str, range(100)))
    study = Study(RunFolder(tmp_path), Clock(1), [], ["a", "b"], np.arange(100) % 2, texts, embeddings)
    brief, half = (c for c in CANDIDATES if c.name in ("setfit_brief", "ce_half"))
    study.entries = {c.name: Entry(c.name, c.title, [], c.cost) for c in (brief, half)}
    outcome: Any = SimpleNamespace(seconds_fit=12.0, logits=[0], run_id="")
    study.keep(brief.name, 0, 0, outcome)
    begun = []
    monkeypatch.setattr(trained, "read_run", lambda study, candidate, *rest: begun.append(candidate.name) or True)
    assert not trained._train_fold(study, half, 0, [brief]) and not begun
    assert trained._train_fold(study, half, 0, []) and begun == ["ce_half"]


def _kept(again, study, candidate, fold, more=()):
    outcome = again.known(candidate.name, 0, fold)
    if outcome is None:
        raise time_limit.OutOfTime(100.0, 1.0)
    again.keep(candidate.name, 0, fold, outcome)
    return True


@pytest.mark.parametrize(
    ("rows", "seconds", "folds"), [(6000, 60, 1), (6000, 80, 2), (6000, 100, 3), (300, 80, 0), (300, 95, 3)]
)
def test_a_candidate_counts_by_as_many_folds_as_fit_if_they_are_enough(tmp_path, monkeypatch, rows, seconds, folds):
    """A fold takes 20 s, the fit on all rows 30 s where there are three folds, 25 s where there are five. That time is
    left when the folds are through."""
    now = [0.0]
    labels, texts = np.arange(rows) % 2, list(map(str, range(rows)))
    embeddings = embeddings_of(rows, 1e-3)
    clock = Clock(seconds / 60, now=lambda: now[0])
    study = Study(RunFolder(tmp_path), clock, [], ["a", "b"], labels, texts, embeddings)
    candidates = [c for c in CANDIDATES if c.name in ("ce_half", "ce")]
    study.enter(candidates)
    size = rows // study.folds

    def read(study, candidate, fold, more=()):
        if candidate.name == "ce":
            raise time_limit.OutOfTime(100.0, 20.0)
        now[0] += 20
        held_out = np.arange(size * fold, size * (fold + 1))
        study.save(candidate.name, 0, fold, FoldOutcome(held_out, np.eye(2)[labels[held_out]], 0.9, 20.0, 1.0))
        return True

    monkeypatch.setattr(trained, "read_run", read)
    trained.try_trained(study, candidates)
    entry = study.entries["ce_half"]
    assert study.entries["ce"].status == "skipped"
    if not folds:
        assert entry.status == "skipped" and "other folds do not fit" in entry.reason
        return
    assert entry.status == "finished" and entry.macro_f1 == 1 and clock.left_with_fit >= 25
    which = f"{folds} of {study.folds} folds, {size * folds:,} of {rows:,} rows: no time for the others"
    assert entry.reason == (which if folds < study.folds else None)
    again = Study(RunFolder(tmp_path), clock, [], ["a", "b"], labels, texts, embeddings)
    again.enter(candidates)
    monkeypatch.setattr(trained, "read_run", partial(_kept, again))
    trained.try_trained(again, candidates)  # no time for more: what was there counts as before
    assert again.entries["ce_half"].reason == entry.reason and again.entries["ce_half"].macro_f1 == 1
