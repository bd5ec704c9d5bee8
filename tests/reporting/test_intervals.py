"""Intervals against a slow bootstrap over rows, their coverage, and the rival that always says one class."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from reporting.intervals import bootstrap_intervals, majority_metrics, multilabel_intervals
from reporting.metrics import classification_metrics


def rows(number, rng, accuracy=0.8, num_classes=4):
    labels = rng.choice(num_classes, number, p=[0.5, 0.3, 0.15, 0.05])
    wrong = rng.random(number) > accuracy
    return labels, np.where(wrong, rng.integers(-1, num_classes, number), labels)


def weighted_macro_f1(true, predicted, weights):
    """By scikit-learn, of rows (N, C) of 0 and 1."""
    return f1_score(true, predicted, average="macro", sample_weight=weights, zero_division=0.0)


def ends_of(figures):
    return pytest.approx(np.quantile(figures, [0.025, 0.975]), abs=0.015)


@pytest.mark.slow
def test_a_gamma_draw_a_cell_is_a_weight_a_row():
    rng = np.random.default_rng(0)
    labels, predictions = rows(150, rng)
    bounds = bootstrap_intervals(labels, predictions, 4, rng)
    true, predicted = (values[:, None] == np.arange(4) for values in (labels, predictions))
    draws = rng.exponential(size=(1000, 150))
    macro_f1 = [weighted_macro_f1(true, predicted, weights) for weights in draws]
    accuracy = [np.average(labels == predictions, weights=weights) for weights in draws]
    assert [bounds["macro_f1_low"], bounds["macro_f1_high"]] == ends_of(macro_f1)
    assert [bounds["accuracy_low"], bounds["accuracy_high"]] == ends_of(accuracy)


@pytest.mark.slow
def test_several_labels_are_resampled_by_rows_too():
    rng = np.random.default_rng(3)
    true = rng.random((150, 6)) < np.array([0.4, 0.3, 0.2, 0.1, 0.02, 0])
    predicted = true ^ (rng.random(true.shape) < 0.05)
    bounds = multilabel_intervals(true, predicted, rng)
    macro_f1 = [weighted_macro_f1(true, predicted, weights) for weights in rng.exponential(size=(1000, 150))]
    assert [bounds["macro_f1_low"], bounds["macro_f1_high"]] == ends_of(macro_f1)
    assert set(multilabel_intervals(np.zeros((3, 2)), np.zeros((3, 2)), rng).values()) == {0.0}


def test_rare_classes_that_are_never_right_do_not_move_the_interval_off_its_figure():
    """Thirty classes of a row each, all wrong: with rows drawn with replacement the interval was 50 % too high."""
    labels = np.concatenate([np.zeros(100, int), np.arange(1, 31)])
    predictions = np.zeros(130, int)
    value = classification_metrics(labels, predictions, 31)["macro_f1"]
    bounds = bootstrap_intervals(labels, predictions, 31, np.random.default_rng(0))
    assert bounds["macro_f1_low"] < value < bounds["macro_f1_high"] < 1.1 * value


@pytest.mark.slow
def test_accuracy_is_covered_as_often_as_promised():
    rng = np.random.default_rng(1)
    true = 0.8 + 0.2 / 5  # a wrong row is right by chance among five answers
    covered = 0
    for _ in range(300):
        interval = bootstrap_intervals(*rows(200, rng), 4, rng)
        covered += interval["accuracy_low"] <= true <= interval["accuracy_high"]
    assert 0.9 < covered / 300 < 0.985


def test_a_perfect_run_has_no_width_and_a_few_rows_have_much():
    rng = np.random.default_rng(2)
    assert set(bootstrap_intervals([0, 1, 2, 3], [0, 1, 2, 3], 4, rng).values()) == {1.0}
    few = bootstrap_intervals(*rows(20, rng), 4, rng)
    many = bootstrap_intervals(*rows(2000, rng), 4, rng)
    widths = [interval["macro_f1_high"] - interval["macro_f1_low"] for interval in (few, many)]
    assert widths[0] > 4 * widths[1]


def test_the_largest_class():
    assert majority_metrics([0, 0, 1], [1, 5]) == {"majority_accuracy": 1 / 3, "majority_macro_f1": 0.25}
    assert majority_metrics([0, 1], [0, 0]) == {}
