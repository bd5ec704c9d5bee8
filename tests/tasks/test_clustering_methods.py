"""Methods that learn clusters, from the command line to their figures and new texts."""

import csv

import pytest

from tests.tasks.command_lines import command


@pytest.fixture
def line(toy_csv, store, tiny_encoder_dir):
    overrides = ["task=cluster", "dataset=csv", f"dataset.train={toy_csv['train']}", "dataset.max_length=32"]
    overrides += [f"encoder.path={tiny_encoder_dir}", "encoder.sha256=null", "augment=dropout", "logger=csv", *store]
    overrides += ["~callbacks.progress", "sampler.batch_size=34", "sampler.eval_batch_size=34"]
    return [*overrides, "trainer.precision=32"]


def test_aecl_from_stages_to_new_texts(line, use, toy_csv, tmp_path):
    """Its order of evaluation counts, and is told; new texts get their clusters among each other."""
    stages = ["method.stage1_epochs=1", "method.stage2_epochs=1", "trainer.max_epochs=3"]
    result = command([*line, "method=aecl", *stages])
    metrics = result.metrics
    assert (metrics["status"], metrics["epochs"], metrics["protocol"]) == ("finished", 3, "transductive")
    assert 0 <= metrics["cluster/ns"] <= 1 and metrics["cluster/ns"] + metrics["cluster/ps"] == pytest.approx(1)
    assert metrics["orders/acc_min"] <= metrics["cluster/acc"] <= metrics["orders/acc_max"]
    assert metrics["oracle/acc"] >= metrics["cluster/acc"]
    with (result.folder / "history.csv").open() as file:
        history = list(csv.DictReader(file))
    assert [float(row["train/stage"]) for row in history] == [1, 2, 3]
    assert [row["train/pseudo"] != "" for row in history] == [False, True, True]
    out = tmp_path / "out.csv"
    assert use("predict", result, f"input={toy_csv['test']}", f"output={out}").code == 0
    with out.open() as file:
        assert {row["cluster"] for row in csv.DictReader(file)} <= {"0", "1", "2", "3"}


@pytest.mark.parametrize(
    "choices",
    [
        ["method=ccssl", "method.stage1_epochs=1", "method.stage2_epochs=1", "trainer.max_epochs=3"],
        ["method=sccl", "trainer.max_epochs=2"],
        ["method=rstc", "method.kmeans_epochs=1", "trainer.max_epochs=2"],
        ["method=self_train", "method.pretrain_epochs=1", "trainer.max_epochs=2", "method.layer_sizes=[32,4]"],
    ],
    ids=lambda choices: choices[0],
)
def test_others_end_with_figures(line, choices):
    views = [choice for choice in line if choice != "augment=dropout" or "self_train" not in choices[0]]
    metrics = command([*views, *choices]).metrics
    assert metrics["status"] == "finished" and metrics["cluster/num_clusters"] == 4
    assert 0.25 <= metrics["cluster/acc"] <= metrics["oracle/acc"] <= 1
    assert "orders/changed" not in metrics  # a text's cluster is its own affair


def test_what_no_stage_can_do_is_one_line(line):
    stages = ["method.stage1_epochs=2", "method.stage2_epochs=1", "trainer.max_epochs=3"]
    expected = "trainer.max_epochs: found 3, allowed: > 3, the epochs of the first two stages (2 and 1)"
    assert command([*line, "method=aecl", *stages]).error.startswith(expected)
    assert "loss: found SCCLLoss, allowed with method=aecl" in command([*line, "method=aecl", "loss=sccl"]).error
