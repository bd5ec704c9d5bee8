"""Power by simulation and the bootstrap over seeds and test rows."""

import itertools
from functools import partial

import numpy as np
import pytest
from scipy import optimize, stats
from sklearn.metrics import accuracy_score, f1_score

from reporting.statistics import detectable_effect, paired_bootstrap, power


@pytest.mark.parametrize("effect", [0.5, 1.5])
def test_the_power_of_one_test_is_that_of_the_noncentral_t(effect):
    shift = np.sqrt(6) * effect
    expected = stats.nct.sf(stats.t.isf(0.025, 5), 5, shift)
    assert power([1.0], [6], effect, np.random.default_rng(0), draws=20000) == pytest.approx(expected, abs=0.01)


def test_more_tests_and_fewer_seeds_cost_power():
    first, more, fewer = (
        power([1.0] * number, [seeds] * number, 1.5, np.random.default_rng(0))
        for number, seeds in ((1, 8), (10, 8), (1, 4))
    )
    assert first > more and first > fewer


@pytest.mark.parametrize(("pairs", "spread"), [(3, 0.02), (10, 5.0)])
def test_the_detectable_effect_is_where_the_noncentral_t_is_seen_80_times_of_100(pairs, spread):
    def misses(effect):
        return stats.nct.sf(stats.t.isf(0.025, pairs - 1), pairs - 1, np.sqrt(pairs) * effect / spread) - 0.8

    expected = optimize.brentq(misses, 0.1 * spread, 20 * spread)
    difference = detectable_effect([spread], [pairs], np.random.default_rng(0), draws=20000)
    assert difference == pytest.approx(expected, rel=0.03)


def test_more_tests_need_a_larger_difference():
    family = detectable_effect([1.0] * 10, [5] * 10, np.random.default_rng(0))
    assert family > detectable_effect([1.0], [5], np.random.default_rng(0))
    assert power([1.0] * 10, [5] * 10, family, np.random.default_rng(0)) == pytest.approx(0.8, abs=0.02)


LABELS = np.repeat([0, 1, 2], (40, 20, 5))


def predictions(share, seed):
    rng = np.random.default_rng(seed)
    return np.array([np.where(rng.random(65) < share, LABELS, rng.integers(3, size=65)) for _ in range(4)])


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1"])
def test_the_bootstrap_lies_around_the_difference(metric):
    a, b = predictions(0.9, 1), predictions(0.5, 2)
    scores = {"accuracy": accuracy_score, "macro_f1": partial(f1_score, average="macro")}
    score = partial(scores[metric], LABELS)
    difference = np.mean([score(x) - score(y) for x, y in zip(a, b, strict=True)])
    result = paired_bootstrap(LABELS, a, b, [metric], np.random.default_rng(0))
    assert result.interval[0] < difference < result.interval[1] and result.interval[0] > 0 and result.p < 0.05
    same = paired_bootstrap(LABELS, a, a, [metric], np.random.default_rng(0))
    assert same.interval == (0.0, 0.0) and same.p == 1.0


def test_of_two_metrics_it_is_the_difference_of_the_differences():
    rows = [0, 40, 60]  # one of each class: every draw has the same rows
    labels, a, b = LABELS[rows], predictions(0.9, 1)[:, rows], predictions(0.4, 2)[:, rows]
    groups = [np.array([0]), np.array([1, 2])]
    score = partial(f1_score, average="macro", zero_division=0)
    of_head, of_rest = (
        [score(labels, x, labels=group) - score(labels, y, labels=group) for x, y in zip(a, b, strict=True)]
        for group in groups
    )
    means = [np.mean(drawn) for drawn in itertools.product(np.subtract(of_head, of_rest), repeat=3)]
    interval = paired_bootstrap(labels, a, b, groups, np.random.default_rng(0), draws=20000).interval
    assert interval == pytest.approx(np.quantile(means, [0.025, 0.975])) and interval[0] < interval[1]


def test_it_draws_one_seed_fewer_than_there_are():
    a = np.zeros((4, 65), dtype=int)  # right in the first class alone: other rows of a class change nothing
    b = np.repeat([[0], [1], [2], [2]], 65, axis=1)
    differences = (40 - np.bincount(LABELS)[b[:, 0]]) / 65
    means = [np.mean(drawn) for drawn in itertools.product(differences, repeat=3)]
    interval = paired_bootstrap(LABELS, a, b, ["accuracy"], np.random.default_rng(0), draws=20000).interval
    assert interval == pytest.approx(np.quantile(means, [0.025, 0.975]))


def test_rows_are_drawn_within_their_class():
    always = np.zeros((2, 65), dtype=int)
    result = paired_bootstrap(LABELS, always, np.full((2, 65), 2), ["accuracy"], np.random.default_rng(0))
    assert result.interval == pytest.approx((35 / 65, 35 / 65)), "as many rows of each class in every draw"
