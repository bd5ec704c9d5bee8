"""Images from the command line: a run, its rival, its resumption, evaluation and prediction; what is refused."""

import json
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra.utils import get_object
from PIL import Image
from sklearn.datasets import load_digits

from datamodules.builders.cifar import Cifar100
from engine.choices import choices
from engine.composition import serves
from engine.rivals import rival_metrics
from tests.command_lines import Result, command, rows
from tests.conftest import ROOT
from tests.datamodules.test_images import archive
from tests.engine.plans import findings
from tests.engine.test_kinds import refusal
from tests.own_process import assert_equal, context, die_at_write, run_alone, the_run

DIGITS = ["dataset=digits", "imbalance.ir=50", "logger=none", "callbacks.progress=null"]
DIGITS_NODE = {"_target_": choices("dataset")["digits"], "name": "digits"}
APART = {"logistic", "llm_lora"}  # have an encoder of their own


@pytest.fixture
def train(store: list[str]):
    def call(*arguments: str) -> Result:
        return command([*DIGITS, *store, "trainer.max_epochs=2", "trainer.least_steps=0", *arguments])

    return call


def digit_files(folder: Path, number: int) -> Path:
    folder.mkdir()
    for place, image in enumerate(load_digits().images[:number]):
        Image.fromarray(np.rint(image * 255 / 16).astype(np.uint8)).save(folder / f"{place:02}.png")
    return folder


@pytest.mark.slow
def test_a_run_has_its_rivals_and_is_evaluated_and_predicts(train, store, tmp_path, monkeypatch):
    monkeypatch.setattr("engine.rivals.rival_metrics", rival_metrics)
    run = train("method=ce")
    metrics = run.metrics
    assert {"test/accuracy_medium", "test/accuracy_few", "test/majority_accuracy"} <= metrics.keys()
    assert metrics["rival_reads"] == "pixels" and metrics["test/logistic_accuracy"] > 0.6
    at_hand = [*store, f"run={run.folder}"]
    assert command(["task=evaluate", *at_hand]).code == 0
    assert json.loads((run.folder / "evaluation.json").read_text())["test/accuracy"] == metrics["test/accuracy"]

    folder, output = digit_files(tmp_path / "new", 6), tmp_path / "out.csv"
    assert command(["task=predict", *at_hand, f"input={folder}", f"output={output}"]).code == 0
    by_folder = rows(output)
    (folder / "list.txt").write_text("\n".join(sorted(path.name for path in folder.glob("*.png"))))
    assert command(["task=predict", *at_hand, f"input={folder / 'list.txt'}", f"output={output}"]).code == 0
    assert rows(output) == by_folder and len(by_folder) == 6 and by_folder[0]["image"].endswith("00.png")
    of_folder = command(["task=predict", *at_hand, f"input={folder}", f"output={output}", "probabilities=true"])
    assert of_folder.code == 0 and [row["line"] for row in rows(output)] == list("123456")
    (folder / "table.csv").write_text("image,label\n" + "".join(f"{n:02}.png,{n}\n" for n in range(6)))
    assert command(["task=evaluate", *at_hand, f"input={folder / 'table.csv'}"]).code == 0

    (folder / "list.txt").write_text("00.png\nnone.png")
    refused = command(["task=predict", *at_hand, f"input={folder / 'list.txt'}", f"output={tmp_path / 'other.csv'}"])
    assert refused.error.startswith(f"{folder / 'list.txt'}:2: found 'none.png', no such file below")
    for given in (folder, folder / "list.txt"):
        refused = command(["task=predict", *at_hand, f"input={given}", "header=false", f"output={tmp_path / 'o.csv'}"])
        assert refused.error.startswith(f"{given}: header=false has no effect")
    refused = command(["task=export", *at_hand, f"output={tmp_path / 'export'}"])
    assert "dataset=digits, which holds images; task=export takes others" in refused.error


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_bits(store, tmp_path, monkeypatch):
    """Views of each step, and the running means of batch norm."""
    monkeypatch.chdir(ROOT)
    line = ["dataset=digits", "imbalance.ir=50", "logger=csv", "callbacks.progress=null", "trainer.max_epochs=4"]
    line += ["method=scl_ce", "augment=autoaugment_simaugment", "method.num_views=2", "trainer.least_steps=0", *store]
    line += ["callbacks.last.every_seconds=0"]
    whole = command([*line, f"paths.runs={tmp_path / 'whole'}"]).folder
    for dies in (partial(die_at_write, 12, "after"), partial(die_at_write, 9, "before"), None):
        process = context.Process(target=run_alone, args=(line, tmp_path / "output", dies))
        process.start()
        process.join()
        assert process.exitcode == (0 if dies is None else -signal.SIGKILL), (tmp_path / "output.err").read_text()
    assert_equal(the_run(tmp_path), whole)


@pytest.fixture
def cifar(tmp_path) -> list[str]:
    """60 train and 60 test images of noise in an archive as CIFAR-100's."""
    pixels = np.random.default_rng(0).integers(0, 256, (60, 3072), np.uint8)
    path = archive(tmp_path, Cifar100, {b"data": pixels, b"fine_labels": [0, 1, 2] * 20})
    return ["dataset=cifar100", f"dataset.archive={path}", "dataset.md5=null", "imbalance.ir=4"]


ACL = ["method=acl", "trainer.max_epochs=1", "logger=csv"]
ON_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU on this machine")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [ACL, ["method=logistic", "encoder=pixels", "encoder.size=32"], pytest.param([*ACL, "trainer=gpu"], marks=ON_GPU)],
    ids=["acl", "logistic", "gpu"],
)
def test_cifar_from_the_archive_to_figures(words, cifar, store):
    run = command([*cifar, *store, *words])
    assert run.metrics["status"] == "finished"
    assert sum(row["split"] == "test" for row in rows(run.folder / "predictions.csv")) == 60


@pytest.mark.slow
def test_listed_files_from_one_line_to_figures(store, tmp_path):
    folder = digit_files(tmp_path / "images", 120)
    labels = load_digits().target % 2
    for name, rows_ in (("train", range(80)), ("test", range(80, 120))):
        lines = [f"{row:02}.png {labels[row]}" for row in rows_]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines))
    lists = [f"dataset.{name}_list={tmp_path / f'{name}.txt'}" for name in ("train", "test")]
    line = ["dataset=image_folder", f"dataset.root={folder}", *lists, "dataset.size=32", "trainer.max_epochs=1"]
    run = command([*line, *store, "method=balanced_softmax", "dataset.num_workers=1"])
    assert run.metrics["status"] == "finished"
    assert sum(row["split"] == "test" for row in rows(run.folder / "predictions.csv")) == 40


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in choices("method") if name not in APART])
def test_every_method_trains_on_images_or_is_refused_in_one_line(method, train):
    if refusal(DIGITS_NODE, method=method) or serves({"_target_": choices("method")[method]}) == "clustering":
        assert findings(f"dataset=digits method={method}")[0].startswith("method: found ")
        return
    run = train(f"method={method}", "trainer.max_epochs=1")
    if get_object(choices("method")[method]).multilabel:
        assert run.code == 2 and run.err.strip().splitlines()[-1].startswith("error: method: found ")
    else:
        assert run.metrics["status"] == "finished"
