"""The paired comparison against a calculation by hand."""

import numpy as np
import pytest
from scipy import stats

from reporting.statistics import effect_size, paired_comparison, spread_comparison

A = {0: 0.70, 1: 0.72, 2: 0.69, 3: 0.71, 4: 0.74, 5: 0.70}
B = {0: 0.68, 1: 0.69, 2: 0.68, 3: 0.66, 4: 0.70, 5: 0.67}


def test_paired_t_test_by_hand_and_wilcoxon():
    outcome = paired_comparison(A, B)
    difference = np.array([A[seed] - B[seed] for seed in A])
    error = difference.std(ddof=1) / np.sqrt(6)
    margin = stats.t.ppf(0.975, 5) * error
    assert outcome.difference == pytest.approx(difference.mean())
    assert outcome.interval == pytest.approx((difference.mean() - margin, difference.mean() + margin))
    assert outcome.t_test_p == pytest.approx(2 * stats.t.sf(difference.mean() / error, 5))
    assert outcome.wilcoxon_p == pytest.approx(2 / 2**6)
    assert "Wilcoxon p" in str(outcome) and outcome.note == ""


def test_too_few_seeds_are_said():
    three = paired_comparison(A, {seed: B[seed] for seed in (0, 1, 2)})
    assert three.seeds == (0, 1, 2) and three.t_test_p is not None and three.wilcoxon_p is None
    assert "3 seeds without a partner" in three.note and "too few for Wilcoxon" in three.note
    first = paired_comparison({0: 0.5}, {0: 0.4})
    assert first.interval is None and first.t_test_p is None and "too few for any test" in str(first)


def test_equal_differences_and_bad_values():
    assert "same at every seed" in paired_comparison({0: 1.0, 1: 2.0}, {0: 0.5, 1: 1.5}).note
    with pytest.raises(ValueError, match="no seed in common"):
        paired_comparison({0: 1.0}, {1: 1.0})
    with pytest.raises(ValueError, match="finite"):
        paired_comparison({0: float("nan")}, {0: 1.0})


def test_spreads_of_pairs_are_compared_by_pitman_and_morgan():
    rng = np.random.default_rng(0)
    shared = rng.normal(0.6, 0.02, 30)
    a, b = shared + rng.normal(0, 0.005, 30), shared + rng.normal(0, 0.04, 30)
    actual = spread_comparison(dict(enumerate(a)), dict(enumerate(b)))
    assert actual.difference == pytest.approx(a.std(ddof=1) - b.std(ddof=1)) and actual.difference < 0
    # by hand, from both variances and the covariance (Morgan 1939)
    (va, c), (_, vb) = np.cov(a, b)
    t = (va - vb) * np.sqrt(28) / np.sqrt(4 * (va * vb - c**2))
    assert actual.t_test_p == pytest.approx(2 * stats.t.sf(abs(t), 28))
    assert spread_comparison({0: 1.0, 1: 2.0}, {0: 1.0, 1: 3.0}).t_test_p is None
    assert spread_comparison({0: 1.0, 1: 2.0, 2: 4.0}, {0: 2.0, 1: 3.0, 2: 5.0}).t_test_p is None
    with pytest.raises(ValueError, match="a spread needs 2 seeds in common"):
        spread_comparison({0: 1.0}, {0: 1.0, 1: 2.0})


def test_the_level_of_the_test_of_spreads():
    rng = np.random.default_rng(1)
    trials = 400
    false = 0
    for _ in range(trials):
        shared = rng.normal(0, 1, 5)
        pair = [dict(enumerate(shared + rng.normal(0, 1, 5))) for _ in range(2)]
        false += spread_comparison(*pair).t_test_p < 0.05
    assert 0.001 < stats.binomtest(false, trials, 0.05).pvalue


def test_the_effect_size_by_hand():
    """Differences 2, 3, 1: mean 2, standard deviation over n - 1 of 1, and Hedges' correction 1 - 3 / 7."""
    effect = effect_size({0: 3.0, 1: 5.0, 2: 4.0}, {0: 1.0, 1: 2.0, 2: 3.0})
    assert effect.value == pytest.approx(2 * 4 / 7)
    assert effect.interval[0] < effect.value < effect.interval[1]
