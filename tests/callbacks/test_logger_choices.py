"""What `logger=tensorboard` and `logger=mlflow` leave of a run, read back with their own readers."""

import json
import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from callbacks.mlflow_logger import mlflow_logger
from storage.run_store import RunFolder
from tests.command_lines import rows


def curve_of(folder, name: str) -> list[float]:
    return [float(row[name]) for row in rows(folder / "history.csv")]


def events_of(folder) -> EventAccumulator:
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return events


@pytest.mark.slow
def test_a_run_for_tensorboard(fit):
    result = fit("method=ce", "logger=tensorboard", "seed=3")
    assert result.code == 0, result.err
    events = events_of(result.folder)
    curve = [event.value for event in events.Scalars("val/macro_f1")]
    assert len(curve) == 2 and curve == pytest.approx(curve_of(result.folder, "val/macro_f1"))
    (accuracy,) = events.Scalars("test/accuracy")
    assert accuracy.value == pytest.approx(result.metrics["test/accuracy"])
    config = events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    assert b"optimizer/lr" in config and b"method/name" in config
    assert events.Tags()["images"] == ["embeddings"]


@pytest.mark.slow
def test_a_curve_of_active_learning_for_tensorboard(fit):
    rounds = ["active=random", "active.query_size=4", "active.budget=8", "trainer.max_epochs=1"]
    result = fit("method=ce", "logger=tensorboard", *rounds)
    heights = [(event.step, event.value) for event in events_of(result.folder).Scalars("test/accuracy")]
    expected = [(labels, pytest.approx(result.metrics[f"active/accuracy@{labels}"])) for labels in (4, 8)]
    assert heights[:2] == expected


@pytest.fixture
def client(monkeypatch, tmp_path):
    tracking = pytest.importorskip("mlflow.tracking", reason="the extra mlflow is not installed")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return lambda: tracking.MlflowClient(f"sqlite:///{tmp_path}/runs/mlflow.db")


@pytest.mark.slow
def test_a_run_for_mlflow_and_its_repetition(fit, client, tmp_path):
    result = fit("method=ce", "logger=mlflow", "logger.experiment=mine", "seed=3")
    assert result.code == 0, result.err
    assert "mlflow" not in result.err.lower()
    again = fit("method=ce", "logger=mlflow", "logger.experiment=mine", "seed=3", "force=true")
    assert again.folder == result.folder
    (run,) = client().search_runs([client().get_experiment_by_name("mine").experiment_id])
    assert (run.info.run_name, run.info.status) == (result.folder.name, "FINISHED")
    assert run.data.params["seed"] == "3" and run.data.params["method/name"] == "ce"
    assert run.data.metrics["test/accuracy"] == pytest.approx(result.metrics["test/accuracy"])
    curve = client().get_metric_history(run.info.run_id, "val/macro_f1")
    assert [point.value for point in curve][:2] == pytest.approx(curve_of(result.folder, "val/macro_f1"))
    assert {file.path for file in client().list_artifacts(run.info.run_id)} == {"embeddings.png", "confusion.csv"}
    assert run.info.artifact_uri.startswith(str(tmp_path / "runs"))


def test_without_mlflow_a_line_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "mlflow.tracking", None)
    with pytest.raises(ValueError, match=r"^logger=mlflow: MLflow is not installed; pip install '\.\[mlflow\]'$"):
        mlflow_logger(RunFolder(tmp_path / "run"), {})


@pytest.mark.slow
def test_a_server_of_mlflow_that_is_not_there(fit):
    error = fit("method=ce", "logger=mlflow", "logger.tracking_uri=nowhere://here").error
    assert error.startswith("logger.tracking_uri: nowhere://here (") and "logger=csv goes without" in error


def test_an_option_of_another_logger_is_refused(fit):
    error = fit("logger=tensorboard", "logger.project=mine").error
    assert error.startswith("logger.project: unknown key; allowed under logger: embedding_picture")


@pytest.mark.slow
def test_the_choice_of_a_logger_is_no_part_of_a_run(fit):
    folders = {fit("method=ce", f"logger={name}").folder for name in ("tensorboard", "csv")}
    assert len(folders) == 1
    assert json.loads((folders.pop() / "metrics.json").read_text())["status"] == "finished"
