"""Which candidate: intervals, paired comparisons with the best on the same rows, and the cheapest that is as good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from reporting import resampling, several_labels
from reporting.calibration import Floats, answers, answers_of_texts, brier_score, expected_calibration_error
from reporting.resampling import Patterns, Scores, interval
from reporting.statistics import holm

LEVEL = 0.05
AS_GOOD = 0.005  # of macro-F1
AS_CHEAP = 2.0  # times the train seconds of the cheapest, which a busy machine makes as well
SOON = 60.0  # seconds more than the cheapest that nobody minds
AS_FAST = 0.9  # times the most texts a second: timings differ by more from day to day
AS_SMALL = 1.1  # times the least size
CALIBRATION_DRAWS = 50
# macro-F1 that a fine-tuned encoder has above a frozen one on new rows, of six sets: mean and spread
GAIN_MEAN, GAIN_SPREAD = 0.05, 0.06
MOST_STEPS, STEPS_MEAN = 80.0, 0.02  # of pairs, and what e times as many bring up to these
COLUMNS = (
    *("rank", "candidate", "title", "macro_f1", "macro_f1_lower", "macro_f1_upper"),
    *("micro_f1", "micro_f1_lower", "micro_f1_upper", "difference_to_best", "p_holm", "within_noise", "recommended"),
    *("ece", "brier", "train_seconds", "texts_per_second", "size_mib", "status", "reason"),
)


@dataclass(frozen=True)
class OutOfFold:
    """Outer-fold predictions of one candidate: each row predicted once in each repeat, by a model without it.

    Attributes:
        rows: (N,) ascending.
        labels: (N,) class indices, or (N, C) booleans where texts have several.
        probabilities: (R, N, C).
        answers: (R, N) class indices, or (R, N, C) booleans.
        repeats: (R,) their numbers.
        folds: (R, N).
        groups: (N,) equal where rows have one text, which is then one thing to draw and to exchange, and one answer;
            None: no two have.
    """

    rows: NDArray[np.int64]
    labels: NDArray[Any]
    probabilities: NDArray[np.float64]
    answers: NDArray[Any]
    repeats: tuple[int, ...]
    folds: NDArray[np.int64]
    groups: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, table: pd.DataFrame, groups: pd.Series | None = None) -> OutOfFold:
        """Of a table with the columns row, repeat, fold, label, p_0 … p_{C-1}; where texts have several labels, `label`
        and `answer` are lists. A repeat that lacks rows is left out. `groups` are by row."""
        table = table.sort_values(["repeat", "row"], kind="stable")
        parts = {int(repeat): table[table["repeat"] == repeat] for repeat in table["repeat"].unique()}
        most = max(len(part) for part in parts.values())
        parts = {repeat: part for repeat, part in parts.items() if len(part) == most}
        columns = sorted((name for name in map(str, table) if name.startswith("p_")), key=lambda name: int(name[2:]))
        first = next(iter(parts.values()))
        probabilities = np.stack([part[columns].to_numpy(np.float64) for part in parts.values()])
        rows, folds = first["row"].to_numpy(np.int64), np.stack([part["fold"].to_numpy() for part in parts.values()])
        labels = _classes(first["label"], len(columns))
        answers = probabilities.argmax(axis=2)
        if "answer" in table:
            answers = np.stack([_classes(part["answer"], len(columns)) for part in parts.values()])
        of_rows = None if groups is None else groups.loc[rows].to_numpy(np.int64)
        return cls(rows, labels, probabilities, answers, tuple(parts), folds, of_rows)

    @property
    def num_classes(self) -> int:
        return self.probabilities.shape[2]

    @property
    def several(self) -> bool:
        """Whether texts have any number of labels."""
        return self.labels.ndim == 2

    @property
    def rows_of_class(self) -> NDArray[np.int64]:
        """(C,)."""
        return self.labels.sum(axis=0) if self.several else np.bincount(self.labels, minlength=self.num_classes)

    @property
    def texts(self) -> NDArray[np.int64]:
        """The number of each row's text (N,), equal ones being one."""
        return resampling.numbered(self.groups, len(self.rows))

    @property
    def texts_of_class(self) -> NDArray[np.int64]:
        """(C,) different ones."""
        pairs = np.argwhere(self.labels) if self.several else np.column_stack([np.arange(len(self.rows)), self.labels])
        pairs[:, 0] = self.texts[pairs[:, 0]]
        return np.bincount(np.unique(pairs, axis=0)[:, 1], minlength=self.num_classes)

    def estimate(self) -> Scores:
        """Figures of the rows themselves."""
        if self.several:
            return several_labels.estimate(self.labels, self.answers)
        return resampling.estimate(Patterns.of(self.labels, self.answers.T, self.num_classes))

    def resampled(self, seed: int) -> Scores:
        """The figures of resampled rows; the same rows whichever candidate it is."""
        rng = np.random.default_rng([seed, 1])
        if self.several:
            return several_labels.bootstrap(self.labels, self.answers, rng, groups=self.groups)
        return resampling.bootstrap(Patterns.of(self.labels, self.answers.T, self.num_classes, self.groups), rng)

    def bias(self, seed: int) -> float:
        """See `resampling.bias`; 0 where texts have several labels, whose intervals are wide enough for it."""
        if self.several:
            return 0.0
        patterns = Patterns.of(self.labels, self.answers.T, self.num_classes, self.groups)
        return resampling.bias(patterns, np.random.default_rng([seed, 4]))

    @property
    def widened(self) -> float:
        """How much further from its figure an end of an interval lies than resampled rows say."""
        return several_labels.WIDENED if self.several else resampling.WIDENED

    def difference(self, other: OutOfFold, rng: np.random.Generator) -> tuple[float, float, float]:
        """Macro-F1 less that of the other, p and standard error, on the rows and repeats that both have."""
        labels, first, second = self.shared(other)
        groups = None if self.groups is None else self.groups[np.isin(self.rows, other.rows)]
        if self.several:
            return several_labels.difference_test(labels, first, second, rng, groups=groups)
        return resampling.difference_test(labels, first.T, second.T, self.num_classes, rng, groups=groups)

    def part(self, kept: NDArray[np.bool_]) -> OutOfFold:
        """Of some of the rows."""
        sides = self.probabilities[:, kept], self.answers[:, kept]
        groups = None if self.groups is None else self.groups[kept]
        return OutOfFold(self.rows[kept], self.labels[kept], *sides, self.repeats, self.folds[:, kept], groups)

    def confidence(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """How sure each answer of all repeats is, and whether it is right; of several labels each label answered."""
        if self.several:
            return self.probabilities[self.answers], np.broadcast_to(self.labels, self.answers.shape)[self.answers]
        labels, probabilities = self.pooled()
        return answers(labels, probabilities)

    def calibration_error(self) -> float | None:
        """ECE over the answers of all repeats; None where none was given."""
        sure, right = self.confidence()
        return expected_calibration_error(sure, right) if len(sure) else None

    def calibration_noise(self, rng: np.random.Generator) -> float | None:
        """The ECE to expect of so many rows were every confidence true; a row is right in all repeats or in none, and
        so are all rows of a text."""
        sure, _ = self.confidence()
        texts = self.texts
        shape = (int(texts.max()) + 1, *self.labels.shape[1:])
        draws = (rng.random(shape)[texts] for _ in range(CALIBRATION_DRAWS))
        if self.several:
            right = (np.broadcast_to(draw, self.answers.shape)[self.answers] < sure for draw in draws)
        else:
            right = (np.tile(draw, len(self.repeats)) < sure for draw in draws)
        return float(np.mean([expected_calibration_error(sure, r) for r in right])) if len(sure) else None

    def surest(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Of each row (N,) of the first repeat how sure its answer is as a whole, and whether that is right; of several
        labels as sure as its least sure label, answered or not."""
        if not self.several:
            return answers(self.labels, self.probabilities[0])
        sure = np.where(self.answers[0], self.probabilities[0], 1 - self.probabilities[0]).min(axis=1)
        return sure, (self.answers[0] == self.labels).all(axis=1)

    def surest_of_texts(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """As `surest`, of each different text."""
        return answers_of_texts(*self.surest(), self.texts)

    def pooled(self) -> tuple[NDArray[Any], Floats]:
        """Labels (R N,) and probabilities (R N, C) of all repeats, one after the other."""
        repeats, rows, classes = self.probabilities.shape
        return np.concatenate([self.labels] * repeats), self.probabilities.reshape(repeats * rows, classes)

    def brier(self) -> float:
        """Of the classes together; of several labels the mean over them, 0 to 1."""
        labels, probabilities = self.pooled()
        return float(np.mean((labels - probabilities) ** 2)) if self.several else brier_score(labels, probabilities)

    def shared(self, other: OutOfFold) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Labels (N, …) and both answers (R, N, …), on the rows and repeats that both have."""
        repeats = [repeat for repeat in self.repeats if repeat in other.repeats]
        rows, mine, theirs = np.intersect1d(self.rows, other.rows, return_indices=True)
        if not repeats or not len(rows):
            raise ValueError("two candidates share no row of any repeat")
        first, second = (
            side.answers[[side.repeats.index(repeat) for repeat in repeats]][:, where]
            for side, where in ((self, mine), (other, theirs))
        )
        return self.labels[mine], first, second


def _classes(column: pd.Series, num_classes: int) -> NDArray[Any]:
    """Class indices (N,), or of lists booleans (N, C)."""
    if column.dtype != object:
        return column.to_numpy(np.int64)
    labels = np.zeros((len(column), num_classes), bool)
    for row, entries in enumerate(column):
        labels[row, np.asarray(entries, np.int64)] = True
    return labels


def rank(
    candidates: Sequence[Mapping[str, Any]], out_of_fold: Mapping[str, OutOfFold], prefer: str, seed: int
) -> pd.DataFrame:
    """All candidates in the columns `COLUMNS`, best first by macro-F1; those without predictions last.

    The figures of one that predicted a part of the rows are told for all rows: what it has on its own, and what the
    best of those that predicted all has more on all than on these.

    Where texts have one label, micro-F1 is called what it is then: `accuracy`.

    Args:
        candidates: what `candidates.json` says of each.
        out_of_fold: of those that finished.
        prefer: see `recommend`.
        seed: of resampled rows.
    """
    whole = _best_of_all_rows(out_of_fold)
    listed = [_figures(entry, out_of_fold.get(entry["candidate"]), whole, seed) for entry in candidates]
    table = pd.DataFrame(listed, columns=list(COLUMNS))
    table = table.sort_values("macro_f1", ascending=False, kind="stable", na_position="last", ignore_index=True)
    finished = table["macro_f1"].notna()
    table.loc[finished, "rank"] = np.arange(1, finished.sum() + 1)
    if finished.any():
        _compare_with_best(table, out_of_fold, seed)
        allowed = {entry["candidate"] for entry in candidates if entry.get("can_be_recommended", True)}
        parts = {entry["candidate"]: entry.get("parts", ()) for entry in candidates}
        most = max(len(part.rows) for part in out_of_fold.values())
        has_all = table["candidate"].map(lambda name: name in out_of_fold and len(out_of_fold[name].rows) == most)
        is_tuned = table["candidate"].isin([e["candidate"] for e in candidates if e.get("is_known_to_gain")])
        tuned, frozen = (table["candidate"][kind] for kind in (finished & is_tuned, finished & has_all & ~is_tuned))
        gains = {}
        if len(tuned) and len(frozen):
            sides = out_of_fold[tuned.iloc[0]], out_of_fold[frozen.iloc[0]]
            steps = {entry["candidate"]: entry.get("pair_steps") for entry in candidates}
            gains = {name: known_gain(*sides, seed, steps[name]) for name in tuned}
        table_with_gain = table.assign(has_all_rows=has_all, known_gain=[gains.get(n, 0.0) for n in table["candidate"]])
        eligible = table_with_gain[finished & table["candidate"].isin(allowed)]
        chosen = recommend(eligible, prefer, parts)
        table["recommended"] = table["candidate"] == chosen
    table["rank"] = table["rank"].astype("Int64")
    if any(part.several for part in out_of_fold.values()):
        return table
    return table.rename(columns=lambda name: name.replace("micro_f1", "accuracy"))


def second_figure(ranking: pd.DataFrame) -> str:
    """What stands beside macro-F1: `accuracy`, or `micro_f1` where texts have several labels."""
    return "accuracy" if "accuracy" in ranking else "micro_f1"


def _best_of_all_rows(out_of_fold: Mapping[str, OutOfFold]) -> OutOfFold | None:
    """The best of those that predicted the most rows."""
    most = max((len(part.rows) for part in out_of_fold.values()), default=0)
    all_rows = [part for part in out_of_fold.values() if len(part.rows) == most]
    return max(all_rows, key=lambda part: float(part.estimate().macro_f1[0]), default=None)


def macro_f1_of(
    is_counted: NDArray[np.bool_], out_of_fold: OutOfFold, all_candidates: Mapping[str, OutOfFold]
) -> float:
    """Macro-F1 of a candidate over some of the classes (C,), told for all rows as `rank` does."""
    whole = _best_of_all_rows(all_candidates) or out_of_fold

    def mean_f1(part: OutOfFold) -> float:
        return float(part.estimate().f1[0][is_counted & (part.rows_of_class > 0)].mean())

    same_rows = whole.part(np.isin(whole.rows, out_of_fold.rows))
    return float(np.clip(mean_f1(out_of_fold) + mean_f1(whole) - mean_f1(same_rows), 0, 1))


def _figures(
    entry: Mapping[str, Any], out_of_fold: OutOfFold | None, whole: OutOfFold | None, seed: int
) -> dict[str, Any]:
    figures = {name: entry.get(name) for name in COLUMNS} | {"within_noise": False, "recommended": False}
    if out_of_fold is None or whole is None:
        return figures
    own, draws = out_of_fold.estimate(), out_of_fold.resampled(seed)
    same_rows = whole.part(np.isin(whole.rows, out_of_fold.rows)).estimate()
    for name in ("macro_f1", "micro_f1"):
        more = float(getattr(whole.estimate(), name)[0] - getattr(same_rows, name)[0])
        value = float(np.clip(getattr(own, name)[0] + more, 0, 1))
        bias = out_of_fold.bias(seed) if name == "macro_f1" else 0.0
        lower, upper = interval(getattr(draws, name) + more, value, out_of_fold.widened, bias)
        figures |= {name: value, f"{name}_lower": float(lower), f"{name}_upper": float(upper)}
    return figures | {"ece": out_of_fold.calibration_error(), "brier": out_of_fold.brier()}


def _compare_with_best(table: pd.DataFrame, out_of_fold: Mapping[str, OutOfFold], seed: int) -> None:
    """Fills difference_to_best, p_holm and within_noise."""
    best = out_of_fold[table["candidate"][0]]
    tests: list[tuple[float, float, float]] = [(0.0, 1.0, 0.0)]
    for name in table["candidate"][1 : table["macro_f1"].notna().sum()]:
        tests.append(out_of_fold[name].difference(best, np.random.default_rng([seed, 2])))
    rows = table.index[: len(tests)]
    corrected = [None, *holm([p for _, p, _ in tests[1:]])]
    table.loc[rows, "difference_to_best"] = [difference for difference, _, _ in tests]
    table.loc[rows, "p_holm"] = corrected
    table.loc[rows, "within_noise"] = [p is None or p >= LEVEL for p in corrected]


def known_gain(
    tuned: OutOfFold, frozen: OutOfFold, seed: int, steps: tuple[float, float] | None = None
) -> float:
    """What counts for a candidate that trains the encoder besides the difference that was measured.

    Of the difference on new rows, `GAIN_MEAN` is expected beforehand and `GAIN_SPREAD` is its spread. After it was
    measured with an error, that is above 0 where the measured one and this gain are together. An error above that
    spread, of very few rows, counts as one of it: the gain was measured on 100 rows and more. The gain is that of
    `MOST_STEPS` of pairs, fewer have less; what has more on all rows than in the folds gains by them, as `STEPS_MEAN`
    says, and as much again is the spread of that, one more error.

    Args:
        tuned: of the best that trains the encoder.
        frozen: of the best of the others.
        seed: of the exchanges that the error is told from.
        steps: of pairs in the folds and on all rows; None: as many as `GAIN_MEAN` was measured with, in both.
    """
    of_folds, of_all = (min(number, MOST_STEPS) for number in steps or (MOST_STEPS, MOST_STEPS))
    more = STEPS_MEAN * np.log(max(of_all / of_folds, 1.0))
    gain = GAIN_MEAN - STEPS_MEAN * np.log(MOST_STEPS / of_all)
    error = min(tuned.difference(frozen, np.random.default_rng([seed, 3]))[2], GAIN_SPREAD)
    return float(more + max(gain, 0.0) * (error**2 + more**2) / GAIN_SPREAD**2)


def recommend(
    finished: pd.DataFrame, prefer: str = "quality", parts: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> str | None:
    """The candidate to take among those within noise of the best; None where there is none.

    `quality`: of those whose macro-F1 is at most `AS_GOOD` below the best the cheapest in train seconds, where up to
    `AS_CHEAP` times as many count alike, or `SOON` more of a candidate that predicted all rows, and of those alike the
    best, what is known beforehand of fine-tuning counted; in place of a part of a sum the sum, which few rows may put
    below it by chance; `speed`: the best of those that classify `AS_FAST` times the most texts a second; `size`: the
    best of those of up to `AS_SMALL` times the smallest size.

    Args:
        finished: of the table that `rank` gives; `has_all_rows` and `known_gain` beside it, or neither.
        parts: of candidates that are sums, the candidates that they add.
    """
    within = finished[finished["within_noise"].astype(bool)]
    if within.empty:
        within = finished.head(1)
    if within.empty:
        return None
    gain = within.get("known_gain", 0.0) if prefer == "quality" else 0.0
    expected = within["difference_to_best"] + gain
    within = within.assign(expected=expected - expected.max())
    alike = _alike(within, prefer)
    alike = alike if len(alike) else within  # of speeds or sizes that nobody measured
    by = ["expected", "train_seconds"]
    best = str(alike.sort_values(by, ascending=[False, True], kind="stable")["candidate"].iloc[0])
    if prefer != "quality":
        return best
    return next((name for name in within["candidate"] if best in parts.get(name, ())), best)


def _alike(within: pd.DataFrame, prefer: str) -> pd.DataFrame:
    """Those between which speed, size or cost do not decide."""
    if prefer == "speed":
        return within[within["texts_per_second"] >= AS_FAST * within["texts_per_second"].max()]
    if prefer == "size":
        return within[within["size_mib"] <= AS_SMALL * within["size_mib"].min()]
    as_good = within[within["expected"] >= -AS_GOOD]
    cheapest = as_good["train_seconds"].min()
    soon = cheapest + SOON * as_good.get("has_all_rows", True)
    return as_good[(as_good["train_seconds"] <= AS_CHEAP * cheapest) | (as_good["train_seconds"] <= soon)]
