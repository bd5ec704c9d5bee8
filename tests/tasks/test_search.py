"""A search by Optuna: trials are runs, judged on validation, pruned early, and go on where they were stopped."""

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import optuna
import pytest
from omegaconf import OmegaConf

import tasks
from engine.overrides import without_group
from reporting.tables import SweepJob
from storage.errors import ReportError
from storage.run_store import RunFolder, list_runs
from tasks import search as module
from tasks.search import Search, ended_trials, open_study
from tests.command_lines import RUN_PY, command

SPACE = {"loss.tau": {"low": 0.1, "high": 1.0}, "method.K": {"choices": [5, 10]}}


def trials_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "trials.csv").open() as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def line(store, small, files):
    return [*files, *store, *small, "method=sharprecl", "search=optuna", "search.startup_trials=2"]


@pytest.mark.slow
def test_a_search_runs_its_trials_goes_on_and_never_reads_test(line, tmp_path):
    first = command([*line, "search.trials=2"])
    folder = first.folder
    assert folder.parent == tmp_path / "runs/searches"
    runs = list_runs(tmp_path / "runs")
    assert len(runs) == 2 and all(run.status == "finished" for run in runs)
    trials = trials_of(folder)
    assert [row["state"] for row in trials] == ["complete"] * 2
    best = {row["run or error"]: float(row["val/macro_f1"]) for row in trials}
    for run in runs:
        best_value = max(float(row["val/macro_f1"]) for row in run.read_csv("history.csv"))
        assert best[run.id] == pytest.approx(100 * best_value, abs=0.005)
    for run in runs:
        assert not any(key.startswith("test/") for key in run.read_metrics())
        assert {row["split"] for row in run.read_csv("predictions.csv")} == {"val"}

    more = command([*line, "search.trials=3"])
    assert more.folder == folder and len(trials_of(folder)) == 3 and len(list_runs(tmp_path / "runs")) == 3
    assert (folder / "trials.svg").stat().st_size > 1000
    again = command([*line, "search.trials=3"])
    assert again.code == 0 and "sweep:" not in again.out, "finished trials are not repeated"
    words = shlex.split((folder / "best.txt").read_text())[2:]
    best = RunFolder(command(words).folder)
    reached = max(float(row["val/macro_f1"]) for row in best.read_csv("history.csv"))
    assert "search=optuna" not in words and "test/macro_f1" in best.read_metrics(), "the line it ends with reads test"
    assert 100 * reached == pytest.approx(max(float(row["val/macro_f1"]) for row in trials_of(folder)), abs=0.005)


@pytest.mark.slow
def test_what_cannot_be_searched_is_refused(line):
    assert "protocol: found published; allowed with search: clean, few_shot, kfold" in command(
        [*line, "protocol=published"]
    ).error
    assert "a search never reads test" in command([*line, "protocol.read_test=true"]).error
    assert command([*line, "active=random"]).error.startswith("active: found random, whose curve is drawn by test rows")
    assert "search.space.loss.tau: method=ce has no such key" in command([*line, "method=ce"]).error
    assert "search.metric: found 'test/accuracy'" in command([*line, "search.metric=test/accuracy"]).error
    assert "task=describe does not train" in command([*line, "task=describe"]).error
    assert "method: found bce, which takes any number of labels a text" in command([*line, "method=bce"]).error
    frozen = [word for word in line if not word.startswith(("search", "optimizer.lr"))]
    frozen += ["encoder.train=frozen", "trainer.max_epochs=3", "search=halving"]
    assert "search.space.optimizer.lr: has no effect; allowed with encoder.train" in command(frozen).error
    space = ["~search.space", "+search.space={method.dropout:{low:0,high:5}}"]
    assert "method.dropout: found 5" in command([*line, "method=ce", *space]).error
    idle = ["~search.space", "+search.space={method.mu:{choices:[0,0.5]},loss.tau:{low:0.1,high:1}}"]
    said = "search.space.method.mu: found 0 beside loss.tau: has no effect; allowed with method.mu>0"
    assert said in command([*line, *idle]).error
    idle = ["~search.space", "+search.space={method.num_views:{low:1,high:3}}", "method=ce", "method.num_views=2"]
    said = "search.space.method.num_views: found 1 beside augment.rate: has no effect; allowed with method.num_views>1"
    assert said in command([*line, *idle, "augment.rate=0.2"]).error, "ends of whole numbers are drawn"
    bad = [{"low": 1}, {"low": 2, "high": 1}, {"low": 0, "high": 1, "log": True}, {"choices": []}, {"low": "a"}]
    for range_ in bad:
        with pytest.raises(ValueError, match="search.space.x: found {"):
            Search({"x": range_})


@pytest.mark.slow
def test_without_optuna_halving_works_and_a_line_says_what_to_install(line, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.setattr(tasks, "search", module)
    monkeypatch.delitem(sys.modules, "tasks.search")  # to be imported anew
    assert command(line).error == "optuna is not installed, which this needs; pip install '.[sweep]'"
    halving = [word for word in line if not word.startswith("search")]
    few_shot = command([*halving, "search=halving", "protocol=few_shot"]).error
    assert few_shot == "protocol: found few_shot; allowed with search=halving: clean"


class Jobs:
    """In place of processes: writes the histories that a run would, epoch by epoch, and stops where it is told to."""

    def __init__(self, histories):
        self.histories, self.started, self.running = iter(histories), [], {}

    def __call__(self, arguments, jobs, folder, n_jobs, first, should_stop, shown):
        assert shown.startswith("val/")
        return [self._job(words, first + place, should_stop) for place, words in enumerate(jobs)]

    def _job(self, words, number, should_stop):
        self.started.append(words)
        run, history = self.running[number], next(self.histories)
        if history == "broken":
            return SweepJob({}, "failed", error="it broke")
        if history == "stopped":
            return SweepJob({}, "interrupted")
        for epoch in range(len(history)):
            run.write_metrics(status="running")
            rows = list(enumerate(history[: epoch + 1]))
            run.write_csv("history.csv", rows, ("epoch", "val/macro_f1"))
            os.utime(run.path / "history.csv", (epoch + 1, epoch + 1))
            with run.lock():
                if should_stop(number):
                    run.write_metrics(status="interrupted")
                    return SweepJob({}, "interrupted")
        run.write_metrics(status="finished")
        return SweepJob({}, "finished", run)


@pytest.fixture
def searching(tmp_path, monkeypatch):
    """`searching(histories)` does the trials with the histories given; returns the study and what was started."""
    config = OmegaConf.create({"paths": {"runs": str(tmp_path)}, "loss": {"tau": 1.0}, "method": {"K": 1, "name": "m"}})
    config.dataset = {"name": "d"}
    plain = OmegaConf.to_container(config)
    calls = {"inputs": lambda *_: {}, "corpus": lambda: None, "datamodule": lambda _: None}
    plan = SimpleNamespace(plain={**plain, "protocol": {"name": "clean"}}, trains=True, **calls)
    monkeypatch.setattr(module, "is_solved", lambda plain: False)
    monkeypatch.setattr(module, "try_ends", lambda *_: None)  # the config is no run's
    monkeypatch.setattr(module.Plan, "make", lambda *_: plan)

    def call(histories, **options):
        jobs = Jobs(histories)
        config.search = {"_target_": "tasks.search.Search", "space": SPACE, "startup_trials": 1, **options}
        real = module.RunningTrial.__init__

        def remember(self, trial, *rest):
            real(self, trial, *rest)
            jobs.running[trial.number] = self.run

        monkeypatch.setattr(module.RunningTrial, "__init__", remember)
        monkeypatch.setattr(module, "run_jobs", jobs)
        try:
            folder = module.search(config, ["method=m", "dataset.train='a (b).csv'", "search=optuna"])
        finally:
            monkeypatch.setattr(module.RunningTrial, "__init__", real)
        return folder, jobs.started

    return call


def test_a_hopeless_trial_is_pruned_after_its_warm_up_and_counts(searching):
    folder, started = searching([[0.5, 0.6, 0.7], [0.4, 0.1, 0.2], [0.5, 0.65, 0.8]], trials=3)
    rows = {row["trial"]: row for row in trials_of(folder)}
    assert [rows[number]["state"] for number in "012"] == ["complete", "pruned", "complete"]
    assert rows["1"]["epochs"] == "2", "not pruned in its first epoch"
    assert [row["trial"] for row in trials_of(folder)][0] == "2" and rows["2"]["val/macro_f1"] == "80.00"
    assert len(started) == 3 and all(re.match(r"loss.tau=0\.\d{1,5}$|loss.tau=1.0$", words[0]) for words in started)


def test_a_failure_leaves_the_rest_alone(searching):
    folder, _ = searching(["broken", [0.5], [0.6]], trials=3)
    rows = trials_of(folder)
    assert [row["state"] for row in rows] == ["complete", "complete", "fail"] and rows[2]["run or error"] == "it broke"


def test_another_seed_of_the_draws_is_another_search_and_one_under_way_is_left_alone(searching):
    folder, _ = searching([[0.5]], trials=1)
    other, started = searching([[0.6]], trials=1, sampler_seed=1)
    assert other != folder and len(started) == 1
    with RunFolder(folder).lock(), pytest.raises(ReportError, match="another process is working on it"):
        searching([[0.7]], trials=2)


def test_the_best_line_is_ready_to_paste(searching, monkeypatch):
    monkeypatch.setattr(module, "COMMAND", "kontrast run")  # as where it is installed
    folder, _ = searching([[0.5]], trials=1)
    words = shlex.split((folder / "best.txt").read_text())
    assert words[:4] == ["kontrast", "run", "method=m", "dataset.train='a (b).csv'"] and len(words) == 6


def test_a_stopped_trial_is_done_again_with_the_same_settings(searching, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        searching([[0.5], "stopped"], trials=3)
    folder, started = searching([[0.6], [0.7]], trials=3)
    (study_folder,) = (tmp_path / "searches").iterdir()
    study = open_study(study_folder, Search(SPACE))
    stopped = [trial for trial in study.trials if trial.user_attrs.get("interrupted")]
    assert len(stopped) == 1 and len(ended_trials(study)) == 3 and len(started) == 2
    assert float(started[0][0].split("=")[1]) == pytest.approx(stopped[0].params["loss.tau"], rel=1e-3)
    assert started[0][1] == f"method.K={stopped[0].params['method.K']}"


@pytest.mark.slow
def test_several_at_a_time(searching):
    folder, started = searching([[0.5], [0.6], [0.7]], trials=3, n_jobs=2)
    assert len(started) == 3 and len(trials_of(folder)) == 3


def test_draws_depend_on_the_sampler_seed_alone(tmp_path):
    def drawn(name, seed):
        study = open_study(tmp_path / name, Search(SPACE, sampler_seed=seed))
        return Search(SPACE).draw(study.ask())

    assert drawn("a", 1) == drawn("b", 1) != drawn("c", 2)


def test_a_whole_number_is_drawn_between_whole_numbers():
    value = Search({"k": {"low": 1, "high": 3}}).draw(optuna.create_study().ask())["k"]
    assert isinstance(value, int) and 1 <= value <= 3


@pytest.mark.slow
def test_stopped_from_outside_it_goes_on(line, tmp_path):
    words = [sys.executable, str(RUN_PY), *line, "search.trials=2", "trainer.max_epochs=400"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    while not list(tmp_path.glob("runs/*/history.csv")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=40)
    assert process.returncode == 130
    (run,) = [RunFolder(file.parent) for file in tmp_path.glob("runs/*/metrics.json")]
    assert json.loads((run.path / "metrics.json").read_text())["status"] == "interrupted"
    (folder,) = tmp_path.glob("runs/searches/*")
    study = open_study(folder, Search(SPACE))
    assert [trial.state.name for trial in study.trials] == ["FAIL", "WAITING"]


def test_words_of_a_group_are_left_out_however_they_are_said():
    words = ["search=lr", "~search.space", "+search.space={a:{low:1,high:2}}", "searched=1", "method.search=2"]
    assert without_group(words, "search") == ["searched=1", "method.search=2"]
