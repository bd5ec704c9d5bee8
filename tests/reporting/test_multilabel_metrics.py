"""Metrics of several labels: golden cases, scikit-learn, and rows without labels."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, ndcg_score

from reporting.multilabel_metrics import multilabel_metrics

CASES = json.loads((Path(__file__).parents[1] / "golden" / "knn_mltc.json").read_text())["cases"]


def test_golden():
    case = next(case for case in CASES if case["id"] == "metrics")
    found = multilabel_metrics(case["inputs"]["gold"], case["inputs"]["pred"])
    assert found["hamming_loss"] == pytest.approx(case["expected"]["hamming_loss"], abs=1e-12)
    assert found["micro_f1"] == pytest.approx(case["expected"]["micro_f1"], abs=1e-12)


def test_scikit_learn_agrees():
    rng = np.random.default_rng(0)
    true, scores = (rng.random((50, 7)) < 0.3).astype(int), rng.random((50, 7))
    true[:, 0] |= ~true.any(axis=1)
    thresholds = np.linspace(0.3, 0.8, 7)
    found, predicted = multilabel_metrics(true, scores, thresholds), (scores > thresholds).astype(int)
    assert found["micro_f1"] == pytest.approx(f1_score(true, predicted, average="micro"))
    assert found["macro_f1"] == pytest.approx(f1_score(true, predicted, average="macro"))
    assert found["subset_accuracy"] == pytest.approx(accuracy_score(true, predicted))
    assert found["ndcg_at_5"] == pytest.approx(ndcg_score(true, scores, k=5))
    best = np.argsort(-scores, axis=1)
    for k in (1, 3, 5):
        expected = np.mean([row[order[:k]].mean() for row, order in zip(true, best, strict=True)])
        assert found[f"precision_at_{k}"] == pytest.approx(expected)


def test_rows_without_labels():
    found = multilabel_metrics([[0, 0], [1, 0]], [[0.1, 0.2], [0.9, 0.1]])
    assert found["ndcg_at_5"] == 0.5 and found["subset_accuracy"] == 1 and found["micro_f1"] == 1
    with pytest.raises(ValueError, match="must be"):
        multilabel_metrics(np.zeros((0, 2)), np.zeros((0, 2)))
