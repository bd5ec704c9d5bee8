"""Figures of how the embeddings of a split lie, beside its accuracy."""

from __future__ import annotations

from typing import Annotated, Any

import lightning.pytorch as pl

from callbacks.evaluation_rows import EvaluationRows
from reporting.geometry import geometry
from storage.run_store import RunFolder


class Geometry(EvaluationRows):
    """Alignment, uniformity, neighbourhood purity and silhouette of the selected weights, by split.

    A callback with `split_figures` does not watch training: it sits in the evaluation after it, and what it gives
    joins the run's metrics. Works on the dicts that `validation_step` and `test_step` return: ``embeddings`` (B, D),
    ``labels`` (B,) and ``indices`` (B,).

    Args:
        run, protocol: not used; all callbacks are built alike.
        neighbours: how many nearest rows count for purity.
        max_rows: of a larger split, so many random rows are measured.
    """

    keys = ("labels", "embeddings")
    multilabel = False  # its figures tell rows of one class from rows of another

    def __init__(
        self,
        run: RunFolder,
        protocol: Any,
        neighbours: Annotated[int, ">= 1"] = 10,
        max_rows: Annotated[int, ">= 2"] = 5000,
    ) -> None:
        super().__init__()
        self.neighbours, self.max_rows = neighbours, max_rows
        self.figures: dict[str, dict[str, float]] = {}

    def split_figures(self, split: str) -> dict[str, float]:
        """Of the last evaluation of `split`, on every rank. Raises KeyError before it."""
        return self.figures[split]

    def split_collected(self, trainer: pl.Trainer, split: str) -> None:
        rows = self.splits[split]
        self.figures[split] = geometry(rows["embeddings"].astype(float), rows["labels"], self.neighbours, self.max_rows)
