"""How many train rows keep their label: the others stay as texts without one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from datamodules.splits import rank_in_class
from datamodules.streams import LABEL_STREAM
from storage.errors import InputError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LabelBudget:
    """Labels in all, or of each class; with neither every row keeps its own. Then the rows without a label, at most.

    With one seed the rows of a smaller budget are among those of a larger.
    """

    labels: int | None = None
    labels_per_class: int | None = None
    most_unlabelled: int | None = None

    def __post_init__(self) -> None:
        if self.labels is not None and self.labels_per_class is not None:
            raise InputError(
                f"dataset.labels: found {self.labels} beside dataset.labels_per_class={self.labels_per_class}, "
                "allowed: one of the two"
            )

    def __bool__(self) -> bool:
        return self.labels is not None or self.labels_per_class is not None

    def select(self, labels: np.ndarray, seed: int, label_names: Sequence[str]) -> np.ndarray:
        """Sorted positions of the rows that keep their label, of those that have one.

        Args:
            labels: ``(N,)`` class indices; or ``(N, C)`` of 0 and 1, where a row of zeros says that none applies.
            seed: draws the rows.
            label_names: C names.

        Raises:
            InputError: more labels than there are, or a number for each class where texts have several.
        """
        rng = np.random.default_rng([seed, 0, LABEL_STREAM])
        if self.labels is not None:
            if self.labels > len(labels):
                raise InputError(f"dataset.labels: found {self.labels}, allowed: 0 to {len(labels)}, the labelled rows")
            return np.sort(rng.permutation(len(labels))[: self.labels])
        if labels.ndim == 2:
            raise InputError("dataset.labels_per_class: texts have several labels; allowed: dataset.labels")
        sizes = np.bincount(labels, minlength=len(label_names))
        assert self.labels_per_class is not None
        if not sizes.any():
            raise InputError("dataset.labels_per_class: no row has a label, allowed: dataset.labels=0")
        if self.labels_per_class > sizes.max():
            raise InputError(
                f"dataset.labels_per_class: found {self.labels_per_class}, "
                f"allowed: 1 to {sizes.max()}, the rows of the largest class"
            )
        if fewer := int((sizes < self.labels_per_class).sum()):
            said = "dataset.labels_per_class=%d: %d of %d classes have fewer rows, and keep them all; smallest: %d"
            log.warning(said, self.labels_per_class, fewer, len(sizes), sizes.min())
        return np.flatnonzero(rank_in_class(labels, rng) < self.labels_per_class)

    def select_unlabelled(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Those of the sorted `rows` (N,) without a label that are learned from, sorted."""
        return rows if self.most_unlabelled is None else np.sort(rng.permutation(rows)[: self.most_unlabelled])
