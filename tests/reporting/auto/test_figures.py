"""Calibration, abstention, learning curve, suspect labels and duplicates, each where the answer is known."""

import sys

import numpy as np
import pandas as pd
import pytest

from reporting import resampling
from reporting.auto.learning_curve import fit_power_law, learning_curve
from reporting.auto.suspects import duplicates, suspect_label_sets, suspect_labels
from reporting.calibration import (
    abstention,
    answers,
    at_temperature,
    brier_score,
    calibration_bins,
    expected_calibration_error,
    fit_temperature,
)


def drawn_answers(rng, number, true_temperature=1.0):
    """Probabilities (N, 3) that mean what they say once divided by the temperature, and labels drawn from those."""
    logits = 4 * rng.normal(size=(number, 3))
    softmax = lambda x: np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)  # noqa: E731
    true = softmax(logits)
    labels = (rng.random(number)[:, None] > true.cumsum(axis=1)).sum(axis=1)
    return labels, softmax(logits * true_temperature)


def test_calibration_of_what_is_calibrated_and_of_what_is_not():
    labels, probabilities = drawn_answers(np.random.default_rng(0), 20_000)
    assert expected_calibration_error(*answers(labels, probabilities)) < 0.01
    assert brier_score(np.array([0, 1]), np.array([[1.0, 0.0], [1.0, 0.0]])) == 1.0
    labels, sure = drawn_answers(np.random.default_rng(0), 20_000, 3.0)
    assert expected_calibration_error(*answers(labels, sure)) > 0.08
    assert fit_temperature(labels, sure) == pytest.approx(3, rel=0.05)
    assert brier_score(labels, at_temperature(sure, 3)) < brier_score(labels, sure)
    assert at_temperature(sure, 1.0) == pytest.approx(sure)
    constant = np.tile([0.5, 0.3, 0.2], (10, 1))  # all in one bin, not in ten
    assert [part["rows"] for part in calibration_bins(*answers(np.zeros(10, int), constant))] == [10]


def test_a_threshold_keeps_its_precision_nineteen_times_in_twenty():
    rng, missed, reached = np.random.default_rng(1), 0, 0
    labels, probabilities = drawn_answers(rng, 50_000)
    is_right = probabilities.argmax(axis=1) == labels
    for _ in range(200):
        sample = rng.choice(len(labels), 300, replace=False)
        rule = abstention(*answers(labels[sample], probabilities[sample]), 0.9)
        if rule.reached:
            reached += 1
            missed += is_right[probabilities.max(axis=1) >= rule.threshold].mean() < 0.9
    assert reached > 180 and missed / reached < 0.05 + 3 * np.sqrt(0.05 * 0.95 / reached)
    few = abstention(*answers(labels[:10], probabilities[:10]), 0.95)
    assert not few.reached and few.coverage == 0


def test_a_learning_curve_is_read_on_and_noise_is_not():
    sizes = np.array([50.0, 100, 200, 400])
    assert fit_power_law(sizes, 0.9 - 2 * sizes**-0.5) == pytest.approx((0.9, 2, 0.5), abs=0.02)
    rng = np.random.default_rng(2)

    def points(noise):
        rows = [(int(n), fold, 0.9 - 2 * n**-0.5 + noise * rng.normal()) for n in sizes for fold in range(5)]
        return pd.DataFrame(rows, columns=["rows", "fold", "macro_f1"]).assign(repeat=0)

    curve = learning_curve(points(0.005), 500)
    twice, last = curve["twice_the_labels"], curve["points"][-1]["macro_f1"]
    typical = 0.167 * 5**-0.35 * (1 - last)
    own = 2 * (500**-0.5 - 1000**-0.5)
    assert twice["rows"] == 1000 and twice["gain"] == pytest.approx(0.75 * typical + 0.25 * own, abs=0.004)
    assert twice["macro_f1"] == pytest.approx(last + twice["gain"])
    assert "too few" in learning_curve(points(0.1).query("rows < 150"), 500)["note"]


@pytest.mark.parametrize("rows", [100, 1000])
def test_the_range_of_twice_the_labels_holds_what_they_bring(rows):
    """Of power laws whose folds and drawings scatter, a quarter of them as macro-F1 of rare classes does."""
    rng, held = np.random.default_rng(rows), []
    shares, of_twice = 0.8 * rows * np.array([0.25, 0.5, 0.75, 1]), [rows, 2 * rows]
    for number in range(100):
        chance = 2.5 if number % 4 == 0 else 1.0
        lack, exponent = rng.uniform(0.2, 0.65), rng.uniform(0.3, 0.8)
        floor = lack * rng.uniform(0.2, 0.8)  # what no label brings
        shown, true = (1 - floor - (lack - floor) * (np.array(n) / 100) ** -exponent for n in (shares, of_twice))
        drawn, twice = 0.3 * chance / np.sqrt(of_twice) * rng.normal(size=2)
        of_test_rows = 0.8 * rng.normal(size=(5, 1)) + 0.6 * rng.normal(size=(5, 4))
        values = (shown + drawn + 0.5 * chance / np.sqrt(rows / 5) * of_test_rows).clip(0, 1)
        points = pd.DataFrame({"rows": np.tile(shares, 5), "fold": np.repeat(range(5), 4), "macro_f1": values.ravel()})
        told = learning_curve(points.assign(repeat=0), rows)["twice_the_labels"]
        held.append(told["gain_lower"] <= true[1] + twice - true[0] - drawn <= told["gain_upper"])
    assert 0.9 <= np.mean(held) <= 0.98


def test_folds_of_different_sizes_make_one_learning_curve():
    """The same share of two folds may be 20 and 21 rows."""
    rows = [(size + fold % 2, 0, fold, 0.9 - 2 * size**-0.5) for size in (20, 40, 60, 80) for fold in range(5)]
    points = pd.DataFrame(rows, columns=["rows", "repeat", "fold", "macro_f1"])
    lost = (points["fold"] == 4) & (points["rows"] == 20)  # a fold with too few texts in its smallest part
    for table in (points, points[~lost]):
        curve = learning_curve(table, 100)
        assert [point["rows"] for point in curve["points"]] == [20, 40, 60, 80]
        assert curve["points"][0]["macro_f1"] == pytest.approx(0.9 - 2 * 20**-0.5)
        assert curve["twice_the_labels"]["rows"] == 200


def test_labels_that_all_rows_have_or_none_are_left_out_of_suspicion():
    rng = np.random.default_rng(0)
    labels = rng.random((40, 4)) < 0.4
    probabilities = np.where(labels, 0.9, 0.1)
    probabilities[3, 1] = 1 - probabilities[3, 1]
    ones = np.ones((40, 1))
    more = np.hstack([ones > 0, labels, ones < 0]), np.hstack([0.9 * ones, probabilities, 0.1 * ones])
    expected = suspect_label_sets(labels, probabilities)
    assert len(expected) and suspect_label_sets(*more).equals(expected)
    assert suspect_label_sets(more[0][:, :2], more[1][:, :2]).empty, "one label that varies"


def test_wrong_labels_are_suspected():
    rng = np.random.default_rng(3)
    labels, probabilities = drawn_answers(rng, 400)
    probabilities = 0.05 + 0.85 * np.eye(3)[labels]
    wrong = rng.choice(400, 12, replace=False)
    labels[wrong] = (labels[wrong] + 1) % 3
    suspects = suspect_labels(labels, probabilities)
    assert set(suspects["position"]) == set(wrong)
    assert suspects["label_quality"].to_numpy() == pytest.approx(0.05)
    assert (suspects["suggested"] == (labels[suspects["position"]] + 2) % 3).all()


def test_equal_and_nearly_equal_texts(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)  # an extra, which not everyone installs
    vectors = np.eye(4, dtype=np.float32)
    vectors[3] = [0.98, 0.199, 0, 0]
    pairs = duplicates(["One  text", "two", "ONE text", "One text!"], np.array([0, 0, 1, 0]), vectors)
    assert pairs[["first", "second", "same_label"]].values.tolist() == [[0, 2, False], [0, 3, True]]
    assert pairs["similarity"].tolist() == pytest.approx([1.0, 0.98], abs=1e-3)
    vectors[[0, 1, 2]] = 0  # of texts that are read in part
    texts = ["long one", "long two", "LONG one", "short"]
    assert duplicates(texts, np.zeros(4, int), vectors)[["first", "second"]].values.tolist() == [[0, 2]]
    assert len(duplicates(texts, np.zeros(4, int), 0 * vectors)) == 1


def test_draws_of_many_classes_of_few_rows_lie_about_the_figure():
    labels = np.repeat(np.arange(20), 5)
    predictions = np.where(np.arange(100) % 7 == 0, (labels + 1) % 20, labels)
    patterns = resampling.Patterns.of(labels, predictions[:, None], 20)
    draws, whole = resampling.bootstrap(patterns, np.random.default_rng(0)), resampling.estimate(patterns)
    for name in ("macro_f1", "micro_f1"):
        lower, upper = resampling.interval(getattr(draws, name), getattr(whole, name)[0])
        assert upper - getattr(whole, name)[0] == pytest.approx(getattr(whole, name)[0] - lower, rel=0.5)
