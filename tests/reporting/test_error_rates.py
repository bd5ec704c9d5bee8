"""The tests of a report hold their error rates: simulated seeds without any effect, fixed generator."""

import gc

import numpy as np
import pytest
from scipy import stats

from reporting.statistics import difference_beyond_p, effect_size, equivalence_p, holm, paired_comparison

TRIALS = 600


@pytest.fixture(autouse=True)
def quick_collection():
    """statsmodels collects garbage at each correction: what is already there need not be looked at."""
    gc.freeze()
    yield
    gc.unfreeze()


def draws(generator, seeds, mean=0.0, spread=0.01):
    """Two methods over seeds that share a part of their spread, as paired seeds do; `mean` is the true difference."""
    shared = generator.normal(0.6, 0.02, seeds)
    a, b = (shared + generator.normal(0, spread, seeds) for _ in range(2))
    return dict(enumerate(a + mean)), dict(enumerate(b))


def within(count, rate, trials=TRIALS):
    """Whether a count of events is compatible with a rate (two-sided binomial, 1 in 1000)."""
    return stats.binomtest(count, trials, rate).pvalue > 0.001


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_paired_test_and_its_interval_hold_five_percent(seeds):
    generator = np.random.default_rng(seeds)
    outcomes = [paired_comparison(*draws(generator, seeds)) for _ in range(TRIALS)]
    assert within(sum(first.t_test_p < 0.05 for first in outcomes), 0.05)
    assert within(sum(not first.interval[0] <= 0 <= first.interval[1] for first in outcomes), 0.05)


@pytest.mark.slow
def test_a_family_of_ten_holds_five_percent_and_would_not_without_holm():
    generator = np.random.default_rng(0)
    corrected = plain = 0
    for _ in range(TRIALS):
        reference = draws(generator, 5)[0]
        rivals = [{seed: v + generator.normal(0, 0.014) for seed, v in reference.items()} for _ in range(10)]
        p_values = [paired_comparison(rival, reference).t_test_p for rival in rivals]
        plain += min(p_values) < 0.05
        corrected += min(holm(p_values)) < 0.05
    assert corrected / TRIALS < 0.05 + 3 * np.sqrt(0.05 * 0.95 / TRIALS)
    assert plain / TRIALS > 0.25


def test_equivalence_is_claimed_wrongly_in_at_most_five_percent():
    generator = np.random.default_rng(1)
    on_the_margin = [equivalence_p(*draws(generator, 10, mean=0.02), margin=0.02) for _ in range(TRIALS)]
    assert within(sum(p < 0.05 for p in on_the_margin), 0.05)
    inside = [equivalence_p(*draws(generator, 10), margin=0.02) for _ in range(TRIALS)]
    assert np.mean([p < 0.05 for p in inside]) > 0.8


@pytest.mark.slow
def test_a_difference_is_called_large_wrongly_in_at_most_five_percent():
    generator = np.random.default_rng(4)
    on_the_margin = [difference_beyond_p(*draws(generator, 10, mean=-0.02), margin=0.02) for _ in range(TRIALS)]
    assert within(sum(p < 0.05 for p in on_the_margin), 0.025)  # of one end alone
    beyond = [difference_beyond_p(*draws(generator, 10, mean=-0.04), margin=0.02) for _ in range(TRIALS)]
    assert np.mean([p < 0.05 for p in beyond]) > 0.8
    wide = [difference_beyond_p(*draws(generator, 3, mean=0.0, spread=1.0), margin=0.02) for _ in range(TRIALS)]
    assert within(sum(p < 0.05 for p in wide), 0.05), "of two ends a large spread reaches either"
    constant = {0: 1.5, 1: 2.5}, {0: 1.0, 1: 2.0}
    assert [difference_beyond_p(*constant, margin) for margin in (0.4, 0.6)] == [0.5, 1.0]
    assert difference_beyond_p({0: 1.0}, {0: 0.0}, 0.1) is None


def test_the_interval_of_the_effect_size_covers_it():
    generator = np.random.default_rng(2)
    truth = 0.01 / (0.01 * np.sqrt(2))  # mean by standard deviation of the differences
    seeds = 8
    correction = 1 - 3 / (4 * seeds - 5)
    effects = [effect_size(*draws(generator, seeds, mean=0.01)) for _ in range(TRIALS)]
    missed = sum(not first.interval[0] <= correction * truth <= first.interval[1] for first in effects)
    assert within(missed, 0.05)
    assert np.mean([first.value for first in effects]) == pytest.approx(truth, abs=0.08)


def test_holm_by_hand_and_tests_that_were_not_made():
    assert holm([0.01, 0.04, None, 0.03]) == pytest.approx([0.03, 0.06, None, 0.06], nan_ok=True)
    assert holm([]) == [] and holm([None]) == [None]
    assert effect_size({0: 1.0}, {0: 0.5}) is None and effect_size({0: 1.0, 1: 2.0}, {0: 0.5, 1: 1.5}) is None
    rounded = {0: 0.75, 1: 0.25, 2: 0.65}, {0: 0.75 - 0.1, 1: 0.25 - 0.1, 2: 0.65 - 0.1}
    assert effect_size(*rounded) is None and paired_comparison(*rounded).t_test_p is None
    assert equivalence_p({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}, 0.1) == 0.25, "two equal differences are no proof"
