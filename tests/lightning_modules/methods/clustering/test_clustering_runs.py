"""Methods that learn clusters, from the command line to their figures and new texts."""

import csv
import json

import pytest

from clustering.scores import clustering_scores

pytestmark = pytest.mark.slow


@pytest.fixture
def learn(cluster):
    """`cluster` for methods that train: small batches, no rounding."""
    small = ["~callbacks.progress", "sampler.batch_size=34", "sampler.eval_batch_size=34", "trainer.precision=32"]
    return lambda *arguments: cluster(*small, *arguments)


def test_aecl_from_stages_to_new_texts(learn, use, toy_csv, tmp_path):
    """Its order of evaluation counts, and is told; new texts get their clusters among each other."""
    stages = ["method.stage1_epochs=1", "method.stage2_epochs=1", "trainer.max_epochs=3"]
    result = learn("method=aecl", "augment=dropout", *stages)
    metrics = result.metrics
    assert (metrics["status"], metrics["epochs"], metrics["protocol"]) == ("finished", 3, "transductive")
    assert 0 <= metrics["cluster/ns"] <= 1 and metrics["cluster/ns"] + metrics["cluster/ps"] == pytest.approx(1)
    assert metrics["orders/acc_min"] <= metrics["cluster/acc"] <= metrics["orders/acc_max"]
    assert metrics["oracle/acc"] >= metrics["cluster/acc"]
    assert json.loads((result.folder / "environment.json").read_text())["precision"] == "32-true"
    with (result.folder / "history.csv").open() as file:
        history = list(csv.DictReader(file))
    assert [float(row["train/stage"]) for row in history] == [1, 2, 3]
    assert [row["train/pseudo"] != "" for row in history] == [False, True, True]
    assert all(-1 <= float(row["cluster/within_label_cosine"]) <= 1 for row in history)
    assert 0 < float(history[0]["cluster/ns"]) < 1 and float(history[-1]["cluster/ns"]) == pytest.approx(
        metrics["cluster/ns"], abs=0.1
    )  # of another order
    out = tmp_path / "out.csv"
    assert use("predict", result, f"input={toy_csv['test']}", f"output={out}").code == 0
    with out.open() as file:
        assert {row["cluster"] for row in csv.DictReader(file)} <= {"0", "1", "2", "3"}


@pytest.mark.parametrize(
    "choices",
    [
        ["method=ccssl", "augment=dropout", "method.stage1_epochs=1", "method.stage2_epochs=1", "trainer.max_epochs=3"],
        ["method=sccl", "augment=dropout", "trainer.max_epochs=2"],
        ["method=rstc", "augment=dropout", "method.kmeans_epochs=1", "trainer.max_epochs=2"],
        ["method=self_train", "method.pretrain_epochs=1", "trainer.max_epochs=2", "method.layer_sizes=[32,4]"],
    ],
    ids=lambda choices: choices[0],
)
def test_others_end_with_figures(learn, choices):
    """The figures are those of the clusters in predictions.csv. That groups are found is tested beside the modules."""
    result = learn(*choices)
    metrics = result.metrics
    assert metrics["status"] == "finished" and metrics["cluster/num_clusters"] == 4
    with (result.folder / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    scores = clustering_scores([row["label"] for row in rows], [int(row["cluster"]) for row in rows])
    assert {name: metrics[f"cluster/{name}"] for name in scores} == pytest.approx(scores)
    assert metrics["oracle/acc"] >= metrics["cluster/acc"] and len(rows) == metrics["cluster/texts"] == 68
    assert "orders/changed" not in metrics  # a text's cluster is its own affair


def test_what_no_stage_can_do_is_one_line(learn):
    stages = ["method.stage1_epochs=2", "method.stage2_epochs=1", "trainer.max_epochs=3", "encoder.train=full"]
    expected = "trainer.max_epochs: found 3, allowed: > 3, the epochs of the first two stages (2 and 1)"
    assert learn("method=aecl", *stages).error.startswith(expected)
    assert "loss: found sccl; allowed with method=aecl" in learn("method=aecl", "loss=sccl").error
