"""Successive halving: who goes on, on which seeds, and that a stopped search goes on with the same decisions."""

import json
import shlex
from types import SimpleNamespace

import numpy as np
import pytest
from omegaconf import OmegaConf

from engine.environment import write_environment
from engine.identity import run_id
from reporting.tables import SweepJob
from storage.run_store import RunFolder, list_runs
from tasks.search import halving as module
from tasks.search.halving import ConfigError, Halving, halve
from tests.command_lines import command

SPACE = {"optimizer.lr": {"low": 1e-5, "high": 1e-3, "log": True}, "trainer.max_epochs": {"choices": [3, 6]}}


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "unread", lambda plain: {"trainer.max_epochs": "why"} if plain["seed"] else {})
    monkeypatch.setattr(module, "try_ends", lambda *_: None)  # the config below is no run's
    config = OmegaConf.create(
        {"paths": {"runs": str(tmp_path)}, "method": {"name": "m"}, "dataset": {"name": "d"}, "seed": 0,
         "optimizer": {"lr": 1e-4}, "trainer": {"max_epochs": 6}}
    )  # fmt: skip
    plain = {**OmegaConf.to_container(config), "protocol": {"name": "clean"}}
    return SimpleNamespace(config=config, plain=plain, inputs=dict)


class Trained:
    """In place of processes: one epoch after another, better the nearer the rate is to 3e-4; counts them."""

    def __init__(self, config, stops_after=10**9, commit="a1", changed=False):
        self.config, self.epochs, self.stops_after = config, {}, stops_after
        self.code = {"commit": commit, "changed": changed}

    def __call__(self, base, jobs, folder, n_jobs, should_stop, shown, warm):
        return [SweepJob({}, self.train(number, words, should_stop)) for number, words in enumerate(jobs)]

    def train(self, number, words, should_stop):
        config = OmegaConf.merge(self.config, OmegaConf.from_dotlist(list(words)))
        assert config.protocol.read_test is False
        run = RunFolder(self.config.paths.runs + "/" + run_id(OmegaConf.to_container(config)))
        history = run.read_csv("history.csv") if run.path.exists() else []
        rows = [(int(row["epoch"]), row["val/macro_f1"]) for row in history]
        key = (config.optimizer.lr, config.trainer.max_epochs, config.seed)
        for epoch in range(len(rows), config.trainer.max_epochs):
            if sum(self.epochs.values()) >= self.stops_after:
                return "interrupted"
            self.epochs[key] = self.epochs.get(key, 0) + 1
            rows.append((epoch, 1 / (1 + 1e4 * abs(config.optimizer.lr - 3e-4)) + epoch / 1000))
            run.write_csv("history.csv", rows, ("epoch", "val/macro_f1"))
            run.write_metrics(status="running")
            write_environment(run, self.code, goes_on=bool(history))
            if should_stop(number):
                run.write_metrics(status="interrupted")
                return "interrupted"
        run.write_metrics(status="finished")
        return "finished"


def searched(plan, monkeypatch, jobs, **options):
    monkeypatch.setattr(module, "run_jobs", jobs)
    folder = halve(plan, ["method=m", "dataset.train='a (b).csv'"], Halving(SPACE, trials=8, finalists=2, **options))
    return json.loads((folder / "search.json").read_text())


def test_half_go_on_and_the_finalists_train_to_their_end_on_two_more_seeds(plan, monkeypatch):
    jobs = Trained(plan.config)
    record = searched(plan, monkeypatch, jobs)
    shares = [row["share"] for row in record["trials"]]
    assert sorted(shares) == [0.34] * 4 + [0.67] * 2 + [1.0] * 2
    assert record["trials"][0]["settings"] == {"optimizer.lr": 1e-4, "trainer.max_epochs": 6}, "the method as it stands"
    finalists = [row for row in record["trials"] if row["share"] == 1]
    assert {seed for *_, seed in jobs.epochs} == {100, 101, 102}
    assert sum(seed > 100 for *_, seed in jobs.epochs) == 4 and all(row["mean"] for row in finalists)
    best = max(finalists, key=lambda row: row["mean"])
    assert record["settings"] == best["settings"] and record["seeds"] == [100, 101, 102]
    first = sum(epochs for (*_, seed), epochs in jobs.epochs.items() if seed == 100)
    whole = sum(row["settings"]["trainer.max_epochs"] for row in record["trials"])
    assert first < whole, "cheaper than training all to their end"


def test_a_finalist_that_fails_does_not_win(plan, monkeypatch):
    class Failing(Trained):
        def train(self, number, words, should_stop):
            outcome = super().train(number, words, should_stop)
            config = OmegaConf.merge(self.config, OmegaConf.from_dotlist(list(words)))
            if config.optimizer.lr == best["optimizer.lr"] and outcome == "finished":
                run = RunFolder(self.config.paths.runs + "/" + run_id(OmegaConf.to_container(config)))
                run.write_metrics(status="failed")
                return "failed"
            return outcome

    best = searched(plan, monkeypatch, Trained(plan.config))["settings"]
    plan.config.paths.runs += "/again"
    record = searched(plan, monkeypatch, Failing(plan.config))
    assert record["settings"]["optimizer.lr"] != best["optimizer.lr"]
    plan.config.trainer.least_steps = 600
    with pytest.raises(ConfigError, match="trainer.least_steps: found 600, allowed with search=halving: 0"):
        searched(plan, monkeypatch, Failing(plan.config))


def test_the_best_line_is_ready_to_paste(plan, monkeypatch, capsys):
    monkeypatch.setattr(module, "COMMAND", "kontrast run")  # as where it is installed
    record = searched(plan, monkeypatch, Trained(plan.config))
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("best: "))
    settings = [f"{key}={value}" for key, value in record["settings"].items()]
    assert shlex.split(line)[1:] == ["kontrast", "run", "method=m", "dataset.train='a (b).csv'", *settings]


@pytest.mark.parametrize("epochs", [1, 10, 25])
def test_a_stopped_search_goes_on_and_ends_the_same(plan, monkeypatch, tmp_path, epochs):
    whole = searched(plan, monkeypatch, Trained(plan.config))
    plan.config.paths.runs = str(tmp_path / "again")
    with pytest.raises(KeyboardInterrupt):
        searched(plan, monkeypatch, Trained(plan.config, stops_after=epochs))
    jobs = Trained(plan.config)
    assert searched(plan, monkeypatch, jobs) == whole
    assert searched(plan, monkeypatch, Trained(plan.config, stops_after=0)) == whole, "nothing is left to train"


def test_a_search_says_the_commits_of_its_runs(plan, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        searched(plan, monkeypatch, Trained(plan.config, stops_after=10))
    record = searched(plan, monkeypatch, Trained(plan.config, commit="b2"))
    assert (record["commits"], record["changed"], record["finalists"]) == (["a1", "b2"], False, 2)
    again = searched(plan, monkeypatch, Trained(plan.config, stops_after=0, commit="c3"))
    assert again["commits"] == ["a1", "b2"], "nothing was trained on the third"
    plan.config.paths.runs += "/without_checkout"
    assert searched(plan, monkeypatch, Trained(plan.config, commit=None, changed=None))["changed"], "nothing is known"


def test_a_trial_that_was_refused_before_it_trained_says_nothing_of_the_code(tmp_path):
    trained, refused = (RunFolder(tmp_path / name) for name in ("trained", "refused"))
    write_environment(trained, {"commit": "a1", "changed": False}, goes_on=False)
    refused.path.mkdir()
    trials = [SimpleNamespace(run=run) for run in (trained, refused)]
    assert module._code(trials) == {"commits": ["a1"], "changed": False}


def test_what_won_is_frozen_with_its_record_and_no_other_file_is_written_over(plan, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "CONF", tmp_path / "conf")
    (tmp_path / "conf/method_dataset").mkdir(parents=True)
    record = searched(plan, monkeypatch, Trained(plan.config), freeze=True)
    file = tmp_path / "conf/method_dataset/m_d.yaml"
    assert file.read_text().startswith("# @package _global_\n")
    frozen = OmegaConf.load(file)
    assert all(OmegaConf.select(frozen, key) == value for key, value in record["settings"].items())
    assert json.loads(file.with_suffix(".search.json").read_text()) == record
    file.with_suffix(".search.json").unlink()
    with pytest.raises(ConfigError, match="there already, and not by a search"):
        searched(plan, monkeypatch, Trained(plan.config), freeze=True)


def test_what_is_unequal_is_refused(plan):
    own = {f"method.{name}": {"choices": [1]} for name in "abc"}
    with pytest.raises(ConfigError, match="search.own: found 3 keys; allowed: 2 at the most"):
        Halving(SPACE, own)
    with pytest.raises(ConfigError, match="search.shares: found"):
        Halving(SPACE, shares=(0.5, 0.9))
    for range_ in ({"low": 0, "high": 1.0, "log": True}, {"choices": 3}, {"low": 5, "high": 1}):
        with pytest.raises(ConfigError, match=r"^search.space.loss.tau: found .*; allowed: {low, high, log} with low"):
            Halving({"loss.tau": range_})
    with pytest.raises(ConfigError, match="seed: search=halving tunes on seeds of its own"):
        halve(plan, ["seed=3"], Halving(SPACE))
    with pytest.raises(ConfigError, match="search.space.loss.tau: method=m has no such key"):
        halve(plan, [], Halving({"loss.tau": {"choices": [1]}}))
    plan.config.method.scale = None
    module.check_key(plan.config, "method.scale")  # a key whose default is null is there
    with pytest.raises(ConfigError, match="search.space.method.tau: method=m has no such key"):
        module.check_key(plan.config, "method.tau")
    plan.plain["seed"] = 1
    with pytest.raises(ConfigError, match="search.space.trainer.max_epochs: has no effect; why; allowed: another"):
        halve(plan, [], Halving({"trainer.max_epochs": {"choices": [3]}}))


@pytest.mark.slow
def test_a_search_with_the_tiny_encoder(files, store, small, tmp_path):
    words = [word for word in small if not word.startswith(("optimizer.lr", "trainer.max_epochs", "seed"))]
    space = "search.space={optimizer.lr:{low:1e-4,high:1e-2,log:true},trainer.max_epochs:{choices:[3]}}"
    line = [*files, *store, *words, "method=ce", "search=halving", "search.trials=2", "search.finalists=1", space]
    line.append("search.shares=[0.34,1.0]")
    record = json.loads((command(line).folder / "search.json").read_text())
    runs = {run.id: run for run in list_runs(tmp_path / "runs")}
    finished = [run for run in runs.values() if run.status == "finished"]
    assert len(runs) == 4 and len(finished) >= 3, "one finalist on three seeds; the other is asked to stop"
    assert sorted(row["share"] for row in record["trials"]) == [0.34, 1.0]
    assert {row["run"] for row in record["trials"]} <= runs.keys()
    assert {run.read_config()["seed"] for run in finished} == {100, 101, 102}
    for run in finished:
        assert not any(key.startswith("test/") for key in run.read_metrics()), "a search never reads test"
        assert {row["split"] for row in run.read_csv("predictions.csv")} == {"val"}
        assert "test" not in run.read_json("kept_indices.json")


def test_settings_are_drawn_as_their_range_says_and_typed_as_they_are_read():
    rng = np.random.default_rng(0)
    drawn = [module._value({"low": 1, "high": 1000, "log": True}, rng) for _ in range(400)]
    assert all(isinstance(value, int) for value in drawn) and 20 < np.median(drawn) < 50
    typed = {"a": None, "b": True, "c": "x, y", "d": 1e-5}
    assert module.words(typed) == ["a=null", "b=true", "c='x, y'", "d=1e-05"]
