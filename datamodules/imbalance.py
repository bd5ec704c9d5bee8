"""Thin the train split to a chosen imbalance ratio: largest to smallest class."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import numpy as np

from datamodules.splits import rank_in_class
from storage.errors import InputError

Positions = Sequence[Annotated[int, ">= 0"]]
Rows = Annotated[int, ">= 1"]


class Imbalance(ABC):
    """Decides how many rows of each class the train split keeps."""

    @abstractmethod
    def target_sizes(self, sizes: np.ndarray, label_names: Sequence[str]) -> np.ndarray:
        """Rows to keep per class ``(C,)``, given the rows there are ``(C,)``."""

    def select(
        self, labels: np.ndarray, rng: np.random.Generator, label_names: Sequence[str] | None = None
    ) -> np.ndarray:
        """Draw the rows to keep.

        With the same ``rng`` state, the rows kept of a class for a smaller count are a subset of those for a larger.

        Args:
            labels: ``(N,)`` class indices, or ``(N, C)`` of 0 and 1.
            rng: draws the rows.
            label_names: names of the classes; the indices as text where not given.

        Returns:
            Sorted positions of the kept rows.

        Raises:
            InputError: the wanted counts cannot be had, or rows have several labels and not all are wanted; names the
                key, what was found and what is allowed.
        """
        if labels.ndim == 2:
            sizes = labels.sum(axis=0, dtype=np.int64)
            if not np.array_equal(self.target_sizes(sizes, label_names or [str(c) for c in range(len(sizes))]), sizes):
                raise InputError(
                    f"imbalance: found {type(self).__name__}, which thins classes; allowed where texts have several "
                    "labels: imbalance.ir=null, imbalance=listed"
                )
            return np.arange(len(labels))
        num_classes = int(labels.max()) + 1 if label_names is None else len(label_names)
        names = [str(c) for c in range(num_classes)] if label_names is None else label_names
        sizes = np.bincount(labels, minlength=num_classes)
        return np.flatnonzero(rank_in_class(labels, rng) < self.target_sizes(sizes, names)[labels])


class Exponential(Imbalance):
    """Class sizes that fall off exponentially from the largest class to the smallest.

    ``n_c = n_max * ir ** (-(c - 1) / (C - 1))`` over the C classes sorted by size, no class growing (Cui et al., 2019,
    "Class-Balanced Loss Based on Effective Number of Samples", sec. 5.1). ``ir=None`` keeps the data as it is.
    """

    def __init__(self, ir: Annotated[float, ">= 1"] | None = None) -> None:
        self.ir = _checked(ir)

    def target_sizes(self, sizes: np.ndarray, label_names: Sequence[str]) -> np.ndarray:
        if self.ir is None:
            return sizes
        n_min, n_max = _ends(sizes, self.ir)
        order = _by_size(sizes)
        decay = np.arange(len(order)) / max(len(order) - 1, 1)
        # The small term keeps a profile value that is a whole number from being floored to the one below.
        profile = np.floor(n_max * self.ir**-decay + 1e-9).astype(np.int64)
        return _placed(sizes, order, np.maximum(profile, n_min))


class Step(Imbalance):
    """Two levels: a share of the classes, the largest ones, keeps n_max rows and the others n_min = n_max / ir.

    Buda et al., 2018, "A systematic study of the class imbalance problem in convolutional neural networks", sec. 2.1.
    A head class that has fewer than n_max rows keeps them all. ``ir=None`` keeps the data as it is.
    """

    def __init__(
        self, ir: Annotated[float, ">= 1"] | None = None, share_of_head: Annotated[float, "> 0", "< 1"] = 0.5
    ) -> None:
        self.ir = _checked(ir)
        if not 0 < share_of_head < 1:
            raise InputError(f"imbalance.share_of_head: found {share_of_head}, allowed: 0 < share_of_head < 1")
        self.share_of_head = share_of_head

    def target_sizes(self, sizes: np.ndarray, label_names: Sequence[str]) -> np.ndarray:
        if self.ir is None:
            return sizes
        n_min, n_max = _ends(sizes, self.ir)
        order = _by_size(sizes)
        head = min(max(round(self.share_of_head * len(order)), 1), max(len(order) - 1, 1))
        return _placed(sizes, order, np.where(np.arange(len(order)) < head, n_max, n_min))


class Counts(Imbalance):
    """A given number of rows per class: a list in the order of the label names, or a mapping from class name.

    Classes that a mapping does not name keep all their rows.
    """

    def __init__(self, counts: Sequence[Rows] | dict[str | int, Rows]) -> None:
        self.counts = counts

    def target_sizes(self, sizes: np.ndarray, label_names: Sequence[str]) -> np.ndarray:
        rows = dict(zip(label_names, sizes.tolist(), strict=True))
        counts = self._by_name(label_names)
        for name, count in counts.items():
            if isinstance(count, bool) or count != int(count) or not 1 <= count <= rows[name]:
                allowed = f"1 to {rows[name]} rows" if rows[name] else "no number, for it has no train row"
                raise InputError(f"imbalance.counts: found {count} for class {name!r}, allowed: {allowed}")
        return np.array([int(count) for count in (rows | counts).values()])

    def _by_name(self, label_names: Sequence[str]) -> dict:
        if isinstance(self.counts, Mapping):
            counts = {str(name): count for name, count in self.counts.items()}
            if unknown := [name for name in counts if name not in set(label_names)]:
                raise InputError(f"imbalance.counts: found class {unknown[0]!r}, allowed: {', '.join(label_names)}")
            return counts
        if len(self.counts) != len(label_names):
            raise InputError(
                f"imbalance.counts: found {len(self.counts)}, allowed: one for each of {len(label_names)} classes"
            )
        return dict(zip(label_names, self.counts, strict=True))


def _checked(ir: float | None) -> float | None:
    if ir is not None and not (ir >= 1 and math.isfinite(ir)):
        raise InputError(f"imbalance.ir: found {ir}, allowed: a number >= 1, or null to keep the data as it is")
    return ir


def _by_size(sizes: np.ndarray) -> np.ndarray:
    """Classes that have rows, largest first, ties by class index."""
    order = np.argsort(-sizes, kind="stable")
    return order[sizes[order] > 0]


def _ends(sizes: np.ndarray, ir: float) -> tuple[int, int]:
    """Sizes of the smallest and the largest class, so that their ratio is ``ir`` within half a row.

    The smallest class is as large as it can be, which keeps the most rows: where the data is more imbalanced than
    wanted that cuts the largest class, otherwise the smallest.
    """
    if not sizes.any():
        raise InputError(f"imbalance.ir: found {ir:g} and no labelled row to thin, allowed: null")
    largest, smallest = int(sizes.max()), int(sizes[sizes > 0].min())
    if ir > largest:
        raise InputError(
            f"imbalance.ir: found {ir:g}, allowed: 1 to {largest} (the largest class has {largest} train rows, "
            "a larger ratio would leave the smallest class empty)"
        )
    n_min = min(smallest, math.floor(largest / ir))
    return n_min, min(largest, math.ceil(n_min * ir - 0.5))


def _placed(sizes: np.ndarray, order: np.ndarray, profile: np.ndarray) -> np.ndarray:
    sizes_kept = np.zeros_like(sizes)
    sizes_kept[order] = np.minimum(profile, sizes[order])
    return sizes_kept


class Listed:
    """Keeps the rows that are named, whatever their classes: what has been labelled so far.

    Args:
        rows: of the train table, without repetition.
        labels: class index of each as somebody else labelled it, a list of them where texts have several; null: as the
            data set says.
        unlabelled: rows of the train table to learn from without a label, or `rest`: all others; null: none.
    """

    def __init__(
        self,
        rows: Positions,
        labels: Positions | Sequence[list[Annotated[int, ">= 0"]]] | None = None,
        unlabelled: Positions | Literal["rest"] | None = None,
    ) -> None:
        if len(set(rows)) != len(rows):
            raise InputError("imbalance.rows: found a row twice, allowed: each once")
        if labels is not None and len(labels) != len(rows):
            raise InputError(f"imbalance.labels: found {len(labels)}, allowed: {len(rows)}, one a row")
        self.rows = np.array(rows, dtype=np.int64)
        self.labels = labels
        self.unlabelled = unlabelled

    def answers(self, num_classes: int) -> np.ndarray | None:
        """What somebody else said of the rows: (n,) class indices, or (n, C) of 0 and 1; None: nothing.

        Raises:
            InputError: a number that is no class, or numbers beside lists of them.
        """
        if self.labels is None:
            return None
        several = [[*label] for label in self.labels if isinstance(label, Sequence)]
        if several and len(several) != len(self.labels):
            raise InputError("imbalance.labels: found numbers beside lists of them, allowed: one kind")
        numbers = [number for label in self.labels for number in (label if isinstance(label, Sequence) else [label])]
        for number in numbers:
            if not 0 <= number < num_classes:
                raise InputError(f"imbalance.labels: found {number}, allowed: 0 to {num_classes - 1}")
        if not several:
            return np.array(self.labels, dtype=np.int64)
        answers = np.zeros((len(self.labels), num_classes), np.uint8)
        for row, of_row in zip(answers, several, strict=True):
            row[of_row] = 1
        return answers

    def among(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Of these rows of the train table (N,) the named ones, and those to learn from without a label, None where
        there are none; each ascending.

        Raises:
            InputError: a named row is not among them.
        """
        _check_among("imbalance.rows", self.rows, rows)
        if self.unlabelled is None:
            return np.sort(self.rows), None
        if self.unlabelled == "rest":
            return np.sort(self.rows), np.setdiff1d(rows, self.rows)
        unlabelled = np.array(self.unlabelled, dtype=np.int64)
        _check_among("imbalance.unlabelled", unlabelled, rows)
        return np.sort(self.rows), np.setdiff1d(unlabelled, self.rows)


def _check_among(option: str, named: np.ndarray, rows: np.ndarray) -> None:
    if len(outside := np.setdiff1d(named, rows)):
        is_whole = len(rows) and rows.max() == len(rows) - 1
        of_some = "train rows with a label that no fold or validation holds out"
        allowed = f"0 to {len(rows) - 1}" if is_whole else of_some
        raise InputError(f"{option}: found {outside[0]}, allowed: {allowed}")
