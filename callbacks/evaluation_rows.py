"""What evaluation steps return for each row of a split, collected over batches and ranks."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch import Callback
from numpy.typing import NDArray
from torch import Tensor

Columns = dict[str, Tensor]


class EvaluationRows(Callback):
    """Columns of every row of a split, in row order; a row that several ranks evaluated counts once.

    Works on the dicts that the steps return. Every rank holds all rows at the end of a split.

    Attributes:
        splits: columns by split and name, each (N,) or (N, width).
    """

    keys: tuple[str, ...] = ()  # what is read of a step's dict, besides `indices` (B,), the row within the split

    def __init__(self) -> None:
        self.batches: list[Columns] = []
        self.splits: dict[str, dict[str, NDArray[Any]]] = {}

    def batch_columns(self, outputs: Columns) -> Columns:
        """What is kept of a batch: `indices` (B,), and columns (B,) or (B, width)."""
        return outputs

    def split_collected(self, trainer: pl.Trainer, split: str) -> None:
        """Called on every rank once `splits` holds the whole of a split."""

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
        keys = [key for key in ("indices", *self.keys) if key in outputs]
        self.batches.append(self.batch_columns({key: outputs[key].detach().cpu() for key in keys}))

    def _finish(self, trainer: pl.Trainer, split: str) -> None:
        columns = _concatenated(_from_all_ranks(_concatenated(self.batches), trainer.world_size))
        self.batches = []
        if columns:
            order = np.unique(columns.pop("indices").numpy(), return_index=True)
            self.splits[split] = {"indices": order[0]} | {key: rows.numpy()[order[1]] for key, rows in columns.items()}
        self.split_collected(trainer, split)

    on_validation_epoch_start = on_test_epoch_start = _start
    on_validation_batch_end = on_test_batch_end = _collect

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._finish(trainer, "val")

    def on_test_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._finish(trainer, "test")


class ModelOutputs(EvaluationRows):
    """Embeddings and logits of every row of a split, for what is computed after an evaluation.

    What prediction steps return is kept as the split "train".
    """

    keys = ("embeddings", "logits")

    on_predict_epoch_start = EvaluationRows._start
    on_predict_batch_end = EvaluationRows._collect

    def on_predict_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._finish(trainer, "train")

    def embeddings(self, split: str) -> NDArray[np.float32]:
        """(N, D). Raises KeyError before the split's evaluation."""
        return self.splits[split]["embeddings"].astype(np.float32)

    def logits(self, split: str) -> NDArray[np.float32]:
        """(N, C). Raises KeyError before the split's evaluation."""
        return self.splits[split]["logits"].astype(np.float32)


def _concatenated(parts: list[Columns]) -> Columns:
    """Batches, or ranks, one after another; those without rows, which a rank may have, are left out."""
    parts = [part for part in parts if part]
    return {key: torch.cat([part[key] for part in parts]) for key in parts[0]} if parts else {}


def _from_all_ranks(columns: Columns, world_size: int) -> list[Columns]:
    """The columns of every rank; ranks may hold different numbers of rows."""
    if world_size == 1:
        return [columns]
    import torch.distributed as distributed

    ranks: list[Any] = [None] * world_size
    distributed.all_gather_object(ranks, columns)
    return ranks
