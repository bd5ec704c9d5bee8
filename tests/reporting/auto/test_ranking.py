"""Intervals, paired tests and the recommendation of `task=auto`, where the truth is known."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score

from reporting.auto.ranking import (
    GAIN_MEAN,
    GAIN_SPREAD,
    STEPS_MEAN,
    OutOfFold,
    known_gain,
    rank,
    recommend,
)
from reporting.resampling import DRAWS, Patterns, bias, bootstrap, difference_test, estimate, interval, num_draws


def rows(rng, counts=(60, 25, 8), skill=0.75, repeats=2):
    """Labels and predictions (N, R) that are right with probability `skill`, mostly in the same rows each time."""
    labels = np.repeat(np.arange(len(counts)), counts)
    is_right = (rng.random(len(labels)) < skill)[:, None] ^ (rng.random((len(labels), repeats)) < 0.05)
    others = (labels[:, None] + rng.integers(1, len(counts), (len(labels), repeats))) % len(counts)
    return labels, np.where(is_right, labels[:, None], others)


def test_figures_are_the_mean_of_scikit_learns_over_repeats():
    labels, predictions = rows(np.random.default_rng(0))
    figures = estimate(Patterns.of(labels, predictions, 3))
    assert figures.macro_f1[0] == pytest.approx(np.mean([f1_score(labels, p, average="macro") for p in predictions.T]))
    assert figures.f1[0] == pytest.approx(np.mean([f1_score(labels, p, average=None) for p in predictions.T], axis=0))
    assert figures.micro_f1[0] == pytest.approx((predictions == labels[:, None]).mean())


def test_repeats_of_a_row_are_no_further_rows():
    """Copied repeats, as four times the rows, would halve the interval."""
    labels, predictions = rows(np.random.default_rng(1), repeats=1)
    widths = []
    for copies in (1, 4):
        draws = bootstrap(Patterns.of(labels, np.tile(predictions, copies), 3), np.random.default_rng(2)).macro_f1
        widths.append(np.ptp(interval(draws, draws.mean())))
    assert widths[1] == pytest.approx(widths[0], rel=0.02)


def test_rows_of_one_text_are_one_row():
    """As a join of tables multiplies them: four times the rows would halve the intervals."""
    rng = np.random.default_rng(6)
    labels, first = rows(rng)
    second, groups = rows(rng)[1], np.tile(np.arange(len(labels)), 4)
    copied = np.tile(labels, 4), np.tile(first, (4, 1)), np.tile(second, (4, 1))
    draws = bootstrap(Patterns.of(labels, first, 3), np.random.default_rng(7))
    of_copies = bootstrap(Patterns.of(*copied[:2], 3, groups), np.random.default_rng(7))
    for name in ("micro_f1", "macro_f1", "f1"):
        assert getattr(of_copies, name) == pytest.approx(getattr(draws, name))
    test = difference_test(labels, first, second, 3, np.random.default_rng(8))
    assert difference_test(*copied, 3, np.random.default_rng(8), groups=groups) == pytest.approx(test)


@pytest.mark.slow
def test_all_rows_of_a_text_are_exchanged_whatever_their_labels():
    labels = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 1, 0, 0, 1, 1])
    groups = np.array([5, 5, 5, 1, 1, 2, 2, 2, 3, 3, 4, 0, 6, 7])
    first, second = (np.random.default_rng(seed).integers(0, 3, 8)[groups] for seed in (9, 10))
    exchanged = []
    for swaps in product([False, True], repeat=8):
        is_swapped = np.array(swaps)[groups]
        one, two = np.where(is_swapped, second, first), np.where(is_swapped, first, second)
        exchanged.append(f1_score(labels, one, average="macro") - f1_score(labels, two, average="macro"))
    sides = first[:, None], second[:, None]
    difference, p, error = difference_test(labels, *sides, 3, np.random.default_rng(0), 20_000, groups)
    assert difference == pytest.approx(exchanged[0]) and error == pytest.approx(np.std(exchanged), rel=0.02)
    assert p == pytest.approx(np.mean(np.abs(exchanged) >= abs(exchanged[0]) - 1e-12), abs=0.015)


def test_few_texts_of_many_rows_say_little_of_the_size_of_a_class():
    labels, groups = np.repeat([0, 1], 50), np.concatenate([np.arange(50) // 10, np.arange(50, 100)])
    draws = bootstrap(Patterns.of(labels, np.zeros((100, 1), int), 2, groups), np.random.default_rng(0)).micro_f1
    by_sizes = np.sqrt(50**2 * (5 * 10**2 + 50)) / 100**2  # of a share, to the first order
    assert draws.std() == pytest.approx(by_sizes, rel=0.15)


def test_a_text_is_right_where_all_its_rows_are():
    labels, answers = np.array([0, 1, 2, 2, 1]), np.array([0, 0, 2, 2, 0])
    table = pd.DataFrame(0.6 * np.eye(3)[answers] + 0.1, columns=["p_0", "p_1", "p_2"])
    table = table.assign(row=np.arange(5), repeat=0, fold=0, label=labels)
    part = OutOfFold.of(table, pd.Series([0, 0, 1, 1, 2])).part(np.array([True, True, True, True, False]))
    sure, right = part.surest_of_texts()
    assert right.tolist() == [False, True] and sure == pytest.approx([0.7, 0.7])
    assert part.texts_of_class.tolist() == [1, 1, 1]


def test_a_rare_class_that_is_all_right_is_not_sure():
    labels = np.repeat([0, 1], [50, 5])
    draws = bootstrap(Patterns.of(labels, labels[:, None], 2), np.random.default_rng(0))
    lower, upper = interval(draws.f1, np.ones(2))
    assert lower[1] < 0.8 < 0.95 < lower[0] and (upper == 1).all()


def test_macro_f1_of_few_rows_is_off_by_what_all_drawings_of_them_say():
    """Each class has its rows and half a pseudo-row of each kind: right are 3 of 4 of the first, half of the second."""
    labels, right = np.array([0, 1, 1]), np.array([0.75, 0.5, 0.5])
    mean = 0.0
    for is_right in product([True, False], repeat=3):
        share = np.prod(np.where(is_right, right, 1 - right))
        answers = np.where(is_right, labels, 1 - labels)
        mean += share * f1_score(labels, answers, average="macro")
    of_many = np.mean([2 * 0.75 / (1 + 0.75 + 1), 2 * 1 / (2 + 1 + 0.25)])
    patterns = Patterns.of(labels, np.array([[0], [1], [0]]), 2)
    assert bias(patterns, np.random.default_rng(0), 40_000) == pytest.approx(mean - of_many, abs=0.005)
    twice = Patterns.of(np.tile(labels, 2), np.tile([[0], [1], [0]], (2, 1)), 2, np.tile(np.arange(3), 2))
    assert bias(twice, np.random.default_rng(0), 40_000) == pytest.approx(mean - of_many, abs=0.005)


def test_an_interval_knows_on_which_side_rare_classes_leave_the_figure():
    """Of 60 classes of a row each, a third of them right, macro-F1 of many rows is higher."""
    labels, rng = np.arange(60), np.random.default_rng(1)
    answers = np.where(rng.random(60) < 1 / 3, labels, rng.integers(0, 60, 60))
    table = pd.DataFrame(np.eye(60)[answers], columns=[f"p_{c}" for c in range(60)])
    part = OutOfFold.of(table.assign(row=labels, repeat=0, fold=0, label=labels))
    row = rank([{"candidate": "a", "title": "a", "train_seconds": 1}], {"a": part}, "quality", 0).iloc[0]
    assert part.bias(0) < -0.02
    assert row["macro_f1_upper"] - row["macro_f1"] > row["macro_f1"] - row["macro_f1_lower"] - part.bias(0) / 2


def test_of_very_many_patterns_rows_are_resampled_less_often():
    assert [num_draws(number) for number in (1, 2500, 5000, 10**6)] == [DRAWS, DRAWS, DRAWS // 2, 500]


def test_accuracy_knows_that_the_sizes_of_the_classes_are_a_draw_too():
    """Of two classes that are all right and all wrong it is the share of the first, of which rows within a class say
    nothing."""
    labels = np.repeat([0, 1], 50)
    draws = bootstrap(Patterns.of(labels, np.zeros((100, 1), int), 2), np.random.default_rng(0)).micro_f1
    assert draws.std() == pytest.approx(np.sqrt(0.25 / 100), rel=0.15)
    assert draws.mean() == pytest.approx(0.5, abs=0.02)


def test_equal_candidates_are_told_apart_in_five_percent_at_most():
    rng, rejected = np.random.default_rng(3), 0
    for _ in range(200):
        labels, first = rows(rng)
        second = rows(rng)[1]
        rejected += difference_test(labels, first, second, 3, rng, draws=200)[1] < 0.05
    assert rejected / 200 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    labels, better = rows(rng, skill=0.9)
    difference, p, error = difference_test(labels, better, rows(rng, skill=0.5)[1], 3, rng, draws=200)
    assert difference > 0.2 and p < 0.01 and 0 < error < 0.15


def table(labels, predictions, repeats):
    probabilities = np.eye(3)[predictions]
    parts = [
        pd.DataFrame(probabilities[:, r], columns=["p_0", "p_1", "p_2"]).assign(
            row=np.arange(len(labels)), repeat=repeat, fold=0, label=labels
        )
        for r, repeat in enumerate(repeats)
    ]
    return OutOfFold.of(pd.concat(parts))


def test_candidates_meet_on_the_repeats_that_both_have():
    """A fine-tuned one has fewer; a figure of all repeats beside one of a single one would compare other splits."""
    labels, predictions = rows(np.random.default_rng(4), repeats=3)
    some, all_three = table(labels, predictions[:, [1]], [1]), table(labels, predictions, [0, 1, 2])
    _, first, second = some.shared(all_three)
    assert (first == second).all() and first.shape == (1, len(labels))
    entries = [{"candidate": name, "title": name, "train_seconds": seconds} for name, seconds in (("a", 9), ("b", 1))]
    ranking = rank(entries, {"a": all_three, "b": some}, "quality", 0)
    assert ranking["difference_to_best"].tolist() == [0.0, 0.0]
    assert ranking.loc[ranking["recommended"], "candidate"].tolist() == ["b"]


def test_figures_of_a_part_of_the_rows_are_told_for_all():
    """Its own would be those of the rows that it happens to have, here the easy ones."""
    labels, predictions = rows(np.random.default_rng(5), counts=(400, 300, 200), skill=0.6, repeats=1)
    is_easy = (predictions[:, 0] == labels) | (np.arange(len(labels)) % 4 == 0)
    whole, part = table(labels, predictions, [0]), table(labels, predictions, [0]).part(is_easy)
    entries = [{"candidate": name, "title": name, "train_seconds": 1} for name in ("whole", "part")]
    ranking = rank(entries, {"whole": whole, "part": part}, "quality", 0).set_index("candidate")
    figures = ["macro_f1", "accuracy", "difference_to_best"]
    assert ranking.loc["part", figures].tolist() == pytest.approx(ranking.loc["whole", figures].tolist())
    assert part.estimate().macro_f1 > ranking.loc["part", "macro_f1_upper"] > ranking.loc["part", "macro_f1"]


def test_the_cheapest_of_what_is_as_good_and_what_else_may_be_preferred():
    columns = ["candidate", "train_seconds", "size_mib", "texts_per_second", "within_noise", "difference_to_best"]
    finished = pd.DataFrame([
        ("best", 401, 90, 10, True, 0.0), ("near", 200, 80, 20, True, -0.004),
        ("far", 5, 70, 30, True, -0.006), ("worse", 1, 1, 99, False, -0.003),
    ], columns=columns)  # fmt: skip
    assert [recommend(finished, prefer) for prefer in ("quality", "speed", "size")] == ["near", "far", "far"]
    alike = finished.assign(texts_per_second=[28, 29, 30, 99], size_mib=[72, 71, 70, 1])  # timings, not decisions
    assert [recommend(alike, prefer) for prefer in ("speed", "size")] == ["best", "best"]
    unmeasured = finished.assign(texts_per_second=np.nan)
    assert recommend(unmeasured, "speed") == "best"
    assert recommend(finished.head(0)) is None
    for seconds, near in ((399, 200), (70, 11), (11, 11)):  # less than twice those of the cheaper one, or a minute more
        finished.loc[finished["candidate"].isin(["best", "near"]), "train_seconds"] = [seconds, near]
        assert recommend(finished) == "best"
    finished.loc[finished["candidate"] == "near", ["train_seconds", "difference_to_best"]] = [10, 0.0]
    assert recommend(finished) == "near"


def test_a_fine_tuned_candidate_counts_as_better_the_less_the_rows_tell():
    """Up to some points below the best it is taken, whatever it is above, and of more rows fewer points."""
    columns = ["candidate", "train_seconds", "within_noise", "difference_to_best"]
    finished = pd.DataFrame([("frozen", 1, True, 0.0), ("tuned", 30, True, -0.035)], columns=columns)
    for known, chosen in ((0.04, "tuned"), (0.0225, "frozen")):
        assert recommend(finished.assign(known_gain=[0.0, known])) == chosen
    alike = finished.assign(known_gain=[0.0, 0.04], texts_per_second=9, size_mib=9)
    assert [recommend(alike, prefer) for prefer in ("quality", "speed", "size")] == ["tuned", "frozen", "frozen"]
    later = finished.assign(train_seconds=[1, 300])  # five minutes more are worth it from half a point on
    for known, chosen in ((0.045, "tuned"), (0.038, "frozen")):
        assert recommend(later.assign(known_gain=[0.0, known])) == chosen


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 10])
def test_what_is_known_of_fine_tuning_counts_whichever_is_better_by_the_rows(size):
    labels = np.repeat([0, 1, 2], 100 * size)
    wrong = np.random.default_rng(0).permutation(300 * size)

    def answers(of):
        predictions = labels.copy()
        predictions[of] = (labels[of] + 1) % 3
        return table(labels, predictions[:, None], [0])

    frozen = answers(wrong[: 60 * size])
    entries = [{"candidate": name, "title": name, "train_seconds": seconds, "is_known_to_gain": name == "tuned"}
               for name, seconds in (("frozen", 1), ("tuned", 200))]  # fmt: skip
    chosen = {}
    for more in range(-8 * size, 9 * size, 2 * size):  # wrong rows, half of them the other's
        tuned = answers(wrong[30 * size : 90 * size + more])
        ranking = rank(entries, {"frozen": frozen, "tuned": tuned}, "quality", 0)
        chosen[more] = ranking.loc[ranking["recommended"], "candidate"].item()
    order = [chosen[more] for more in sorted(chosen)]
    switch = order.index("frozen")
    assert order == ["tuned"] * switch + ["frozen"] * (len(order) - switch)
    error = known_gain(tuned, frozen, 0) ** 0.5 * GAIN_SPREAD / GAIN_MEAN**0.5
    assert error == pytest.approx(np.sqrt(2 * 30 * size) / (300 * size), rel=0.15)
    assert (chosen[0] == "tuned") == (size == 1)
    five_times = STEPS_MEAN * np.log(5)
    more = known_gain(tuned, frozen, 0, (16, 80)) - known_gain(tuned, frozen, 0)
    assert more == pytest.approx(five_times + GAIN_MEAN * (five_times / GAIN_SPREAD) ** 2)
    brief = known_gain(tuned, frozen, 0, (16, 16)) / known_gain(tuned, frozen, 0)
    assert brief == pytest.approx(1 - five_times / GAIN_MEAN)
    entries[1]["pair_steps"] = (16, 80)  # in the folds and on all rows
    sides = {"frozen": frozen, "tuned": answers(wrong[30 * size : 90 * size + int((more - 0.01) * 300)])}
    assert rank(entries, sides, "quality", 0).set_index("candidate").loc["tuned", "recommended"]
    few = [table(np.arange(12) % 3, (np.arange(12) + shift)[:, None] % 3, [0]) for shift in (0, 1)]
    assert known_gain(*few, 0) == pytest.approx(GAIN_MEAN)  # of 12 rows no more is known than that


def test_a_sum_is_taken_in_place_of_its_part_unless_the_part_is_shown_to_be_better():
    columns = ["candidate", "train_seconds", "size_mib", "texts_per_second", "within_noise", "difference_to_best"]
    finished = pd.DataFrame([("part", 1, 1, 9, True, 0.0), ("sum", 9, 9, 1, True, -0.02)], columns=columns)
    parts = {"part": [], "sum": ["part"]}
    assert [recommend(finished, prefer, parts) for prefer in ("quality", "speed", "size")] == ["sum", "part", "part"]
    finished.loc[1, "within_noise"] = False
    assert recommend(finished, "quality", parts) == "part"


@pytest.mark.slow
@pytest.mark.parametrize("repeats", [1, 4])
def test_calibrated_answers_have_the_error_that_chance_gives_them(repeats):
    """A row that four drawings predict alike is one row."""
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet([1, 1, 1], 200)
    errors, expected = [], []
    for _ in range(60):
        labels = (rng.random(200)[:, None] > probabilities.cumsum(axis=1)).sum(axis=1)
        parts = [pd.DataFrame(probabilities, columns=["p_0", "p_1", "p_2"]).assign(
            row=np.arange(200), repeat=repeat, fold=0, label=labels) for repeat in range(repeats)]  # fmt: skip
        out_of_fold = OutOfFold.of(pd.concat(parts))
        errors.append(out_of_fold.calibration_error())
        expected.append(out_of_fold.calibration_noise(rng))
    assert np.mean(errors) == pytest.approx(np.mean(expected), rel=0.1) and np.mean(errors) > 0.05
