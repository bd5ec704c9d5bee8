"""History, predictions, progress, early stopping, the guard against NaN, and timing."""

import csv
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf

from callbacks.checkpoint import BestCheckpoint, LastCheckpoint
from callbacks.early_stopping import PersistentEarlyStopping
from callbacks.embeddings import EmbeddingPicture
from callbacks.evaluation_rows import ModelOutputs
from callbacks.history import History
from callbacks.nan_guard import NanGuard
from callbacks.predictions import Predictions
from callbacks.progress import EpochLines, progress_bar
from callbacks.timing import Timing
from reporting.calibration import at_temperature, brier_score, expected_calibration_error, fit_temperature


def test_history_has_a_line_per_epoch_with_all_figures(setting):
    setting.fit([setting.build(History)], setting.Tiny(scores=[0.5, 0.25]), max_epochs=2)
    rows = setting.run.read_csv("history.csv")
    assert [(row["epoch"], row["step"], float(row["val/accuracy"])) for row in rows] == [
        ("0", "3", 0.5),
        ("1", "6", 0.25),
    ]
    assert float(rows[1]["train/loss"]) < float(rows[0]["train/loss"])


def test_predictions_cover_each_row_of_each_split(setting):
    collector = Predictions(setting.run, ["a", "b", "c"])
    module = setting.Tiny()
    trainer = setting.trainer([collector])
    trainer.validate(module, setting.loader(), verbose=False)
    trainer.test(module, setting.loader(), verbose=False)
    rows = setting.run.read_csv("predictions.csv")
    assert [(row["split"], int(row["index"])) for row in rows] == [(s, i) for s in ("val", "test") for i in range(12)]
    features = torch.stack([setting.loader().dataset[i]["features"] for i in range(12)])
    probabilities, predictions = module.layer(features).softmax(dim=-1).max(dim=-1)
    assert [row["label"] for row in rows[:12]] == ["a", "b", "c"] * 4
    assert [row["prediction"] for row in rows[12:]] == ["abc"[i] for i in predictions]
    assert [float(row["probability"]) for row in rows[12:]] == pytest.approx(probabilities.tolist(), abs=2e-6)
    assert collector.labels_and_predictions("test") == ([0, 1, 2] * 4, predictions.tolist())
    scores, labels = module.layer(features).double().softmax(dim=-1).detach().numpy(), np.array([0, 1, 2] * 4)
    assert collector.temperature("val") == pytest.approx(fit_temperature(labels, scores), rel=1e-4)
    scaled = at_temperature(scores, 3.0)
    error = expected_calibration_error(scaled.max(axis=1), scaled.argmax(axis=1) == labels)
    expected = {"ece": error, "brier": brier_score(labels, scaled)}
    assert collector.calibration("test", 3.0) == pytest.approx(expected, abs=1e-5)
    collector.splits["test"]["predictions"] = np.full(12, -1)
    assert collector.calibration("test")["ece"] == 0, "no class is never right, and nothing is sure of it"


def test_the_picture_of_texts_of_several_labels_shows_those_with_one(setting, tmp_path):
    picture = EmbeddingPicture(setting.run, ["a", "b"])
    trainer = SimpleNamespace(world_size=1, is_global_zero=True)
    picture.on_test_epoch_start(trainer, None)
    labels = torch.tensor([[1, 0], [1, 1], [0, 0], [0, 1], [1, 0]], dtype=torch.float32)
    outputs = {"indices": torch.arange(5), "labels": labels, "embeddings": torch.randn(5, 4)}
    picture.on_test_batch_end(trainer, None, outputs, None, 0)
    picture.on_test_epoch_end(trainer, None)
    rows = picture.splits["test"]
    assert (rows["indices"].tolist(), rows["labels"].tolist()) == ([0, 3, 4], [0, 1, 0])
    assert (setting.run.path / "embeddings.png").exists()


def test_rows_that_two_ranks_evaluated_count_once():
    trainer, outputs = SimpleNamespace(world_size=1), ModelOutputs()
    outputs.on_test_epoch_start(trainer, None)
    for indices in ([3, 0], [3, 1]):
        rows = torch.tensor(indices)
        columns = {"embeddings": rows[:, None] * 0.5, "logits": rows[:, None]}
        outputs.on_test_batch_end(trainer, None, {"indices": rows, **columns}, None, 0)
    outputs.on_test_epoch_end(trainer, None)
    assert outputs.splits["test"]["indices"].tolist() == [0, 1, 3]
    assert outputs.embeddings("test").tolist() == [[0.0], [0.5], [1.5]]


def test_progress_is_lines_in_a_pipe_and_a_bar_on_a_terminal(setting, capsys, monkeypatch):
    bar = setting.build(progress_bar)
    assert isinstance(bar, EpochLines)
    setting.fit([bar], setting.Tiny(scores=[0.5, 0.25]), max_epochs=2)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch")]
    assert len(lines) == 2 and lines[1].startswith("epoch 2/2")
    assert "val/accuracy 25.00" in lines[1] and "train/loss" in lines[1]

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdout", Terminal())
    assert isinstance(setting.build(progress_bar), pl.callbacks.RichProgressBar)


@pytest.mark.parametrize("step", [0, 4])
def test_nan_names_step_epoch_rows_and_what_to_try(setting, step):
    with pytest.raises(ValueError) as caught:
        setting.fit([setting.build(NanGuard)], setting.Tiny(nan_at=step))
    message = str(caught.value)
    rows = ", ".join(str(row) for row in range(4 * (step % 3), 4 * (step % 3) + 4))
    assert f"step {step + 1} (epoch {step // 3}, train rows {rows})" in message and "\n" not in message
    assert all(key in message for key in ("nan", "optimizer.lr", "loss.tau", "trainer.precision"))


def test_on_an_accelerator_the_losses_are_looked_at_together(setting):
    guard = setting.build(NanGuard, interval=2)
    trainer = type("Trainer", (), {"current_epoch": 0, "global_step": 7})()
    loss = torch.empty((), device="meta")
    guard.on_train_batch_end(trainer, None, {"loss": loss}, {"indices": torch.tensor([5])}, 0)
    assert len(guard.steps) == 1
    guard.steps[0] = guard.steps[0].__class__(0, 7, torch.tensor(float("inf")), torch.tensor([5]))
    with pytest.raises(ValueError, match=r"found inf at step 7 \(epoch 0, train rows 5\)"):
        guard.on_train_epoch_end(trainer, None)


def test_a_decided_stop_survives_a_resume(setting):
    def watchers():
        stop = setting.build(PersistentEarlyStopping, patience=1)
        return [stop, setting.build(BestCheckpoint), setting.build(LastCheckpoint)]

    scores = [0.5, 0.6, 0.4, 0.9, 0.9, 0.9]
    trainer, _ = setting.fit(watchers(), setting.Tiny(scores=scores), max_epochs=6)
    assert trainer.current_epoch == 3
    last = setting.run.checkpoints / "last.ckpt"
    trainer, _ = setting.fit(watchers(), setting.Tiny(scores=scores), max_epochs=6, ckpt_path=last)
    assert trainer.current_epoch == 3
    assert torch.load(setting.run.checkpoints / "best.ckpt", weights_only=True)["epoch"] == 1


def test_timing_writes_speed_and_memory(setting):
    setting.fit([setting.build(Timing)], max_epochs=2)
    metrics = setting.run.read_metrics()
    assert metrics["samples_per_second"] == pytest.approx(24 / metrics["seconds/train"])
    assert metrics["seconds/validate"] > 0
    assert 50 < metrics["peak_memory_mib"] < 100_000


def test_history_drops_epochs_that_are_repeated(setting):
    setting.run.write_csv("history.csv", [["0", "3", "0.1"], ["7", "24", "0.2"]], ["epoch", "step", "val/accuracy"])
    setting.fit([setting.build(History)], max_epochs=1)
    text = (setting.run.path / "history.csv").read_text()
    assert [row["epoch"] for row in csv.DictReader(io.StringIO(text))] == ["0"]


def test_hydra_builds_every_callback_of_the_default_config(setting):
    config = OmegaConf.load(Path(__file__).parents[2] / "conf/callbacks/default.yaml")
    built = {name: instantiate(node, run=setting.run, protocol=setting.protocol) for name, node in config.items()}
    assert built["best"].dirpath == str(setting.run.checkpoints) and built["best"].monitor == "val/accuracy"
    assert built["history"].run is setting.run and built["early_stopping"].patience == 5


class EveryOther(pl.Callback):
    def on_train_epoch_end(self, trainer, pl_module):
        if trainer.current_epoch % 2 == 0:
            pl_module.log("cluster/acc", float(trainer.current_epoch))


def test_history_is_empty_where_an_epoch_measured_nothing(setting):
    setting.fit([EveryOther(), setting.build(History)], max_epochs=3)
    rows = setting.run.read_csv("history.csv")
    assert [row["cluster/acc"] for row in rows] == ["0.0", "", "2.0"]
    assert all(row["train/loss"] for row in rows)
