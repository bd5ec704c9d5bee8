"""Beside a run's figures stand those of logistic regression on the same rows, and what its probabilities are worth."""

import json
import random

import numpy as np
import pytest

from attack.toy import FILLERS, TOPICS
from engine import rivals
from engine.results import RIVALS, RIVALS_OF_SEVERAL, show_figures
from reporting.calibration import expected_calibration_error
from tests.command_lines import rows

MEASURED = rivals.rival_metrics  # which no other test calls


@pytest.fixture(autouse=True)
def with_rival(no_rival, monkeypatch):
    monkeypatch.setattr(rivals, "rival_metrics", MEASURED)


@pytest.mark.slow
def test_the_rival_is_the_run_of_method_logistic(fit, solve):
    ours = fit("method=ce", "trainer.max_epochs=1", "imbalance.ir=3")
    rival = solve("method=logistic", "imbalance.ir=3").metrics
    assert rival["test/accuracy"] > 0.25
    for name in ("accuracy", "macro_f1"):
        assert ours.metrics[f"test/logistic_{name}"] == pytest.approx(rival[f"test/{name}"], abs=1e-12)
    assert "logistic regression, frozen encoder" in ours.out
    alone = fit("method=ce", "trainer.max_epochs=1", "imbalance.ir=3", "rival=null")
    assert alone.folder == ours.folder


@pytest.fixture
def several(tmp_path):
    """Texts of one or two of three topics, as a CSV."""
    generator, words = random.Random(0), ["dataset.label_separator=/"]
    for split, copies in (("train", 12), ("test", 5)):
        lines = ["text,label"]
        for topics in [("fruit",), ("animal",), ("fruit", "metal"), ("animal", "metal"), ("metal",)] * copies:
            of_topics = [word for topic in topics for word in generator.choices(TOPICS[topic], k=2)]
            lines.append(f"{' '.join(of_topics + generator.choices(FILLERS, k=3))},{'/'.join(topics)}")
        (tmp_path / f"several_{split}.csv").write_text("\n".join(lines))
        words.append(f"dataset.{split}={tmp_path}/several_{split}.csv")
    return words


@pytest.mark.slow
def test_with_several_labels_it_is_the_run_of_bce_on_a_frozen_encoder(fit, solve, several):
    line = ["method=bce", *several, "method.threshold=per_label"]
    ours = fit(*line, "trainer.max_epochs=1")
    rival = solve(*line, "encoder.train=frozen").metrics
    for name in ("micro_f1", "macro_f1"):
        assert ours.metrics[f"test/logistic_{name}"] == pytest.approx(rival[f"test/{name}"], abs=1e-12)
        assert f"test/logistic_{name}" not in rival
    assert rival["test/macro_f1"] > 0.5 and "logistic regression, frozen encoder" in ours.out
    assert f"which {RIVALS_OF_SEVERAL['logistic']} reaches" in ours.err  # one epoch is none

    published = [*line, "trainer.max_epochs=1", "protocol=published"]
    chosen, half = (fit(*published, f"method.threshold={threshold}").metrics for threshold in ("global", "0.5"))
    for name in ("micro_f1", "macro_f1"):
        assert chosen[f"test/logistic_{name}"] == half[f"test/logistic_{name}"], "test rows choose no threshold for it"


@pytest.mark.slow
def test_each_round_of_active_learning_has_its_rival(fit):
    result = fit("method=ce", "active=entropy", "active.query_size=20", "active.budget=40", "trainer.max_epochs=1")
    curve = rows(result.folder / "curve.csv")
    for row in curve:
        metrics = json.loads((result.folder.parent / row["run"] / "metrics.json").read_text())
        for name in ("accuracy", "macro_f1"):
            assert float(row[f"test/logistic_{name}"]) == metrics[f"test/logistic_{name}"] > 0.1
    assert "logistic regression, accuracy" in result.out
    assert f"which {RIVALS['logistic']} reaches" in result.err  # one epoch of 20 rows is none


@pytest.mark.slow
def test_many_texts_are_not_encoded_for_it_alone(fit, solve, monkeypatch, tmp_path):
    monkeypatch.setattr(rivals, "MOST_TEXTS", 50)
    line = ["method=ce", "trainer.max_epochs=1"]
    left_out = fit(*line)
    assert "test/logistic_accuracy" not in left_out.metrics and left_out.metrics["rival_left_out"] > 50
    assert f"{left_out.metrics['rival_left_out']} rows are more than are encoded for that alone: " in left_out.out
    anyway = fit(*line, "rival=always", f"paths.cache={tmp_path / 'empty'}", "force=true").metrics
    assert "test/logistic_accuracy" in anyway and "rival_left_out" not in anyway
    assert "test/logistic_accuracy" not in solve("method=logistic").metrics  # it is that itself, and fills the cache
    assert "test/logistic_accuracy" in fit(*line, "force=true").metrics


@pytest.mark.slow
def test_calibration_is_that_of_the_predictions(fit):
    result = fit("method=ce", "trainer.max_epochs=2")
    test = [row for row in rows(result.folder / "predictions.csv") if row["split"] == "test"]
    right = [row["prediction"] == row["label"] for row in test]
    confidence = np.array([float(row["probability"]) for row in test])
    error = expected_calibration_error(confidence, np.array(right))
    assert result.metrics["test/ece"] == pytest.approx(error, abs=1e-5)
    assert 0 < result.metrics["test/brier"] < 2
    assert "(ECE)" in result.out
    temperature = result.metrics["test/temperature"]
    assert f"at temperature {temperature:.2f}, fitted to the validation rows: " in result.out
    assert {"test/ece_scaled", "test/brier_scaled"} < set(result.metrics)
    assert not {"val/temperature", "val/ece_scaled"} & set(result.metrics)
    published = fit("method=ce", "trainer.max_epochs=2", "protocol=published").metrics
    assert "test/ece" in published and "test/temperature" not in published


def test_a_run_below_a_rival_is_warned_of(capsys):
    figures = {"test/accuracy": 0.5, "test/macro_f1": 0.5, "test/logistic_accuracy": 0.6, "test/logistic_macro_f1": 0.4}
    show_figures(figures, "test")
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    assert len(lines) == 1
    assert lines[0].startswith("warning: accuracy of 50.00 % is below 60.00 %, which logistic regression")
    several = {"test/hamming_loss": 0.1, "test/micro_f1": 0.3, "test/macro_f1": 0.5}
    show_figures(several | {"test/majority_micro_f1": 0.4, "test/majority_macro_f1": 0.2}, "test")
    line = "warning: micro_f1 of 30.00 % is below 40.00 %, which always the labels that enough train rows have reaches"
    assert line in capsys.readouterr().err
