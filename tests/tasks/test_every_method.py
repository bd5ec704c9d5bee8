"""Every method that classifies: an epoch of training, and the checkpoint gives the figures and rows of the run."""

import csv
import json

import pytest

from engine.allowed_targets import CONF
from tests.command_lines import rows

YAML = {path.stem: path.read_text(encoding="utf-8") for path in sorted((CONF / "method").glob("*.yaml"))}
TESTED_APART = {"llm_lora", "logistic", "tfidf_labels", "bce_words"}  # need another encoder, or train nothing
MULTILABEL = [
    name
    for name, text in YAML.items()
    if ("methods.multilabel." in text or "MultiLabelModule" in text) and name not in TESTED_APART
]
SINGLE = [
    name for name, text in YAML.items() if "methods.supervised." in text and name not in {*MULTILABEL, *TESTED_APART}
]
# one of a kind: plain, contrastive with prototypes, of label sets
FAST = {"ce", "sharprecl", "bce"}


@pytest.mark.parametrize(
    "method", [pytest.param(m, marks=[] if m in FAST else pytest.mark.slow) for m in (*SINGLE, *MULTILABEL)]
)
def test_an_epoch_and_the_checkpoint_gives_the_same_figures(fit, use, toy_csv, tmp_path, method):
    options = []
    if method in MULTILABEL:  # the same texts; every second class brings a label of its own along
        options = ["dataset.label_separator=|"]
        for file in toy_csv.values():
            with file.open(newline="") as lines:
                (header, *texts) = csv.reader(lines)
            also = {"fruit": "fruit|living", "animal": "animal|living"}
            with file.open("w", newline="") as lines:
                csv.writer(lines).writerows([header, *((text, also.get(label, label)) for text, label in texts)])
    result = fit(f"method={method}", "trainer.max_epochs=1", "sampler.batch_size=16", *options)
    before, metrics = (result.folder / "predictions.csv").read_text(), result.metrics
    assert (metrics["status"], metrics["method"]) == ("finished", method)
    assert use("evaluate", result).code == 0
    evaluated = json.loads((result.folder / "evaluation.json").read_text())
    assert evaluated["test/macro_f1"] == metrics["test/macro_f1"]
    assert (result.folder / "predictions.csv").read_text() == before
    assert use("predict", result, f"input={toy_csv['test']}", f"output={tmp_path / 'out.csv'}").code == 0
    recorded = [row["prediction"] for row in rows(result.folder / "predictions.csv") if row["split"] == "test"]
    assert [row["prediction"] for row in rows(tmp_path / "out.csv")] == recorded


def test_methods_of_both_kinds_are_there():
    assert len(SINGLE) >= 20 and len(MULTILABEL) >= 3
