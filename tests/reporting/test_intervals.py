"""Intervals against a slow bootstrap over rows, their coverage, and the rival that always says one class."""

import numpy as np
import pytest

from reporting.intervals import bootstrap_intervals, majority_metrics, multilabel_intervals
from reporting.metrics import classification_metrics
from reporting.multilabel_metrics import multilabel_metrics


def rows(number, rng, accuracy=0.8, num_classes=4):
    labels = rng.choice(num_classes, number, p=[0.5, 0.3, 0.15, 0.05])
    wrong = rng.random(number) > accuracy
    return labels, np.where(wrong, rng.integers(-1, num_classes, number), labels)


def test_a_multinomial_over_cells_is_a_bootstrap_over_rows():
    rng = np.random.default_rng(0)
    labels, predictions = rows(150, rng)
    fast = bootstrap_intervals(labels, predictions, 4, rng)
    draws = [rng.integers(0, 150, 150) for _ in range(2000)]
    slow = [classification_metrics(labels[draw], predictions[draw], 4) for draw in draws]
    for name in ("accuracy", "macro_f1"):
        ends = np.quantile([metrics[name] for metrics in slow], [0.025, 0.975])
        assert [fast[f"{name}_low"], fast[f"{name}_high"]] == pytest.approx(ends, abs=0.012)


def test_several_labels_are_resampled_by_rows_too():
    rng = np.random.default_rng(3)
    true = rng.random((150, 6)) < np.array([0.4, 0.3, 0.2, 0.1, 0.02, 0])  # rare ones are not in every resample
    scores = (true ^ (rng.random(true.shape) < 0.05)).astype(float)
    fast = multilabel_intervals(true, scores > 0.5, rng)
    draws = [rng.integers(0, 150, 150) for _ in range(2000)]
    slow = [multilabel_metrics(true[draw], scores[draw]) for draw in draws]
    for name in ("micro_f1", "macro_f1"):
        ends = np.quantile([metrics[name] for metrics in slow], [0.025, 0.975])
        assert [fast[f"{name}_low"], fast[f"{name}_high"]] == pytest.approx(ends, abs=0.012)
    assert set(multilabel_intervals(np.zeros((3, 2)), np.zeros((3, 2)), rng).values()) == {0.0}


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
