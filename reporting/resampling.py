"""Macro-F1 and its kin under resampled rows. A row is one unit, however often repeated folds predicted it, and so are
all rows of one text: equal texts lie in one fold, whose model gives them one answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from reporting.metrics import NO_CLASS, f1_of_counts, mean_of_occurring

DRAWS = 2000
LEAST_DRAWS, MOST_PATTERNS = 500, 2500  # of more patterns fewer draws: 1,000 classes would take minutes
BIAS_DRAWS = 200
PRIOR = 0.5  # pseudo-rows that are right, and as many that are wrong, of each class: Jeffreys' prior of a share
MOST_DIRECTIONS, MOST_CELLS = 50, 10_000  # classes, those predicted most, that share the wrong ones, and pairs of both
LEVEL = 0.95
WIDENED = 1.12  # resampled rows know nothing of how the models of the folds differ; see `interval`
PIECE = 1 << 22  # weights in memory at a time

Floats = NDArray[np.float64]


def numbered(groups: NDArray[np.int64] | None, rows: int) -> NDArray[np.int64]:
    """The group of each row (N,), numbered from 0 on; without `groups` (N,) each row is its own."""
    return np.arange(rows) if groups is None else np.unique(groups, return_inverse=True)[1]


@dataclass(frozen=True)
class Together:
    """Groups of rows that are drawn and exchanged as one, the rows of a text that stands several times.

    Attributes:
        rows: (K, P) sparse, rows of each of P patterns in a group of each kind.
        groups: (K,) groups of each kind; those of a prior count as parts of one.
    """

    rows: sparse.csr_array
    groups: Floats

    @classmethod
    def of(cls, patterns: NDArray[np.int64], groups: NDArray[np.int64] | None, num_patterns: int) -> Together | None:
        """Of rows with these `patterns` (N,) and `groups` (N,); None where each row is a group of its own."""
        group = numbered(groups, len(patterns))
        number = int(group.max()) + 1
        if number == len(patterns):
            return None
        ones = np.ones(len(patterns))
        rows = sparse.coo_array((ones, (group, patterns)), shape=(number, num_patterns)).tocsr()
        rows.sort_indices()
        contents = [rows.indices[a:b].tobytes() + rows.data[a:b].tobytes() for a, b in pairwise(rows.indptr)]
        _, first, counts = np.unique(np.array(contents, dtype=object), return_index=True, return_counts=True)
        order = np.argsort(rows.indices[rows.indptr[first]], kind="stable")  # that of the patterns
        return cls(rows[first[order]], counts[order].astype(np.float64))

    def with_prior(self, sizes: Floats, groups: Floats) -> Together:
        """With parts of groups (Q,) of so many rows (Q,), each of a further pattern."""
        rows = sparse.block_diag([self.rows, sparse.diags_array(sizes)], format="csr")
        return Together(sparse.csr_array(rows), np.concatenate([self.groups, groups]))

    def sizes(self, labels: NDArray[np.int64], num_classes: int) -> tuple[Floats, Floats]:
        """Of each class (C,) the mean rows in a group, and how many rows tell of its size what one row of its own would
        (Kish 1965, Survey sampling): few large groups are less than as many rows in small ones.

        Args:
            labels: (P,) of the patterns.
            num_classes: C.
        """
        columns = np.arange(len(labels))
        member = sparse.csr_array((np.ones(len(labels)), (columns, labels)), shape=(len(labels), num_classes))
        in_class = self.rows @ member
        groups, rows, squares = (self.groups @ part for part in (in_class.sign(), in_class, in_class.power(2)))
        return _ratio(rows, groups), _ratio(squares, rows)


def _ratio(first: Floats, second: Floats) -> Floats:
    return np.divide(first, second, out=np.ones_like(first), where=second > 0)


@dataclass(frozen=True)
class Patterns:
    """Rows that cannot be told apart: one label, and one prediction in each repeat.

    Attributes:
        labels: (P,) class indices.
        predictions: (P, R), in each of R repeats; -1 for no class.
        counts: (P,) rows of each pattern; the pseudo-rows of a prior count as parts of one.
        num_classes: C.
        together: the groups in which rows are drawn; None where each row is drawn by itself.
    """

    labels: NDArray[np.int64]
    predictions: NDArray[np.int64]
    counts: Floats
    num_classes: int
    together: Together | None = None

    @classmethod
    def of(
        cls, labels: ArrayLike, predictions: ArrayLike, num_classes: int, groups: NDArray[np.int64] | None = None
    ) -> Patterns:
        """Of rows with `labels` (N,) and `predictions` (N, R); rows of equal `groups` (N,) are drawn together."""
        columns = np.column_stack([labels, predictions])
        table, places, counts = np.unique(columns, axis=0, return_inverse=True, return_counts=True)
        together = Together.of(places.ravel(), groups, len(table))
        return cls(table[:, 0], table[:, 1:], counts.astype(np.float64), num_classes, together)

    @property
    def units(self) -> Floats:
        """How many there are of each kind of what is drawn (K,): rows of each pattern, or groups."""
        return self.counts if self.together is None else self.together.groups

    def rows_of(self, units: Floats) -> Floats:
        """Rows of each pattern (B, P) in so many of each kind of what is drawn (B, K)."""
        return units if self.together is None else np.ascontiguousarray((self.together.rows.T @ units.T).T)

    def sizes(self) -> tuple[Floats, Floats]:
        """As those of `Together`, (C,); 1 where each row is drawn by itself."""
        ones = np.ones(self.num_classes)
        return (ones, ones) if self.together is None else self.together.sizes(self.labels, self.num_classes)

    def with_prior(self) -> Patterns:
        """With `PRIOR` pseudo-rows a class that are right, and `PRIOR` that are wrong in the direction in which rows
        are wrong: shared among the other classes as predictions are, and no class where rows get none or all have one
        class. Where rows are drawn in groups, they are pseudo-groups as large as those of the class."""
        classes, mean_size = np.unique(self.labels), self.sizes()[0]
        predicted = np.zeros(self.num_classes + 1)  # no class is the last
        np.add.at(predicted, self.predictions.ravel(), np.repeat(self.counts, self.predictions.shape[1]))
        predicted[classes] += PRIOR * mean_size[classes]
        predicted[NO_CLASS] += PRIOR * (len(classes) == 1)
        answers = np.append(classes, NO_CLASS) if predicted[NO_CLASS] else classes
        directions = min(MOST_DIRECTIONS, max(MOST_CELLS // len(classes), 2))  # with more, 1,000 classes take minutes
        likely = answers[np.argsort(-predicted[answers], kind="stable")[:directions]]
        true, wrong = (grid.ravel() for grid in np.meshgrid(classes, answers, indexing="ij"))
        kept = (true == wrong) | np.isin(wrong, likely)
        true, wrong = true[kept], wrong[kept]
        weights = predicted[wrong] * (true != wrong)
        totals = np.bincount(true, weights, self.num_classes)[true]
        weights = np.where(true == wrong, PRIOR, PRIOR * weights / np.where(totals > 0, totals, 1))
        repeats, sizes = self.predictions.shape[1], mean_size[true]
        return Patterns(
            np.concatenate([self.labels, true]),
            np.concatenate([self.predictions, np.repeat(wrong[:, None], repeats, axis=1)]),
            np.concatenate([self.counts, weights * sizes]),
            self.num_classes,
            self.together and self.together.with_prior(sizes, weights),
        )


@dataclass(frozen=True)
class Scores:
    """Of each draw the mean over the repeats: micro-F1 and macro-F1 (B,), F1 of each class (B, C).

    Where texts have one label, micro-F1 is the accuracy.
    """

    micro_f1: Floats
    macro_f1: Floats
    f1: Floats


def scores(patterns: Patterns, weights: Floats) -> Scores:
    """Figures where pattern p counts `weights[b, p]` times, weights (B, P).

    Macro-F1 is over the classes that occur among labels or predictions, as `reporting.metrics` has it.
    """
    classes, repeats = patterns.num_classes, patterns.predictions.shape[1]
    references = _per_class(weights, patterns.labels, classes)
    total = weights.sum(axis=1)
    f1, macro_f1, accuracy = np.zeros((len(weights), classes)), np.zeros(len(weights)), np.zeros(len(weights))
    for predictions in patterns.predictions.T:
        right = predictions == patterns.labels
        hits = _per_class(weights[:, right], predictions[right], classes)
        both = references + _per_class(weights, predictions, classes)
        of_repeat = f1_of_counts(hits, both)
        f1 += of_repeat / repeats
        macro_f1 += mean_of_occurring(of_repeat, both) / repeats
        accuracy += hits.sum(axis=1) / total / repeats
    return Scores(accuracy, macro_f1, f1)


def _per_class(weights: Floats, classes: NDArray[np.int64], num_classes: int) -> Floats:
    """Sums of the columns of `weights` (B, P) by class, (B, C); those of no class are in none."""
    columns = np.flatnonzero(classes != NO_CLASS)
    member = sparse.csr_array((np.ones(len(columns)), (classes[columns], columns)), shape=(num_classes, len(classes)))
    return np.ascontiguousarray((member @ weights.T).T)


def num_draws(patterns: int) -> int:
    """How often rows are resampled that hold so many patterns."""
    return max(LEAST_DRAWS, min(DRAWS, DRAWS * MOST_PATTERNS // max(patterns, 1)))


def estimate(patterns: Patterns) -> Scores:
    """Figures of the rows themselves, each with a first dimension of 1."""
    return scores(patterns, patterns.counts[None])


def bootstrap(patterns: Patterns, rng: np.random.Generator, draws: int | None = None) -> Scores:
    """Figures of resampled rows, stratified by class: within a class patterns weigh as a Dirichlet draw with their
    counts and the prior's (Rubin 1981, The Bayesian bootstrap). Rows of one group have one weight (the cluster
    bootstrap: Field and Welsh 2007).

    Without the prior five right rows of five would have no spread at all: resampling alone covers macro-F1 too seldom
    where a class is rare (`benchmarks/auto_choice.py`). Its pseudo-rows move the mean over many classes of few rows
    down; accuracy and macro-F1 are moved back, F1 of a class is not. How many draws there are, `num_draws` says.
    """
    draws = num_draws(len(patterns.labels)) if draws is None else draws
    smooth = patterns.with_prior()
    size = max(PIECE // max(len(smooth.counts), len(smooth.units)), 1)
    mixer = rng.spawn(1)[0]
    parts = []
    for start in range(0, draws, size):
        weights = _dirichlet(smooth, patterns, rng, min(size, draws - start))
        accuracy = _mixed_accuracy(smooth, weights, mixer)
        parts.append(replace(scores(smooth, weights), micro_f1=accuracy))
    names, whole = ("micro_f1", "macro_f1", "f1"), estimate(patterns)
    micro, macro, f1 = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    return Scores(micro + whole.micro_f1 - micro.mean(), macro + whole.macro_f1 - macro.mean(), f1)


def bias(patterns: Patterns, rng: np.random.Generator, draws: int = BIAS_DRAWS) -> float:
    """How far macro-F1 of so few rows lies from that of many such rows, on the mean: above 0 where it is too high.

    F1 is a ratio, whose mean over drawings is not the ratio of the means: of a class of one row that is right three
    times of ten, and never answered wrongly, it is 0.3 in place of 0.46. The rows with the prior's are taken for all
    there are, and as many as each class has are drawn from them (the parametric bootstrap: Efron and Tibshirani 1993,
    Section 10.2).
    """
    smooth = patterns.with_prior()
    rows = np.bincount(patterns.labels, patterns.counts, patterns.num_classes)
    size_of_unit = patterns.sizes()[0]
    expected, drawn = np.zeros((1, len(smooth.labels))), np.zeros((draws, len(smooth.labels)))
    order = np.argsort(smooth.labels, kind="stable")
    for of_class in np.split(order, np.flatnonzero(np.diff(smooth.labels[order])) + 1):
        label = smooth.labels[of_class[0]]
        shares = smooth.counts[of_class] / smooth.counts[of_class].sum()
        units = max(round(rows[label] / size_of_unit[label]), 1)
        expected[0, of_class] = rows[label] * shares
        drawn[:, of_class] = rows[label] / units * rng.multinomial(units, shares, draws)
    return float(scores(smooth, drawn).macro_f1.mean() - scores(smooth, expected).macro_f1[0])


def _mixed_accuracy(patterns: Patterns, weights: Floats, rng: np.random.Generator) -> Floats:
    """Accuracy (B,) under weights (B, P), with the sizes of the classes drawn too.

    It is a mean over the classes by their sizes, which are a draw like the rows; macro-F1 hardly depends on them.
    """
    right = (patterns.predictions == patterns.labels[:, None]).mean(axis=1)
    sizes = _per_class(weights, patterns.labels, patterns.num_classes)
    units = sizes / patterns.sizes()[1]
    drawn = np.divide(rng.standard_gamma(units), units, out=np.zeros_like(units), where=units > 0)
    mixed = weights * drawn[:, patterns.labels]
    return (mixed @ right) / mixed.sum(axis=1)


def _dirichlet(smooth: Patterns, patterns: Patterns, rng: np.random.Generator, draws: int) -> Floats:
    """Weights (B, P): those of a class add up to its rows."""
    weights = smooth.rows_of(rng.standard_gamma(smooth.units, size=(draws, len(smooth.units))))
    rows = np.bincount(patterns.labels, patterns.counts, patterns.num_classes)
    scale = rows / np.maximum(_per_class(weights, smooth.labels, patterns.num_classes), 1e-300)
    return weights * scale[:, smooth.labels]


def interval(
    draws: Floats, value: Floats | float, widened: float = WIDENED, bias: float = 0.0
) -> tuple[Floats, Floats]:
    """Lower and upper end of `LEVEL` of the draws (B, …), each `widened` times as far from the value, within 0 and 1;
    by `bias`, how much too high the value is, further still to that side.

    Resampled rows alone cover the truth in 92 to 93 % where 5 folds are repeated twice, for the folds share rows to
    train on (Bates, Hastie and Tibshirani 2023); with `WIDENED` the interval covers it in 93 to 97 %
    (`benchmarks/auto_choice.py`).
    """
    lower, upper = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    lower, upper = (value + widened * (end - value) for end in (np.minimum(lower, value), np.maximum(upper, value)))
    return np.maximum(lower - max(bias, 0.0), 0.0), np.minimum(upper - min(bias, 0.0), 1.0)


def difference_test(
    labels: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    num_classes: int,
    rng: np.random.Generator,
    draws: int | None = None,
    groups: NDArray[np.int64] | None = None,
) -> tuple[float, float, float]:
    """Macro-F1 of `first` less that of `second` on the same rows, its two-sided p and its standard error.

    The paired randomisation test: were they equally good, each row could as well have their predictions exchanged,
    those of all repeats together (Noreen 1989; Yeh 2000), and of a group all its rows. The standard error is that of
    the exchanged differences.

    Args:
        labels: (N,) class indices.
        first: (N, R) predictions.
        second: (N, R) predictions in the same repeats.
        num_classes: C.
        rng: draws the exchanges.
        draws: exchanges, >= 1; p is at least 1 / (draws + 1). None: `num_draws`.
        groups: (N,) equal where rows have one text; None: no two have.
    """
    first, second = np.asarray(first), np.asarray(second)
    pairs = Patterns.of(labels, np.column_stack([first, second]), num_classes, groups)
    draws = num_draws(len(pairs.labels)) if draws is None else draws
    own, other = np.split(pairs.predictions, 2, axis=1)
    units = pairs.units.astype(np.int64)

    def differences(stays: Floats) -> Floats:
        """Where so many rows (B, P) of each pattern keep their own predictions."""
        both = np.concatenate([stays, pairs.counts - stays], axis=1)
        twice = np.concatenate([pairs.labels, pairs.labels])
        left = Patterns(twice, np.concatenate([own, other]), twice.astype(float), num_classes)
        right = Patterns(twice, np.concatenate([other, own]), twice.astype(float), num_classes)
        return scores(left, both).macro_f1 - scores(right, both).macro_f1

    difference = float(differences(pairs.counts[None])[0])
    if (own == other).all():
        return difference, 1.0, 0.0
    size = max(PIECE // max(len(units), len(pairs.counts)), 1)
    exchanged = np.concatenate(
        [
            differences(pairs.rows_of(rng.binomial(units, 0.5, (min(size, draws - start), len(units))).astype(float)))
            for start in range(0, draws, size)
        ]
    )
    extreme = int((np.abs(exchanged) >= abs(difference) - 1e-12).sum())
    return difference, (1 + extreme) / (1 + draws), float(exchanged.std())
