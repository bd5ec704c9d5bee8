"""Metrics of several labels: golden cases, scikit-learn, and rows without labels."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, ndcg_score, precision_recall_fscore_support

from reporting.multilabel_metrics import best_threshold, label_scores, multilabel_metrics

CASES = json.loads((Path(__file__).parents[1] / "golden" / "knn_mltc.json").read_text())["cases"]


def test_golden():
    case = next(case for case in CASES if case["id"] == "metrics")
    actual = multilabel_metrics(case["inputs"]["gold"], case["inputs"]["pred"])
    assert actual["hamming_loss"] == pytest.approx(case["expected"]["hamming_loss"], abs=1e-12)
    assert actual["micro_f1"] == pytest.approx(case["expected"]["micro_f1"], abs=1e-12)


def test_scikit_learn_agrees():
    rng = np.random.default_rng(0)
    true, scores = (rng.random((50, 7)) < 0.3).astype(int), rng.random((50, 7))
    true[:, 0] |= ~true.any(axis=1)
    thresholds = np.linspace(0.3, 0.8, 7)
    actual, predicted = multilabel_metrics(true, scores, thresholds), (scores > thresholds).astype(int)
    assert actual["micro_f1"] == pytest.approx(f1_score(true, predicted, average="micro"))
    assert actual["macro_f1"] == pytest.approx(f1_score(true, predicted, average="macro"))
    assert actual["subset_accuracy"] == pytest.approx(accuracy_score(true, predicted))
    assert actual["ndcg_at_5"] == pytest.approx(ndcg_score(true, scores, k=5))
    best = np.argsort(-scores, axis=1)
    for k in (1, 3, 5):
        expected = np.mean([row[order[:k]].mean() for row, order in zip(true, best, strict=True)])
        assert actual[f"precision_at_{k}"] == pytest.approx(expected)


def test_rows_without_labels():
    actual = multilabel_metrics([[0, 0], [1, 0]], [[0.1, 0.2], [0.9, 0.1]])
    assert actual["ndcg_at_5"] == 0.5 and actual["subset_accuracy"] == 1 and actual["micro_f1"] == 1
    with pytest.raises(ValueError, match="must be"):
        multilabel_metrics(np.zeros((0, 2)), np.zeros((0, 2)))


def test_chosen_thresholds_are_the_best_there_are():
    rng = np.random.default_rng(1)
    true = rng.random((40, 3)) < 0.3
    scores = (0.5 * rng.random((40, 3)) + 0.3 * true).round(2)  # with ties
    grid = [step / 400 for step in range(400)]

    def micro(threshold):
        return multilabel_metrics(true, scores, threshold)["micro_f1"]

    chosen = best_threshold(true, scores, "global")
    assert micro(chosen) == pytest.approx(max(map(micro, grid)))
    for label, threshold in enumerate(best_threshold(true, scores, "per_label")):
        column = true[:, [label]], scores[:, [label]]
        best = max(multilabel_metrics(*column, step)["micro_f1"] for step in grid)
        assert multilabel_metrics(*column, threshold)["micro_f1"] == pytest.approx(best)


def test_thresholds_without_anything_to_choose_by():
    assert best_threshold([[0], [0]], [[0.9], [0.1]], "global") == 0.5
    assert best_threshold([[1, 0], [1, 0]], [[0.7, 0.2], [0.7, 0.9]], "per_label").tolist() == [0.35, 0.5]
    assert best_threshold([[1], [0]], [[1.0], [0.0]], "global") == 0.5


def test_figures_of_each_label_are_those_of_scikit_learn():
    rng = np.random.default_rng(2)
    true, scores = rng.random((30, 4)) < 0.4, rng.random((30, 4))
    scores[:, 3] = 0  # never predicted
    actual = label_scores(true, scores, 0.6)
    expected = precision_recall_fscore_support(true, scores > 0.6, zero_division=0)
    for name, values in zip(("precision", "recall", "f1", "references"), expected, strict=True):
        np.testing.assert_allclose(getattr(actual, name), values)
    assert actual.predictions.tolist() == (scores > 0.6).sum(axis=0).tolist()
