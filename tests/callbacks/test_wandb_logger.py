"""W&B without an account and without a network: offline files per run id, closed at the end, never a question."""

import pytest
import wandb

from callbacks.wandb_logger import finish_wandb, is_logged_in, wandb_logger
from reporting.run_store import RunFolder


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


def test_two_runs_in_one_process_are_two_offline_runs(logged_out, tmp_path, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked a question"))
    for name in ("a", "b"):
        logger = wandb_logger(RunFolder(tmp_path / name), {"seed": 0})
        assert (wandb.run.id, wandb.run.offline) == (name, True)
        logger.log_metrics({"val/accuracy": 0.5}, step=1)
        finish_wandb({"status": "finished", "test/accuracy": 0.5, "label_names": ["x"]})
        assert wandb.run is None
        assert len(list((tmp_path / name / "wandb").glob(f"offline-run-*/run-{name}.wandb"))) == 1


def test_a_server_that_does_not_answer_is_said_and_logging_goes_on_offline(logged_out, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("callbacks.wandb_logger.INIT_TIMEOUT_SECONDS", 1)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    wandb_logger(RunFolder(tmp_path / "a"), {"seed": 0})
    assert wandb.run.offline and "W&B cannot be reached" in capsys.readouterr().err
    finish_wandb()


def test_finishing_without_a_run_does_nothing():
    assert finish_wandb({"test/accuracy": 1.0}) is None
