"""The recommended candidate, fitted on all rows in the time that is left, or another in its place."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from callbacks import time_limit
from reporting.auto.report import write_report
from storage.run_store import RunFolder
from tasks.auto import answer
from tasks.auto.comparison.clock import Clock
from tasks.auto.comparison.durations import foretold_training
from tasks.auto.comparison.study import Entry, Study
from tasks.auto.model import last_fit
from tasks.auto.model.last_fit import longer_steps, words_of_all_rows
from tests.reporting.auto.folders import CANDIDATES as TOLD
from tests.reporting.auto.folders import write_folder
from tests.tasks.auto.studies import embeddings_of


@pytest.mark.parametrize(
    ("candidate", "seconds", "epochs"),
    [
        *[("setfit_brief", left, epochs) for left, epochs in ((30, 26), (25, 21), (20, 16), (15, 11), (12, 8), (9, 1))],
        *[("setfit_half", left, epochs) for left, epochs in ((30, 26), (25, 21), (20, 16), (12, 16))],  # folds had 48
        ("setfit_pairs", 90, 30),
    ],
)
def test_all_rows_take_more_steps_of_pairs_where_there_is_time(tmp_path, candidate, seconds, epochs):
    """Of 100 rows in batches of 32, 80, 64, 48, 32 and 24 steps are to take at most 29, 25, 19, 14 and 11 s."""
    embeddings: Any = embeddings_of(100, 1e-2)
    labels, texts, clock = np.arange(100) % 2, list(map(str, range(100))), Clock(seconds / 60, now=lambda: 0.0)
    clock.report = 0.0
    study = Study(RunFolder(tmp_path), clock, [], ["a", "b"], labels, texts, embeddings)
    study.pair_steps = 48
    own = study.by_name[candidate]
    outcome: Any = SimpleNamespace(seconds_fit=foretold_training(study, own, 0))
    study.keep(candidate, 0, 0, outcome)
    steps = longer_steps(study, own)
    words, sharpness = words_of_all_rows(study, own, steps)
    assert f"trainer.max_epochs={epochs}" in words and (sharpness > 1) == (steps is not None)


@pytest.mark.parametrize("may_give_way", [False, True])
def test_steps_on_all_rows_that_take_longer_than_told_give_way_to_fewer(tmp_path, monkeypatch, capsys, may_give_way):
    """A machine that becomes slower overruns no minutes: at the least it takes the steps of the folds, unlimited where
    no other candidate can take its place."""
    embeddings: Any = embeddings_of(100, 1e-2)
    labels, texts, now = np.arange(100) % 2, list(map(str, range(100))), [0.0]
    study = Study(RunFolder(tmp_path), Clock(1, now=lambda: now[0]), [], ["a", "b"], labels, texts, embeddings)
    own = study.by_name["setfit_brief"]
    study.entries[own.name] = Entry(own.name, own.title, [], own.cost, learns_for_longer=True)
    study.keep(own.name, 0, 0, cast(Any, SimpleNamespace(seconds_fit=foretold_training(study, own, 0))))
    tried = []

    def plan_of(words):
        tried.append([word.split("=")[1] for word in words if word.startswith(("trainer.max_epochs", "+callbacks"))])
        return SimpleNamespace(datamodule=lambda corpus: None, corpus=lambda: None)

    def learned(*_):
        if len(tried) == 3 and not may_give_way:
            return "model"
        now[0] += 30 if len(tried) == 1 else 20
        raise time_limit.OutOfTime(100.0, 20.0)

    monkeypatch.setattr(last_fit, "plan_of", plan_of)
    monkeypatch.setattr(last_fit, "learned", learned)
    limit = "callbacks.time_limit.TimeLimit"
    if may_give_way:
        with pytest.raises(last_fit.NotFitted, match="^that would take about 2 min, 5 s were left$"):
            last_fit._learned_in_time(study, own, may_give_way)
    else:
        assert last_fit._learned_in_time(study, own)[1:] == ("model", 1.0)
    assert tried == [["26", limit, "52.80"], ["21", limit, "22.80"], ["1", *([limit, "7.00"] if may_give_way else [])]]
    assert capsys.readouterr().out.count("fewer") == 2 and not study.entries[own.name].learns_for_longer


def test_what_cannot_be_fitted_to_all_rows_gives_way_to_what_trains_no_encoder(tmp_path, monkeypatch):
    names = {"majority": 0.0, "logistic": 2.4, "ce": 9.0}
    entries = [(name, title, cost, names[name], *more) for name, title, cost, _, *more in TOLD if name in names]
    folder, fitted = RunFolder(write_folder(tmp_path / "auto-late", candidates=entries)), []
    folder.write_json("candidates.json", folder.read_json("candidates.json")[:-1])
    study = Study(folder, Clock(1), [], list("abcd"), np.arange(300) % 4, ["a"] * 300, None)
    study.recall(1)
    assert write_report(folder.path)["recommended"] == "ce"

    def fit(study, candidate, more, may_give_way):
        fitted.append((candidate.name, may_give_way))
        if candidate.name == "ce":
            raise last_fit.NotFitted("that would take about 9 min, 40 s were left")

    monkeypatch.setattr(answer, "fit_on_all_rows", fit)
    answer._fit_recommended(study, lambda candidate: study, is_fitted=False)
    metrics, page = folder.read_metrics(), (folder.path / "index.html").read_text()
    assert fitted == [("ce", True), ("logistic", True)]
    assert (metrics["recommended"], metrics["not_fitted"]) == ("logistic", "ce")
    assert "fine-tuned with cross-entropy, which would have been recommended, could not be" in metrics["sentence"]
    assert "that would take about 9 min, 40 s were left; the best that trains no encoder stands in its place" in page
    again = Study(folder, study.clock, [], list("abcd"), study.labels, study.texts, None)
    again.recall(1)  # stopped before `model/` was there
    assert not again.entries["ce"].can_be_recommended and again.entries["logistic"].can_be_recommended
    answer._try_again(again)  # with other wishes
    metrics = write_report(folder.path)
    assert (metrics["recommended"], metrics["not_fitted"]) == ("ce", None)
    assert "not be fitted" not in metrics["sentence"] and not again.entries["majority"].can_be_recommended
