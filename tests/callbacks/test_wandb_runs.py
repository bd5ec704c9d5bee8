"""What a run leaves for W&B, read back from the files: one W&B run per run id, its config, curves and outcome."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.callbacks.wandb_files import read_closed
from tests.command_lines import RUN_PY, command

pytestmark = pytest.mark.slow

OFFLINE = ("logger=wandb", "logger.mode=offline")


@pytest.fixture(autouse=True)
def no_account(monkeypatch, tmp_path):
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL", "WANDB_RUN_GROUP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


def left(folder: Path):
    """Every W&B file of a run folder, read."""
    return [read_closed(file) for file in sorted(folder.glob("wandb/*run-*/*.wandb"))]


@pytest.fixture
def logged(fit):
    return lambda *words: fit("method=ce", *OFFLINE, *words)


def test_a_run_is_one_wandb_run_with_config_curves_and_outcome(logged):
    result = logged("seed=3")
    (run,) = left(result.folder)
    assert (run.id, run.exit_code) == (result.folder.name, 0)
    assert run.config["seed"] == 3 and run.config["method"]["name"] == "ce"
    assert run.config["optimizer"]["lr"] == 0.01, "the config as columns"
    curve = [row["val/macro_f1"] for row in run.history if "val/macro_f1" in row]
    assert curve == pytest.approx([float(row["val/macro_f1"]) for row in read_history(result.folder)])
    assert any("train/loss" in key for row in run.history for key in row)
    assert run.summary["test/accuracy"] == result.metrics["test/accuracy"] and run.summary["dataset"] == "csv"
    logged_keys = {key.split(".")[0] for row in run.history for key in row}
    assert {"confusion", "per_class", "per_class_f1_table", "embeddings"} <= logged_keys
    media = [path for path in run.files if path.startswith("media/")]
    assert any("confusion" in path for path in media) and any("embeddings" in path for path in media)


def read_history(folder):
    import csv

    with (folder / "history.csv").open() as stream:
        return list(csv.DictReader(stream))


def test_a_curve_of_active_learning_is_one_wandb_run(logged):
    rounds = ["active=random", "active.query_size=4", "active.budget=8", "trainer.max_epochs=1"]
    result = logged(*rounds)
    (run,) = left(result.folder)
    assert [row["labels"] for row in run.history if "labels" in row] == [4, 8]
    heights = [row["test/accuracy"] for row in run.history if "test/accuracy" in row]
    assert heights == [result.metrics["active/accuracy@4"], result.metrics["active/accuracy@8"]]
    assert run.summary["active/area_accuracy"] == result.metrics["active/area_accuracy"]
    assert not list(result.folder.parent.glob(f"{result.metrics['last_run']}/wandb"))


def test_the_per_class_table_is_that_of_scikit_learn(logged):
    import csv
    import json

    from sklearn.metrics import f1_score

    folder = logged("seed=0").folder
    (file,) = folder.glob("wandb/*run-*/files/media/table/per_class_*.json")
    table = json.loads(file.read_text())
    with (folder / "predictions.csv").open() as stream:
        rows = [row for row in csv.DictReader(stream) if row["split"] == "test"]
    names = [line[0] for line in table["data"]]
    expected = f1_score([r["label"] for r in rows], [r["prediction"] for r in rows], labels=names, average=None)
    assert [line[table["columns"].index("f1")] for line in table["data"]] == pytest.approx(expected.tolist())


def test_a_resumed_run_is_the_same_wandb_run(logged, store, small, files, tmp_path):
    words = [*files, *store, *small, "method=ce", *OFFLINE, "trainer.max_epochs=3", "callbacks.last.every_seconds=0"]
    code = (
        "import os, runpy, sys; import lightning.pytorch as pl; from callbacks.history import History;"
        "real = History.on_train_epoch_end;"
        "stop = lambda t: t.current_epoch == 1 and os.kill(os.getpid(), 15);"
        "History.on_train_epoch_end = lambda s, t, m: (real(s, t, m), stop(t));"
        f"sys.argv = [{str(RUN_PY)!r}, *sys.argv[1:]]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    environment = {**os.environ, "PYTHONPATH": str(RUN_PY.parent)}
    stopped = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, env=environment)
    assert stopped.returncode == 130, stopped.stderr
    result = command(words)
    parts = left(result.folder)
    assert len(parts) == 2 and {part.id for part in parts} == {result.folder.name}
    epochs = [row["epoch"] for part in parts for row in part.history if "val/macro_f1" in row]
    assert sorted(set(epochs)) == [0, 1, 2]
    assert "test/accuracy" not in parts[0].summary
    assert parts[1].summary["test/accuracy"] == result.metrics["test/accuracy"]
    again = command(words)
    assert again.code == 0 and len(left(result.folder)) == 2, "a finished run is not logged again"


def test_the_jobs_of_a_sweep_are_one_group(store, small, files, tmp_path):
    words = [*files, *store, *small, "method=ce", *OFFLINE, "trainer.max_epochs=1"]
    line = [sys.executable, str(RUN_PY), "-m", *words, "seed=0,1", "hydra.launcher.warm=true"]
    swept = subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert swept.returncode == 0, swept.stdout + swept.stderr
    runs = [run for folder in (tmp_path / "runs").glob("ce-csv-*") for run in left(folder)]
    (sweep,) = (tmp_path / "runs/sweeps").iterdir()
    assert len({run.id for run in runs}) == len(runs) == 2
    assert {run.group for run in runs} == {sweep.name} and {run.config["seed"] for run in runs} == {0, 1}
