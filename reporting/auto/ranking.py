"""Which candidate: intervals, paired comparisons with the best on the same rows, and the cheapest that is as good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from reporting.auto.resampling import Patterns, Scores, bootstrap, difference_test, estimate, interval
from reporting.calibration import answers, brier_score, expected_calibration_error
from reporting.statistics import holm

LEVEL = 0.05
PREFER = ("quality", "speed", "size")
COLUMNS = (
    *("rank", "candidate", "title", "macro_f1", "macro_f1_lower", "macro_f1_upper"),
    *("accuracy", "accuracy_lower", "accuracy_upper", "difference_to_best", "p_holm", "within_noise", "recommended"),
    *("ece", "brier", "train_seconds", "texts_per_second", "size_mib", "status", "reason"),
)


@dataclass(frozen=True)
class OutOfFold:
    """Outer-fold predictions of one candidate: each row predicted once in each repeat, by a model without it.

    Attributes:
        rows: (N,) ascending.
        labels: (N,) class indices.
        probabilities: (R, N, C).
        repeats: (R,) their numbers.
        folds: (N,) in the first repeat.
    """

    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    repeats: tuple[int, ...]
    folds: NDArray[np.int64]

    @classmethod
    def of(cls, table: pd.DataFrame) -> OutOfFold:
        """Of a table with the columns row, repeat, fold, label, p_0 … p_{C-1}; a repeat that lacks rows is left out."""
        table = table.sort_values(["repeat", "row"], kind="stable")
        parts = {int(repeat): table[table["repeat"] == repeat] for repeat in table["repeat"].unique()}
        most = max(len(part) for part in parts.values())
        parts = {repeat: part for repeat, part in parts.items() if len(part) == most}
        columns = sorted((name for name in map(str, table) if name.startswith("p_")), key=lambda name: int(name[2:]))
        first = next(iter(parts.values()))
        probabilities = np.stack([part[columns].to_numpy(np.float64) for part in parts.values()])
        rows, labels, folds = (first[name].to_numpy(np.int64) for name in ("row", "label", "fold"))
        return cls(rows, labels, probabilities, tuple(parts), folds)

    @property
    def num_classes(self) -> int:
        return self.probabilities.shape[2]

    @property
    def predictions(self) -> NDArray[np.int64]:
        """(N, R) class indices."""
        return self.probabilities.argmax(axis=2).T

    @property
    def patterns(self) -> Patterns:
        return Patterns.of(self.labels, self.predictions, self.num_classes)

    def pooled(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Labels (R N,) and probabilities (R N, C) of all repeats, one after the other."""
        repeats, rows, classes = self.probabilities.shape
        return np.tile(self.labels, repeats), self.probabilities.reshape(repeats * rows, classes)

    def shared(self, other: OutOfFold) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Labels (N,) and both predictions (N, R), on the rows and repeats that both have."""
        repeats = [repeat for repeat in self.repeats if repeat in other.repeats]
        rows, mine, theirs = np.intersect1d(self.rows, other.rows, return_indices=True)
        if not repeats or not len(rows):
            raise ValueError("two candidates share no row of any repeat")
        first, second = (
            side.predictions[:, [side.repeats.index(repeat) for repeat in repeats]][where]
            for side, where in ((self, mine), (other, theirs))
        )
        return self.labels[mine], first, second


def rank(
    candidates: Sequence[Mapping[str, Any]], out_of_fold: Mapping[str, OutOfFold], prefer: str, seed: int
) -> pd.DataFrame:
    """All candidates in the columns `COLUMNS`, best first by macro-F1; those without predictions last.

    Args:
        candidates: what `candidates.json` says of each.
        out_of_fold: of those that finished.
        prefer: see `recommend`.
        seed: of resampled rows.
    """
    listed = [_figures(entry, out_of_fold.get(entry["candidate"]), seed) for entry in candidates]
    table = pd.DataFrame(listed, columns=[*COLUMNS, "standard_error"])
    table = table.sort_values("macro_f1", ascending=False, kind="stable", na_position="last", ignore_index=True)
    finished = table["macro_f1"].notna()
    table.loc[finished, "rank"] = np.arange(1, finished.sum() + 1)
    if finished.any():
        _compare_with_best(table, out_of_fold, seed)
        allowed = {entry["candidate"] for entry in candidates if entry.get("can_be_recommended", True)}
        chosen = recommend(table[finished & table["candidate"].isin(allowed)], prefer)
        table["recommended"] = table["candidate"] == chosen
    table["rank"] = table["rank"].astype("Int64")
    return table.drop(columns="standard_error")


def _figures(entry: Mapping[str, Any], out_of_fold: OutOfFold | None, seed: int) -> dict[str, Any]:
    figures = {name: entry.get(name) for name in COLUMNS} | {"within_noise": False, "recommended": False}
    if out_of_fold is None:
        return figures
    whole, draws = estimate(out_of_fold.patterns), resampled(out_of_fold, seed)
    for name in ("macro_f1", "accuracy"):
        value = float(getattr(whole, name)[0])
        lower, upper = interval(getattr(draws, name), value)
        figures |= {name: value, f"{name}_lower": float(lower), f"{name}_upper": float(upper)}
    labels, probabilities = out_of_fold.pooled()
    return figures | {
        "ece": expected_calibration_error(*answers(labels, probabilities)),
        "brier": brier_score(labels, probabilities),
    }


def resampled(out_of_fold: OutOfFold, seed: int) -> Scores:
    """The figures of resampled rows; the same rows whichever candidate it is."""
    return bootstrap(out_of_fold.patterns, np.random.default_rng([seed, 1]))


def _compare_with_best(table: pd.DataFrame, out_of_fold: Mapping[str, OutOfFold], seed: int) -> None:
    """Fills difference_to_best, p_holm, within_noise and the standard error of the difference."""
    best = out_of_fold[table["candidate"][0]]
    tests: list[tuple[float, float, float]] = [(0.0, 1.0, 0.0)]
    for name in table["candidate"][1 : table["macro_f1"].notna().sum()]:
        labels, theirs, its = out_of_fold[name].shared(best)
        tests.append(difference_test(labels, theirs, its, best.num_classes, np.random.default_rng([seed, 2])))
    rows = table.index[: len(tests)]
    corrected = [None, *holm([p for _, p, _ in tests[1:]])]
    table.loc[rows, "difference_to_best"] = [difference for difference, _, _ in tests]
    table.loc[rows, "standard_error"] = [error for _, _, error in tests]
    table.loc[rows, "p_holm"] = corrected
    table.loc[rows, "within_noise"] = [p is None or p >= LEVEL for p in corrected]


def recommend(finished: pd.DataFrame, prefer: str = "quality") -> str | None:
    """The candidate to take among those within noise of the best; None where there is none.

    `quality`: the cheapest (train seconds, then size) whose macro-F1 is also less than one standard error of the paired
    difference below the best (the one-standard-error rule of Breiman et al. 1984, ch. 3.4.3); `speed`: whatever
    classifies the most texts a second; `size`: the smallest.
    """
    within = finished[finished["within_noise"].astype(bool)]
    if within.empty:
        within = finished.head(1)
    if within.empty:
        return None
    if prefer == "quality":
        within = within[within["difference_to_best"] + within["standard_error"] >= 0]
        within = within if len(within) else finished.head(1)
    order = {
        "quality": (["train_seconds", "size_mib"], [True, True]),
        "speed": (["texts_per_second", "train_seconds"], [False, True]),
        "size": (["size_mib", "train_seconds"], [True, True]),
    }[prefer]
    return str(within.sort_values(order[0], ascending=order[1], kind="stable")["candidate"].iloc[0])
