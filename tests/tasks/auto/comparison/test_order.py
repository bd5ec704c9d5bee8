"""Which candidates the minutes go to, and how many folds."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from callbacks import time_limit
from storage.run_store import RunFolder
from tasks.auto.candidates.declarations import CANDIDATES, chosen
from tasks.auto.candidates.folds import FoldOutcome
from tasks.auto.comparison import order, trained, untrained
from tasks.auto.comparison.clock import Clock
from tasks.auto.comparison.study import Study
from tasks.auto.reading.rows import regimes_of
from tests.tasks.auto.studies import embeddings_of


@pytest.mark.parametrize(
    ("minutes", "largest", "unlabelled", "folds"),
    [(1.8, 50, [], 3), (2.5, 50, [], 5), (1.8, 80, [], 3), (1.8, 50, ["dataset.unlabelled=a"], 5)],
)
def test_fewer_folds_leave_time_to_learn_for_longer_where_that_is_known_to_gain(
    tmp_path, minutes, largest, unlabelled, folds
):
    """Three folds of `setfit_brief` and 80 steps on all rows are told to take 54 s, five folds 75 s."""
    embeddings = embeddings_of(100, 1e-2)
    labels, texts, clock = (np.arange(100) >= largest).astype(int), [str(n) for n in range(100)], Clock(minutes)
    study = Study(RunFolder(tmp_path), clock, [], ["a", "b"], labels, texts, embeddings, unlabelled)
    order.fit_folds(study, chosen(regimes_of(study.class_counts, 100), None))
    assert study.folds == folds


@pytest.mark.parametrize(
    ("seconds", "too_long", "folds", "status"), [(100, 9, 3, "finished"), (55, 9, 5, "skipped"), (55, 1, 5, "finished")]
)
def test_where_five_folds_cannot_be_trained_three_are_or_the_same_once_more(
    tmp_path, monkeypatch, seconds, too_long, folds, status
):
    """A fold takes 16 s as the fit on all rows does, and so do five folds of the other candidate; so many runs of five
    folds are told to take too long."""
    labels, texts = np.arange(100) % 2, list(map(str, range(100)))
    embeddings = embeddings_of(100, 1e-6)
    clock, tried = Clock(seconds / 60, now=lambda: 0.0), []
    study = Study(RunFolder(tmp_path), clock, [], ["a", "b"], labels, texts, embeddings)

    def solve(study, candidate, later=()):
        for fold in range(study.folds):
            rows = np.flatnonzero(np.arange(100) % study.folds == fold)
            outcome = FoldOutcome(rows, np.eye(2)[labels[rows]], 0.9, 16 / study.folds, 1.0)
            study.save(candidate.name, 0, fold, outcome)
        study.finish(candidate)

    def read(study, candidate, fold, more=()):
        tried.append((study.folds, fold))
        if study.folds == 5 and len(tried) <= too_long:
            raise time_limit.OutOfTime(11.0, 9.0)  # besides its start
        solve(study, candidate)
        return True

    monkeypatch.setattr(trained, "read_run", read)
    monkeypatch.setattr(order, "try_untrained", solve)
    for name in ("learning_curve", "repeat_folds"):
        monkeypatch.setattr(order, name, lambda *_: None)
    order.compare(study, [c for c in CANDIDATES if c.name in ("majority", "setfit_brief")])
    assert study.folds == folds and tried[:2] == [(5, 0), (folds, 0)]
    assert study.entries["setfit_brief"].status == status
    assert {file.stem for file in (tmp_path / "folds").glob("majority*")} == {f"majority-0-{n}" for n in range(folds)}


@pytest.mark.parametrize(("seconds", "finished"), [(45, ["linear_words"]), (80, ["logistic", "linear_words"])])
def test_a_part_of_a_sum_waits_where_there_is_time_for_one_of_them(tmp_path, monkeypatch, seconds, finished):
    """A fold of the part takes 4 s, of the sum 4.5: ten and a last fit do not fit into 45 s, one and five and it do."""
    labels, texts, spent = np.arange(100) % 2, list(map(str, range(100))), [0.0]
    parts = {"rows": np.ones((100, 384)), "counts": np.ones((100, 2)), "unlabelled": [], "names": None}
    embeddings: Any = SimpleNamespace(seconds_per_text=1e-6, size_mib=1.0, encoder="minilm", blocks=6, **parts)
    clock = Clock(seconds / 60, now=lambda: spent[0])
    study = Study(RunFolder(tmp_path), clock, [], ["a", "b"], labels, texts, embeddings)

    def solve(study, candidate, path, test):
        spent[0] += (cost := 4.5 if candidate.reads_words else 4.0)
        return FoldOutcome(test, np.eye(2)[labels[test]], 0.9, cost, 1.0)

    monkeypatch.setattr(untrained, "_cheap_outcome", solve)
    for name in ("learning_curve", "repeat_folds"):
        monkeypatch.setattr(order, name, lambda *_: None)
    candidates = [c for c in CANDIDATES if c.name in ("logistic", "linear_words")]
    order.compare(study, candidates)
    assert [c.name for c in candidates if study.is_finished(c)] == finished
    assert study.known("logistic", 0, 0) is not None and clock.left_with_fit >= 0
