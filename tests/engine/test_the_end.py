"""What comes last in a run: a kill there loses nothing, and a fault says what it was."""

import json
import signal
import subprocess
from functools import partial

import pytest

from engine import environment
from engine.environment import write_environment
from storage.records import is_of_changed_code
from storage.run_store import RunFolder
from tests.own_process import die_at_call, status

FIT = ["method=ce", "trainer.max_epochs=1"]
CLUSTER = ["task=cluster", "method=sccl", "augment=dropout", "trainer.max_epochs=1"]
ACTIVE = [*FIT, "active=random", "active.query_size=4", "active.budget=4"]
LAST = "storage.run_store:RunFolder.drop_last_checkpoint"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "place"),
    [
        (FIT, (LAST, 1)),
        (FIT, ("tasks.fit:log_outcome", 1)),
        (CLUSTER, (LAST, 1)),
        (CLUSTER, ("tasks.fit:log_outcome", 1)),
        (ACTIVE, ("tasks.active.rounds:_log", 1)),
    ],
    ids=["fit", "fit-upload", "cluster", "cluster-upload", "active-upload"],
)
def test_a_run_killed_behind_its_last_figure_is_finished(start, tmp_path, line, place):
    process = start(*line, dies=partial(die_at_call, *place))
    process.join()
    assert process.exitcode == -signal.SIGKILL, (tmp_path / "output.err").read_text()
    before = {file: file.read_bytes() for file in tmp_path.glob("runs/*/metrics.json")}
    assert before and {status(file.parent) for file in before} == {"finished"}

    again = start(*line)
    again.join()
    output = (tmp_path / "output.out").read_text()
    assert again.exitcode == 0 and "finished already" in output and "epoch 1" not in output
    assert {file: file.read_bytes() for file in before} == before
    assert not list(tmp_path.glob("runs/*/checkpoints/last.ckpt"))


@pytest.mark.parametrize("error", [RuntimeError(), RuntimeError("\n\nthe third line")], ids=["empty", "blank lines"])
def test_a_failed_run_says_why(fit, monkeypatch, tmp_path, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("tasks.fit.measure", fail)
    assert fit(*FIT).code == 1
    (file,) = tmp_path.glob("runs/*/metrics.json")
    metrics = json.loads(file.read_text())
    assert metrics["status"] == "failed" and metrics["error"] == (str(error).strip() or "RuntimeError")


def test_a_run_that_goes_on_was_of_changed_code_if_any_start_was(tmp_path):
    run = RunFolder(tmp_path / "ce-csv-0")
    write_environment(run, {"commit": "a", "changed": True, "threads": 1}, goes_on=False)
    write_environment(run, {"commit": "b", "changed": False, "threads": 2}, goes_on=True)
    expected = {"commit": "b", "changed": True, "threads": 2, "earlier_commits": ["a"]}
    assert run.read_json("environment.json") == expected and is_of_changed_code(run)
    write_environment(run, {"commit": "b", "changed": False, "threads": 2}, goes_on=False)  # begins again
    assert not is_of_changed_code(run)
    write_environment(run, {"commit": None, "changed": None, "threads": 2}, goes_on=True)  # without a checkout
    assert run.read_json("environment.json")["changed"] is None and is_of_changed_code(run)


def test_the_commit_is_that_of_the_code_and_of_no_repository_around_it(tmp_path, monkeypatch):
    git = partial(subprocess.run, cwd=tmp_path, check=True, capture_output=True, text=True)
    git(["git", "init"])
    git(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty", "-m", "first"])
    head = git(["git", "rev-parse", "HEAD"]).stdout.strip()
    monkeypatch.setattr(environment, "ROOT", tmp_path.resolve())
    assert environment._code() == {"commit": head, "changed": False}
    installed = tmp_path.resolve() / ".venv/lib"
    installed.mkdir(parents=True)
    monkeypatch.setattr(environment, "ROOT", installed)
    assert environment._code() == {"commit": None, "changed": None}
