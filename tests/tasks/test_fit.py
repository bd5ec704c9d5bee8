"""A run from the command line to its files, on a toy CSV and a tiny encoder."""

import json
import logging
import math
import sys
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score

from datamodules.texts.datamodule import TextDataModule
from lightning_modules.methods.supervised.sharprecl import SharpReCLModule
from tasks.fit import _RunLog, _say_that_steps_decide
from tests.command_lines import best_weights, outcome, rows, same_weights


@pytest.mark.parametrize("method", ["sharprecl", "ce", "logit_adjusted"])
def test_figures_are_what_sklearn_computes_from_the_predictions(fit, method):
    result = fit(f"method={method}", "trainer.max_epochs=6")
    metrics = result.metrics
    assert metrics["status"] == "finished" and metrics["error"] is None
    assert {"seconds/prepare", "seconds/fit", "seconds/total", "seconds/train", "epochs", "augment"} <= set(metrics)
    assert {f"test/macro_f1_{part}" for part in ("head", "middle", "tail")} <= set(metrics)
    identity = ("method", "dataset", "encoder", "protocol", "seed")
    assert [metrics[key] for key in identity] == [method, "csv", "minilm", "clean", 0]
    predictions = rows(result.folder / "predictions.csv")
    for split, size in (("val", 7), ("test", 24)):
        chosen = [row for row in predictions if row["split"] == split]
        assert [int(row["index"]) for row in chosen] == list(range(size))
        labels, predicted = ([row[column] for row in chosen] for column in ("label", "prediction"))
        assert metrics[f"{split}/accuracy"] == pytest.approx(accuracy_score(labels, predicted), abs=1e-9)
        for average in ("macro", "micro"):
            expected = f1_score(labels, predicted, average=average, zero_division=0)
            assert metrics[f"{split}/{average}_f1"] == pytest.approx(expected, abs=1e-9)
    assert metrics["test/accuracy"] > 0.3  # chance is 0.25
    best = max(float(row["val/macro_f1"]) for row in rows(result.folder / "history.csv"))
    assert metrics["val/macro_f1"] == pytest.approx(best, abs=1e-6)
    for name in ("config.yaml", "environment.json", "kept_indices.json", "run.log", "checkpoints/best.ckpt"):
        assert (result.folder / name).is_file()
    counts = [list(row.values()) for row in rows(result.folder / "confusion.csv")]
    assert sum(int(count) for row in counts for count in row[1:]) == 24
    right = sum(int(row[place]) for place, row in enumerate(counts, start=1))
    assert right / 24 == pytest.approx(metrics["test/accuracy"])


def test_typed_again_a_finished_run_is_not_repeated_and_force_gives_the_same_bits(fit):
    first = fit()
    before, written = outcome(first.folder), (first.folder / "metrics.json").stat().st_mtime_ns
    again = fit()
    assert again.folder == first.folder and "finished already" in again.out
    assert (first.folder / "metrics.json").stat().st_mtime_ns == written
    again_table = again.out.splitlines()[2:]
    assert again_table == first.out.splitlines()[-len(again_table) :]
    weights = best_weights(first.folder)
    forced = fit("force=true")
    assert forced.folder == first.folder and "epoch 2/2" in forced.out
    assert outcome(forced.folder) == before
    assert same_weights(best_weights(forced.folder), weights)


@pytest.mark.slow
def test_what_changes_the_run_id(fit, toy_csv):
    first = fit("trainer.max_epochs=1").folder.name
    idle = ("logger=none", "callbacks.progress=null", "trainer.num_threads=1")
    assert fit("trainer.max_epochs=1", *idle).folder.name == first
    assert fit("trainer.max_epochs=1", "seed=1").folder.name != first
    toy_csv["train"].write_text(toy_csv["train"].read_text() + "the iron and the zinc,metal\n")
    assert fit("trainer.max_epochs=1").folder.name != first


@pytest.mark.slow
def test_clean_reads_test_once_after_the_epoch_is_chosen(fit):
    events = []

    def spy(name):
        method = getattr(TextDataModule, name)
        return mock.patch.object(
            TextDataModule, name, autospec=True, side_effect=lambda self: (events.append(name), method(self))[1]
        )

    with spy("train_dataloader"), spy("val_dataloader"), spy("test_dataloader"):
        assert fit().metrics["protocol"] == "clean"
    assert events.count("test_dataloader") == 1 and events[-1] == "test_dataloader"


@pytest.mark.slow
def test_published_chooses_by_test_and_says_so(fit):
    result = fit("protocol=published", "trainer.max_epochs=3")
    assert result.metrics["protocol"] == "published"
    assert "published" in result.out
    assert not [key for key in result.metrics if key.startswith("val/")]
    best = max(float(row["test/accuracy"]) for row in rows(result.folder / "history.csv"))
    assert result.metrics["test/accuracy"] == pytest.approx(best, abs=1e-6)
    assert result.metrics["class_counts"] == [12, 32, 16, 8]  # no row went to a validation split


@pytest.mark.slow
def test_as_published_does_what_it_says(fit):
    modes, norms, weights = [], [], []
    training_losses = SharpReCLModule.training_losses

    def spy(self, batch):
        modes.append((self.current_epoch, self.encoder.training, self.project_features.training))
        norms.append(self(batch)["logits"].norm(dim=-1))
        weights.append(self.loss.anchor_weight)
        return training_losses(self, batch)

    with mock.patch.object(SharpReCLModule, "training_losses", spy):
        result = fit("experiment=sharprecl_as_published", "trainer.max_epochs=2")
    assert set(modes) == {(0, False, True), (1, False, False)}
    assert torch.allclose(torch.cat(norms), torch.ones(1))
    assert set(weights) == {"class_0"}
    assert result.metrics["protocol"] == "published"


@pytest.mark.slow
@pytest.mark.parametrize("train", [["full"], ["top_layers", "encoder.num_top_layers=1"]], ids=lambda train: train[0])
def test_dropout_acts_in_training_and_only_what_is_named_trains(fit, train):
    trained = []
    training_losses = SharpReCLModule.training_losses

    def spy(self, batch):
        layers = self.encoder.model.encoder.layer
        trained.append([layer.attention.self.query.weight.requires_grad for layer in layers])
        assert self.encoder.training and self.training
        assert not torch.equal(self.embed(batch), self.embed(batch))
        return training_losses(self, batch)

    with mock.patch.object(SharpReCLModule, "training_losses", spy):
        result = fit("encoder.train=" + train[0], *train[1:], "trainer.max_epochs=1")
    assert result.code == 0, result.err
    assert trained and all(layers == [train == ["full"], True] for layers in trained)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ["sampler.batch_size=2", "method.n_neg=0"],
        ["method.K=1000", "method.n_pos=0", "augment=dropout"],
        ["method.n_pos=0", "method.n_neg=0", "imbalance.ir=2"],
        ["method.mu=0", "method.num_views=3"],
        ["encoder.pooling=first_token", "sampler=shuffle", "scheduler=constant"],
        ["encoder.pooling=cls", "callbacks=none"],
    ],
    ids=" ".join,
)
def test_corners_train_to_a_finite_loss(fit, options):
    result = fit("trainer.max_epochs=1", *options)
    assert result.metrics["status"] == "finished"
    if "callbacks=none" not in options:
        assert all(math.isfinite(float(row["train/loss"])) for row in rows(result.folder / "history.csv"))


@pytest.mark.slow
def test_two_classes(fit, toy_csv):
    for file in toy_csv.values():
        lines = file.read_text().splitlines()
        file.write_text("\n".join([lines[0], *(line for line in lines if line.endswith(("fruit", "metal")))]) + "\n")
    assert len(fit().metrics["class_counts"]) == 2


@pytest.mark.slow
def test_a_stricter_imbalance_is_kept_on_record(fit):
    result = fit("imbalance.ir=2", "trainer.max_epochs=1")
    counts = result.metrics["class_counts"]
    assert max(counts) / min(counts) == 2
    assert len(json.loads((result.folder / "kept_indices.json").read_text())["train"]) == sum(counts)


def test_warnings_of_ours_stay_on_stderr_once(tmp_path, capsys):
    def lines() -> list[str]:
        with _RunLog(tmp_path / "run.log"):
            logging.getLogger("datamodules.corpus").warning("%d rows left out", 3)
            logging.getLogger("datamodules.corpus").info("too much")
            logging.getLogger("another").warning("of others")
        return capsys.readouterr().err.splitlines()

    assert lines() == ["3 rows left out"]
    logging.getLogger().addHandler(own := logging.StreamHandler(sys.stderr))
    try:
        assert lines() == ["3 rows left out", "of others"]
    finally:
        logging.getLogger().removeHandler(own)
    assert (tmp_path / "run.log").read_text().count("rows left out") == 2


@pytest.mark.parametrize(
    ("word", "epochs", "is_said"),
    [("trainer.max_epochs=1", 160, True), ("trainer.max_epochs=1", 1, False), ("seed=1", 160, False)],
)
def test_steps_that_overrule_a_number_of_epochs_are_said(capsys, word, epochs, is_said):
    plan = SimpleNamespace(words=(word,), plain={"trainer": {"max_epochs": 1, "least_steps": 160}})
    _say_that_steps_decide(plan, SimpleNamespace(max_epochs=epochs))
    line = "trainer.least_steps=160: 160 epochs in place of trainer.max_epochs=1; "
    line += "trainer.least_steps=0 takes the number as it is\n"
    assert capsys.readouterr().err == line * is_said


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spcl", "gml", "proco"])
def test_a_run_that_starts_from_another_remembers_its_own_rows_alone(fit, method):
    line = [f"method={method}", "trainer.max_epochs=1", "sampler.batch_size=16"]
    first = fit(*line)
    fewer = fit(*line, "dataset.labels_per_class=6", f"start_from={first.folder.name}")
    weights, rows_of_it = best_weights(fewer.folder), sum(fewer.metrics["class_counts"])
    if method == "spcl":
        assert len(weights["bank"]) == weights["pool_filled"].sum() == rows_of_it
    elif method == "gml":
        assert 0 < (weights["queue_labels"] >= 0).sum() <= rows_of_it
    else:
        assert weights["counts"].sum(1).tolist() == 2 * [2 * rows_of_it]  # of two views


@pytest.mark.slow
@pytest.mark.parametrize("method", ["acl", "tsc", "tde"])
def test_a_run_that_starts_from_another_has_seen_no_class_yet(fit, method):
    line = [f"method={method}", "sampler.batch_size=2"]
    first = fit(*line, "trainer.max_epochs=1")
    step = fit(*line, "trainer.max_steps=1", f"start_from={first.folder.name}")
    before, after = best_weights(first.folder), best_weights(step.folder)
    if method == "tde":  # the mean of one batch, after the sum of thirty
        assert 0 < after["direction"].norm() < before["direction"].norm() / 2
    else:
        assert before["is_seen"].all() and 0 < after["is_seen"].sum() <= 2  # classes of a batch of two rows
