"""W&B without an account and without a network: offline files per run id, closed at the end, never a question."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from callbacks.wandb_logger import finish_wandb, is_logged_in

REPOSITORY = Path(__file__).parents[2]
TWO_RUNS = """
import sys
import wandb
from callbacks.wandb_logger import finish_wandb, wandb_logger
from reporting.run_store import RunFolder
for name in ("a", "b"):
    logger = wandb_logger(RunFolder(f"{sys.argv[1]}/{name}"), {"seed": 0})
    assert wandb.run.id == name and wandb.run.offline, wandb.run.id
    logger.log_metrics({"val/accuracy": 0.5}, step=1)
    finish_wandb({"status": "finished", "test/accuracy": 0.5, "label_names": ["x"]})
    assert wandb.run is None
"""


@pytest.fixture
def logged_out(monkeypatch, tmp_path):
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    return tmp_path / "netrc"


def test_logged_in_is_read_from_the_environment_or_netrc(logged_out, monkeypatch):
    assert not is_logged_in()
    logged_out.write_text("machine example.org login user password x\n")
    assert not is_logged_in()
    logged_out.write_text("machine api.wandb.ai login user password x\n")
    assert is_logged_in()
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org")
    assert not is_logged_in()
    monkeypatch.setenv("WANDB_API_KEY", "x")
    assert is_logged_in()


def test_two_runs_in_one_process_are_two_offline_runs(logged_out, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    line = [sys.executable, "-c", TWO_RUNS, str(tmp_path)]
    outcome = subprocess.run(
        line, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    for name in ("a", "b"):
        assert len(list((tmp_path / name / "wandb").glob(f"offline-run-*/run-{name}.wandb"))) == 1


def test_finishing_without_a_run_does_nothing():
    assert finish_wandb({"test/accuracy": 1.0}) is None
