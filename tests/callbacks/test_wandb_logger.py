"""W&B without an account and without a network: offline files per run id, closed at the end, never a question."""

import os
import subprocess
import sys
import time

import pytest

from callbacks.wandb_logger import finish_wandb, is_logged_in, wandb_logger
from storage.run_store import RunFolder
from tests.callbacks.wandb_files import read_closed
from tests.callbacks.wandb_server import Server


@pytest.fixture
def wandb():
    """The library, which takes seconds to load."""
    import wandb

    return wandb


@pytest.fixture
def logged_out(wandb, monkeypatch, tmp_path):
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    wandb.teardown()  # it remembers the environment of its first run
    return tmp_path / "netrc"


@pytest.mark.slow
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


@pytest.mark.slow
def test_two_runs_in_one_process_are_two_offline_runs(wandb, logged_out, tmp_path, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked a question"))
    for name in ("a", "b"):
        logger = wandb_logger(RunFolder(tmp_path / name), {"seed": 0})
        assert (wandb.run.id, wandb.run.offline) == (name, True)
        logger.log_metrics({"val/accuracy": 0.5}, step=1)
        finish_wandb()
        assert wandb.run is None
        assert len(list((tmp_path / name / "wandb").glob(f"offline-run-*/run-{name}.wandb"))) == 1


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_said_and_logging_goes_on_offline(
    wandb, logged_out, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("callbacks.wandb_logger.INIT_TIMEOUT_SECONDS", 1)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    wandb_logger(RunFolder(tmp_path / "a"), {"seed": 0})
    assert wandb.run.offline and "W&B cannot be reached" in capsys.readouterr().err
    finish_wandb()


def test_finishing_without_a_run_does_nothing():
    assert finish_wandb() is None


@pytest.mark.slow
def test_a_server_that_goes_away_takes_nothing_with_it(wandb, logged_out, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("callbacks.wandb_logger.FINISH_TIMEOUT_SECONDS", 2)
    server = Server()
    monkeypatch.setenv("WANDB_BASE_URL", server.address)
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    logger = wandb_logger(RunFolder(tmp_path / "a"), {"seed": 4})
    assert not wandb.run.offline and any("UpsertBucket" in name for name in server.asked)
    logger.log_metrics({"val/accuracy": 0.0}, step=0)
    server.gone()
    for step in range(1, 8):
        logger.log_metrics({"val/accuracy": step / 10}, step=step)
    started = time.monotonic()
    finish_wandb()
    assert time.monotonic() - started < 20 and wandb.run is None
    said = capsys.readouterr().err
    (file,) = (tmp_path / "a/wandb").glob("run-*/run-a.wandb")
    assert f"later: wandb sync --include-online {file.parent}" in said
    left = read_closed(file)
    assert [row["val/accuracy"] for row in left.history] == [step / 10 for step in range(8)]
    assert left.config["seed"] == 4 and left.id == "a"

    later = Server()
    environment = {**os.environ, "WANDB_BASE_URL": later.address, "WANDB_SILENT": "false"}
    command = [sys.executable, "-m", "wandb", "sync", "--include-online", str(file.parent)]
    options = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL, "timeout": 90}
    synced = subprocess.run(command, env=environment, **options)
    assert synced.returncode == 0, synced.stdout + synced.stderr
    assert sorted(row["val/accuracy"] for row in later.history) == [step / 10 for step in range(8)]
    later.gone()


@pytest.mark.slow
def test_wandbs_own_process_may_die(wandb, logged_out, tmp_path, capsys, monkeypatch):
    logger = wandb_logger(RunFolder(tmp_path / "a"), {"seed": 0})
    monkeypatch.setattr(type(wandb.run), "log", lambda *_, **__: (_ for _ in ()).throw(ConnectionResetError("lost")))
    logger.log_metrics({"val/accuracy": 0.5}, step=0)
    logger.log_metrics({"val/accuracy": 0.6}, step=1)
    assert capsys.readouterr().err.count("W&B takes no more figures (lost); the run goes on") == 1
    monkeypatch.undo()
    finish_wandb()
