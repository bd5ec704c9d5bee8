"""Metrics against scikit-learn and by hand."""

import warnings

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from reporting.metrics import class_scores, classification_metrics, confusion_matrix, non_uniformity, thirds


@pytest.mark.parametrize("seed", range(5))
def test_equal_to_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    labels, predictions = rng.integers(0, 9, 60), rng.integers(2, 12, 60)
    ours = classification_metrics(labels, predictions, num_classes=15)
    scores = class_scores(labels, predictions, 15)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ours["macro_f1"] == pytest.approx(sklearn_metrics.f1_score(labels, predictions, average="macro"))
        assert ours["micro_f1"] == pytest.approx(sklearn_metrics.f1_score(labels, predictions, average="micro"))
        precision, recall, f1, _ = sklearn_metrics.precision_recall_fscore_support(
            labels, predictions, labels=range(15), zero_division=0
        )
    assert ours["accuracy"] == pytest.approx(sklearn_metrics.accuracy_score(labels, predictions))
    np.testing.assert_allclose([scores.precision, scores.recall, scores.f1], [precision, recall, f1])


def test_a_class_never_predicted_counts_zero():
    assert classification_metrics([0, 0, 1], [0, 0, 0], 5)["macro_f1"] == pytest.approx(0.8 / 2)


def test_thirds_by_size_with_ties_in_order():
    groups = thirds([5, 100, 7, 7, 1, 50, 3])
    assert [groups[name].tolist() for name in ("head", "middle", "tail")] == [[1, 5, 2], [3, 0], [6, 4]]
    assert thirds([3, 9])["tail"].size == 0


def test_f1_of_thirds_uses_classes_of_the_references_only():
    labels, predictions = [0, 0, 1, 2, 2], [0, 0, 2, 2, 3]
    ours = classification_metrics(labels, predictions, 6, class_counts=[9, 8, 7, 6, 5, 4])
    assert ours["macro_f1_head"] == pytest.approx((1 + 0) / 2)
    assert ours["macro_f1_middle"] == pytest.approx(0.5)
    assert "macro_f1_tail" not in ours


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="allowed 0 to 2"):
        classification_metrics([0, 3], [0, 1], 3)
    with pytest.raises(ValueError, match="equally long"):
        classification_metrics([0, 1], [0], 3)
    with pytest.raises(ValueError, match="at least one row"):
        classification_metrics([], [], 3)


def test_a_prediction_that_is_no_class_is_an_error_of_its_class_alone():
    labels, predictions = [0, 0, 1, 1, 2], [0, -1, 1, 1, -1]
    actual = classification_metrics(labels, predictions, 3, [2, 2, 1])
    f1 = sklearn_metrics.f1_score(labels, predictions, labels=[0, 1, 2], average=None, zero_division=0)
    assert actual["accuracy"] == 0.6 and actual["macro_f1"] == pytest.approx(f1.mean())
    assert confusion_matrix(labels, predictions, 3).tolist() == [[1, 0, 0], [0, 2, 0], [0, 0, 0]]
    with pytest.raises(ValueError, match="predictions: found class"):
        confusion_matrix(labels, [0, -2, 1, 1, 0], 3)


def test_non_uniformity_is_the_l1_distance_from_equal_shares():
    assert non_uniformity([5, 5, 5, 5]) == 0
    assert non_uniformity([3, 1]) == pytest.approx(0.5)
    assert non_uniformity([7, 0, 0, 0]) == pytest.approx(1.5)  # 2 (1 - 1/C)
    assert 100 * non_uniformity([60, 20, 20]) == pytest.approx(53.333333)
