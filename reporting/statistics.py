"""Comparison of methods over paired seeds: tests, intervals, effect sizes, and the correction for many tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from reporting.metrics import f1_of_counts, mean_of_occurring

# Below 6 pairs the two-sided signed-rank test cannot reach 0.05, whatever the differences: its least p is 2 / 2^n.
WILCOXON_MIN_PAIRS = 6
T_TEST_MIN_PAIRS = 2
RowMetric = Literal["accuracy", "macro_f1"] | NDArray[np.int64]  # classes, for their macro-F1
ROUNDING = 1e-12  # share by which figures that are equal in decimal may differ in binary


@dataclass(frozen=True)
class PairedComparison:
    """Outcome of `paired_comparison`; what the seeds are too few for is None, and ``note`` says so."""

    seeds: tuple[int, ...]
    difference: float
    interval: tuple[float, float] | None
    t_test_p: float | None
    wilcoxon_p: float | None
    note: str

    def __str__(self) -> str:
        parts = [f"difference {self.difference:+.4f} over {len(self.seeds)} paired seeds"]
        if self.interval is not None:
            parts.append(f"95 % interval {self.interval[0]:+.4f} to {self.interval[1]:+.4f}")
        if self.t_test_p is not None:
            parts.append(f"paired t-test p = {self.t_test_p:.3g}")
        if self.wilcoxon_p is not None:
            parts.append(f"Wilcoxon p = {self.wilcoxon_p:.3g}")
        return "; ".join(parts + ([self.note] if self.note else []))


def paired_comparison(a: Mapping[int, float], b: Mapping[int, float]) -> PairedComparison:
    """Mean of a - b over the seeds that both have, with a paired t-test, its 95 % interval and Wilcoxon's signed-rank.

    Args:
        a, b: value of one metric per seed.

    Raises:
        ValueError: no seed in common, or a value that is not finite.
    """
    from scipy import stats

    seeds = tuple(sorted(set(a) & set(b)))
    if not seeds:
        raise ValueError(f"no seed in common: found {sorted(a)} and {sorted(b)}")
    first, second = (np.array([values[seed] for seed in seeds], dtype=np.float64) for values in (a, b))
    difference = first - second
    if not np.isfinite(difference).all():
        raise ValueError("values to compare must be finite numbers")
    notes = _notes(len(seeds), len(set(a) ^ set(b)))
    interval = t_test_p = wilcoxon_p = None
    if _is_constant(difference):
        notes.append("the difference is the same at every seed: no test")
    elif len(seeds) >= T_TEST_MIN_PAIRS:
        outcome = stats.ttest_rel(first, second)
        low, high = outcome.confidence_interval(0.95)
        interval, t_test_p = (float(low), float(high)), float(outcome.pvalue)
        if len(seeds) >= WILCOXON_MIN_PAIRS:
            wilcoxon_p = float(stats.wilcoxon(first, second).pvalue)
    return PairedComparison(seeds, float(difference.mean()), interval, t_test_p, wilcoxon_p, "; ".join(notes))


def spread_comparison(a: Mapping[int, float], b: Mapping[int, float]) -> PairedComparison:
    """Standard deviation of a less that of b over the seeds that both have, with the Pitman-Morgan test for pairs.

    Two variances of paired values are equal where their sums and differences are uncorrelated. Below three pairs, or
    where sums or differences do not vary, p is None. Source: Pitman 1939; Morgan 1939.

    Raises:
        ValueError: fewer than two seeds in common.
    """
    from scipy import stats

    seeds = tuple(sorted(set(a) & set(b)))
    if len(seeds) < T_TEST_MIN_PAIRS:
        raise ValueError(f"a spread needs 2 seeds in common: found {sorted(a)} and {sorted(b)}")
    first, second = (np.array([values[seed] for seed in seeds], dtype=np.float64) for values in (a, b))
    spread = float(first.std(ddof=1)) - float(second.std(ddof=1))
    total, difference = first + second, first - second
    p = None
    if len(seeds) > 2 and not _is_constant(total) and not _is_constant(difference):
        p = float(stats.pearsonr(total, difference).pvalue)
    note = "Pitman-Morgan test" if p is not None else "too few seeds or no spread: no test"
    return PairedComparison(seeds, spread, None, p, None, note)


def _is_constant(values: np.ndarray) -> bool:
    """Whether values (N,) are all the same but for rounding, which would make a test of it look certain."""
    return bool(np.ptp(values) <= ROUNDING * np.abs(values).max())


def _notes(pairs: int, unpaired: int) -> list[str]:
    notes = [f"{unpaired} seeds without a partner left out"] if unpaired else []
    if pairs < T_TEST_MIN_PAIRS:
        notes.append("1 seed is too few for any test")
    elif pairs < WILCOXON_MIN_PAIRS:
        notes.append(f"{pairs} seeds are too few for Wilcoxon ({WILCOXON_MIN_PAIRS} needed)")
    return notes


@dataclass(frozen=True)
class EffectSize:
    """Standardised mean difference of pairs, Hedges' correction included, and its 95 % interval."""

    value: float
    interval: tuple[float, float]


def effect_size(a: Mapping[int, float], b: Mapping[int, float]) -> EffectSize | None:
    """Hedges' g of a - b over the seeds that both have: mean by standard deviation of the differences, corrected.

    The correction is 1 - 3/(4n - 5). The interval inverts the noncentral t distribution of sqrt(n) d. None below two
    pairs or without any spread.
    Source: Hedges and Olkin 1985, ch. 5; Goulet-Pelletier and Cousineau 2018.
    """
    from scipy import special

    seeds = sorted(set(a) & set(b))
    difference = np.array([a[seed] - b[seed] for seed in seeds], dtype=np.float64)
    pairs = len(seeds)
    if pairs < T_TEST_MIN_PAIRS or _is_constant(difference):
        return None
    d = float(difference.mean() / difference.std(ddof=1))
    root, correction = np.sqrt(pairs), 1 - 3 / (4 * pairs - 5) if pairs > 2 else 1.0
    low, high = (float(special.nctdtrinc(pairs - 1, share, root * d) / root) for share in (0.975, 0.025))
    return EffectSize(correction * d, (correction * low, correction * high))


def power(
    spread: Sequence[float],
    pairs: Sequence[int],
    effect: float,
    rng: np.random.Generator,
    among: Sequence[int] | None = None,
    draws: int = 2000,
) -> float:
    """How often paired t-tests under Holm's correction see a difference that is there: the mean share over the tests.

    Simulated: the differences of test k are normal with mean ``effect`` and deviation ``spread[k]`` at ``pairs[k]``
    seeds, the tests one family at level 0.05, and a difference counts as seen with its own sign alone.

    Args:
        spread: standard deviation of the paired differences of each test, > 0.
        pairs: seeds of each test, >= 2.
        effect: in the units of ``spread``.
        rng: draws the differences.
        among: the tests of which the share is taken, all are corrected for; None: of all.
        draws: simulated families.
    """
    return _SimulatedFamily(spread, pairs, rng, draws, among).power(effect)


def detectable_effect(
    spread: Sequence[float],
    pairs: Sequence[int],
    rng: np.random.Generator,
    share: float = 0.8,
    among: Sequence[int] | None = None,
    draws: int = 2000,
) -> float:
    """The least difference whose `power` reaches ``share``, to 1 %; in the units of ``spread``.

    Args:
        share: 0 < share < 1.
    """
    family = _SimulatedFamily(spread, pairs, rng, draws, among)
    low, high = 0.0, max(spread)
    while family.power(high) < share:
        low, high = high, 2 * high
    while high - low > 0.01 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if family.power(middle) >= share else (middle, high)
    return high


class _SimulatedFamily:
    """Drawn differences of a family of paired tests, to which any true difference can be added."""

    def __init__(
        self,
        spread: Sequence[float],
        pairs: Sequence[int],
        rng: np.random.Generator,
        draws: int,
        among: Sequence[int] | None,
    ) -> None:
        noise = [rng.normal(0, deviation, (draws, size)) for deviation, size in zip(spread, pairs, strict=True)]
        self.means = np.stack([sample.mean(axis=1) for sample in noise], axis=1)
        self.errors = np.stack([sample.std(axis=1, ddof=1) / np.sqrt(sample.shape[1]) for sample in noise], axis=1)
        self.freedom = np.array(pairs) - 1
        self.among = list(range(len(pairs))) if among is None else list(among)

    def power(self, effect: float) -> float:
        from scipy import special

        means = self.means + effect
        p_values = 2 * special.stdtr(self.freedom, -np.abs(means / self.errors))
        order = np.argsort(p_values, axis=1)
        steps = np.take_along_axis(p_values, order, axis=1) * np.arange(len(self.freedom), 0, -1)
        corrected = np.empty_like(p_values)
        np.put_along_axis(corrected, order, np.maximum.accumulate(steps, axis=1), axis=1)
        return float(((corrected < 0.05) & (means * effect > 0))[:, self.among].mean())


@dataclass(frozen=True)
class BootstrapComparison:
    """Difference of two methods over resampled seeds and test rows: percentile interval and two-sided p."""

    interval: tuple[float, float]
    p: float


def paired_bootstrap(
    labels: NDArray[np.int64],
    a: NDArray[np.int64],
    b: NDArray[np.int64],
    metrics: Sequence[RowMetric],
    rng: np.random.Generator,
    draws: int = 1000,
) -> BootstrapComparison:
    """Bootstrap of the mean difference a - b, seeds and test rows drawn with replacement, rows within their class.

    Every draw takes the same rows for both methods and all seeds, and the same seeds for both: one fewer than there
    are, for the mean of S of them would vary too little, by the factor (S - 1) / S. Unlike the t-test over seeds it
    says how far the difference would hold on other test rows.
    Source: Efron and Tibshirani 1993, ch. 8 and 13; Rao and Wu 1988 for the one fewer.

    Args:
        labels: (N,) class indices.
        a, b: (S, N) predictions of the seeds, S >= 2, -1 for no class.
        metrics: one, or two of which the difference in the second is taken from that in the first. Macro-F1 is over the
            classes that occur; an array (K,) asks for that of these classes.
        rng: draws rows and seeds.
        draws: resamples.
    """
    classes = np.arange(max(labels.max(), a.max(), b.max()) + 1)
    weights = np.zeros((draws, len(labels)), dtype=np.float32)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        weights[:, rows] = rng.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), size=draws)
    true = weights @ (labels[:, None] == classes).astype(np.float32)

    def figures(predictions: NDArray[np.int64], metric: RowMetric) -> NDArray[np.float64]:
        predicted = (predictions[:, None] == classes).astype(np.float32)
        hits = weights @ (predicted * (labels == predictions)[:, None])
        if isinstance(metric, str) and metric == "accuracy":
            return hits.sum(axis=1) / len(labels)
        total = true + weights @ predicted
        f1 = f1_of_counts(hits, total)
        return mean_of_occurring(f1, total) if isinstance(metric, str) else f1[:, metric].mean(axis=1)

    def by_seed(metric: RowMetric) -> NDArray[np.float64]:
        return np.stack([figures(first, metric) - figures(second, metric) for first, second in zip(a, b, strict=True)])

    difference = by_seed(metrics[0]) - sum(map(by_seed, metrics[1:]))
    seeds = rng.integers(len(difference), size=(draws, len(difference) - 1))
    differences = difference[seeds.T, np.arange(draws)].mean(axis=0)
    low, high = np.quantile(differences, [0.025, 0.975])
    tail = min((differences <= 0).sum(), (differences >= 0).sum())
    return BootstrapComparison((float(low), float(high)), float(min(1.0, 2 * (tail + 1) / (draws + 1))))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """p-values corrected over one family of tests (Holm 1979); a test that was not made is None and not counted."""
    from statsmodels.stats.multitest import multipletests

    defined = [p for p in p_values if p is not None]
    corrected = iter(multipletests(defined, method="holm")[1].tolist() if defined else [])
    return [None if p is None else float(next(corrected)) for p in p_values]


def difference_beyond_p(a: Mapping[int, float], b: Mapping[int, float], margin: float) -> float | None:
    """p of the hypothesis that the mean of a - b lies within [-margin, margin]: a one-sided paired t-test against the
    end that it lies nearer to, twice its p, for there are two ends.

    None below two pairs. Without any spread see `above_p`.
    """
    ends = above_p(a, b, margin), above_p(b, a, margin)
    return None if None in ends else min(1.0, *(2 * p for p in ends if p is not None))


def above_p(a: Mapping[int, float], b: Mapping[int, float], margin: float) -> float | None:
    """p of the hypothesis that the mean of a - b is at most ``margin``, of any sign: a one-sided paired t-test.

    None below two pairs. Without any spread that of the sign test, 2 ** -n for n seeds, where the difference lies
    above, else 1: a few equal differences are no proof.
    """
    from scipy.stats import ttest_1samp

    seeds = sorted(set(a) & set(b))
    if len(seeds) < T_TEST_MIN_PAIRS:
        return None
    differences = np.array([a[seed] - b[seed] for seed in seeds], dtype=np.float64)
    if _is_constant(differences):
        return 0.5 ** len(seeds) if float(differences[0]) > margin else 1.0
    return float(ttest_1samp(differences, margin, alternative="greater").pvalue)


def equivalence_p(a: Mapping[int, float], b: Mapping[int, float], margin: float) -> float | None:
    """p of the hypothesis that the mean of a - b lies outside (-margin, margin): two one-sided paired t-tests.

    None below two pairs. Without any spread see `above_p`.
    Source: Schuirmann 1987.
    """
    from statsmodels.stats.weightstats import ttost_paired

    seeds = sorted(set(a) & set(b))
    if len(seeds) < T_TEST_MIN_PAIRS:
        return None
    first, second = (np.array([values[seed] for seed in seeds], dtype=np.float64) for values in (a, b))
    if _is_constant(first - second):
        return 0.5 ** len(seeds) if abs(float((first - second)[0])) < margin else 1.0
    return float(ttost_paired(first, second, -margin, margin)[0])
