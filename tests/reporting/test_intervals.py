"""Intervals: their coverage, rows that say little, and the rival that always says one class."""

import numpy as np
import pytest

from reporting.intervals import INTERVAL_METRICS, bootstrap_intervals, majority_metrics, multilabel_intervals
from reporting.metrics import classification_metrics


def rows(number, rng, accuracy=0.8, num_classes=4):
    labels = rng.choice(num_classes, number, p=[0.5, 0.3, 0.15, 0.05])
    wrong = rng.random(number) > accuracy
    return labels, np.where(wrong, rng.integers(-1, num_classes, number), labels)


def test_rare_classes_that_are_never_right_do_not_move_the_interval_off_its_figure():
    """Thirty classes of a row each, all wrong: with rows drawn with replacement the interval was 50 % too high."""
    labels = np.concatenate([np.zeros(100, int), np.arange(1, 31)])
    predictions = np.zeros(130, int)
    value = classification_metrics(labels, predictions, 31)["macro_f1"]
    bounds = bootstrap_intervals(labels, predictions, 31, np.random.default_rng(0))
    assert bounds["macro_f1_low"] < value < bounds["macro_f1_high"] < 0.3


@pytest.mark.slow
@pytest.mark.parametrize(("number", "accuracy", "num_classes"), [(20, 0.95, 2), (30, 0.9, 3), (200, 0.8, 4)])
def test_figures_are_covered_as_often_as_promised(number, accuracy, num_classes):
    """Of a model that is as often right on each of classes of one size, and as often wrong in each direction: its
    macro-F1 is its accuracy. Resampled rows alone held 63 % of 20 rows, a third of them by no width at all."""
    rng = np.random.default_rng(1)
    covered = dict.fromkeys(INTERVAL_METRICS, 0)
    for _ in range(300):
        labels = rng.integers(0, num_classes, number)
        wrong = rng.random(number) > accuracy
        predictions = (labels + wrong * rng.integers(1, num_classes, number)) % num_classes
        bounds = bootstrap_intervals(labels, predictions, num_classes, rng)
        for name in covered:
            covered[name] += bounds[f"{name}_low"] <= accuracy <= bounds[f"{name}_high"]
    assert all(0.92 < count / 300 < (0.985 if number == 200 else 1) for count in covered.values())


@pytest.mark.parametrize("labels", [np.arange(20) % 2, np.zeros(20, int)], ids=["two classes", "one of two"])
def test_a_few_rows_all_right_are_not_taken_for_certain(labels):
    several = multilabel_intervals(np.eye(2)[labels], np.eye(2)[labels], np.random.default_rng(0))
    bounds = bootstrap_intervals(labels, labels, 2, np.random.default_rng(0)) | several
    assert all(0.5 < value < 0.96 for name, value in bounds.items() if name.endswith("_low"))
    assert {value for name, value in bounds.items() if name.endswith("_high")} == {1.0}


def test_answers_of_no_class_are_wrong_and_no_class_of_their_own():
    labels = np.arange(40) % 2
    none, other = (np.where(np.arange(40) < 10, wrong, labels) for wrong in (-1, 1 - labels))
    bounds = bootstrap_intervals(labels, none, 2, np.random.default_rng(0))
    of_errors = bootstrap_intervals(labels, other, 2, np.random.default_rng(0))
    assert bounds["accuracy_low"] == pytest.approx(of_errors["accuracy_low"], abs=0.02)
    assert bounds["macro_f1_low"] < classification_metrics(labels, none, 2)["macro_f1"] < bounds["macro_f1_high"]


def test_no_label_at_all_is_no_figure_to_be_unsure_of():
    rng = np.random.default_rng(0)
    assert set(multilabel_intervals(np.zeros((3, 2)), np.zeros((3, 2)), rng).values()) == {0.0}


def test_a_few_rows_say_less_than_many():
    rng = np.random.default_rng(2)
    few = bootstrap_intervals(*rows(20, rng), 4, rng)
    many = bootstrap_intervals(*rows(2000, rng), 4, rng)
    widths = [interval["macro_f1_high"] - interval["macro_f1_low"] for interval in (few, many)]
    assert widths[0] > 4 * widths[1]


def test_the_largest_class():
    assert majority_metrics([0, 0, 1], [1, 5]) == {"majority_accuracy": 1 / 3, "majority_macro_f1": 0.25}
    assert majority_metrics([0, 1], [0, 0]) == {}
