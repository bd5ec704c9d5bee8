"""Classification losses and samplers against imbalance, from the command line to predictions."""

import json

import pytest
from transformers import pipeline

from tests.command_lines import rows

pytestmark = pytest.mark.slow

@pytest.mark.parametrize(  # an epoch of every method is in tests/tasks/test_every_method.py
    ("method", "options"),
    [
        ("balanced_softmax", []),
        ("dice", ["loss.reading=batch"]),
        ("ldam_drw", ["method.reweight_from=1"]),  # weighted epochs say nothing beside the one before
    ],
)
def test_the_loss_falls(fit, method, options):
    result = fit(f"method={method}", *options, "callbacks.early_stopping=null", "sampler.batch_size=16")
    losses = [float(row["train/loss"]) for row in rows(result.folder / "history.csv")]
    assert len(losses) == 2 and losses[1] < losses[0]
    metrics = result.metrics
    assert metrics["status"] == "finished" and metrics["method"] == method


@pytest.mark.parametrize(
    "options",
    [
        ["method=post_hoc_logit_adjustment", "method.adjustment_strength=4"],
        ["method=ldam_drw"],
        ["method=lade", "method.target_prior=train"],
        ["method=tde"],
    ],
    ids=lambda options: options[0],
)
def test_predict_and_export_predict_as_evaluation_did(fit, use, toy_csv, tmp_path, options):
    result = fit(*options)
    recorded = [row for row in rows(result.folder / "predictions.csv") if row["split"] == "test"]
    assert use("predict", result, f"input={toy_csv['test']}", f"output={tmp_path / 'out.csv'}").code == 0
    predicted = rows(tmp_path / "out.csv")
    assert [row["prediction"] for row in predicted] == [row["prediction"] for row in recorded]
    for single, other in zip(predicted, recorded, strict=True):
        assert float(single["probability"]) == pytest.approx(float(other["probability"]), abs=1e-4)

    folder = tmp_path / "exported"
    assert use("export", result, f"output={folder}").code == 0
    about = json.loads((folder / "kontrast.json").read_text())
    assert about["unit_norm_embeddings"] == (options[0] in ("method=ldam_drw", "method=tde"))
    classify = pipeline("text-classification", str(folder), trust_remote_code=True)
    answers = classify([row["text"] for row in predicted], truncation=True)
    assert [answer["label"] for answer in answers] == [row["prediction"] for row in recorded]
    expected = pytest.approx([float(row["probability"]) for row in recorded], abs=1e-4)
    assert [answer["score"] for answer in answers] == expected
    assert use("export", result, f"output={tmp_path / 'onnx'}", "format=onnx").code == 0
    embeddings = use("export", result, f"output={tmp_path / 'embeddings'}", "format=sentence_transformers")
    refused = embeddings.error if embeddings.code else ""
    assert ("method.num_heads=1" in refused) == (options[0] == "method=tde")


def test_post_hoc_differs_from_cross_entropy_in_prediction_alone(fit):
    plain, adjusted = fit("method=ce"), fit("method=post_hoc_logit_adjustment", "method.adjustment_strength=4")
    first = [row["train/loss"] for row in rows(plain.folder / "history.csv")]
    assert first == [row["train/loss"] for row in rows(adjusted.folder / "history.csv")]
    smallest = "weather"  # 8 of 68 rows
    share = [
        sum(row["prediction"] == smallest for row in rows(result.folder / "predictions.csv"))
        for result in (plain, adjusted)
    ]
    assert share[1] > share[0]


@pytest.mark.parametrize("words", [["sampler=class_balanced"], ["sampler=m_per_class", "sampler.rows_per_class=4"]])
def test_samplers_of_both_kinds_train(fit, words):
    result = fit("method=ce", "sampler.batch_size=16", *words)
    assert result.metrics["status"] == "finished"
