"""Figures of how the embeddings of a split lie, beside its accuracy."""

from __future__ import annotations

from typing import Annotated, Any

import lightning.pytorch as pl
import torch
from lightning.pytorch import Callback
from torch import Tensor

from callbacks.predictions import gathered
from reporting.geometry import geometry
from storage.run_store import RunFolder


class Geometry(Callback):
    """Alignment, uniformity, neighbourhood purity and silhouette of the selected weights, by split.

    A callback with `split_figures` does not watch training: it sits in the evaluation after it, and what it gives
    joins the run's metrics. Works on the dicts that `validation_step` and `test_step` return: ``embeddings`` (B, D),
    ``labels`` (B,) and ``indices`` (B,).

    Args:
        run, protocol: not used; all callbacks are built alike.
        neighbours: how many nearest rows count for purity.
        max_rows: of a larger split, so many random rows are measured.
    """

    multilabel = False  # its figures tell rows of one class from rows of another

    def __init__(
        self,
        run: RunFolder,
        protocol: Any,
        neighbours: Annotated[int, ">= 1"] = 10,
        max_rows: Annotated[int, ">= 2"] = 5000,
    ) -> None:
        self.neighbours, self.max_rows = neighbours, max_rows
        self.batches: list[Tensor] = []
        self.splits: dict[str, dict[str, float]] = {}

    def split_figures(self, split: str) -> dict[str, float]:
        """Of the last evaluation of `split`, on every rank. Raises KeyError before it."""
        return self.splits[split]

    def _start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.batches = []

    def _collect(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        columns = [outputs["indices"][:, None], outputs["labels"][:, None], outputs["embeddings"].detach()]
        self.batches.append(torch.cat([column.cpu().double() for column in columns], dim=1))

    def _finish(self, trainer: pl.Trainer, split: str) -> None:
        rows = gathered(torch.cat(self.batches), trainer.world_size).numpy()
        rows = rows[rows[:, 0].argsort()]  # whatever process saw which, the same sample
        self.batches = []
        self.splits[split] = geometry(rows[:, 2:], rows[:, 1].astype(int), self.neighbours, self.max_rows)

    on_validation_epoch_start = _start
    on_test_epoch_start = _start
    on_validation_batch_end = _collect
    on_test_batch_end = _collect

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._finish(trainer, "val")

    def on_test_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._finish(trainer, "test")
