"""Embeddings and logits of every row of a split, for what is computed after an evaluation."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch import Callback
from numpy.typing import NDArray
from torch import Tensor

from callbacks.predictions import gathered

KEYS = ("indices", "embeddings", "logits")


class Rows(Callback):
    """Collects what evaluation and prediction steps return over batches and ranks, in row order.

    Works on the dicts of the steps: ``indices`` (B,), the row within the split, ``embeddings`` (B, D) and ``logits``
    (B, C). A row that several ranks saw counts once. What prediction steps return is kept as the split "train".
    """

    def __init__(self) -> None:
        self.batches: dict[str, list[Tensor]] = {key: [] for key in KEYS}
        self.splits: dict[str, dict[str, NDArray[Any]]] = {}

    def of(self, split: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Embeddings (N, D) and logits (N, C) of a split. Raises KeyError before its evaluation."""
        return self.splits[split]["embeddings"], self.splits[split]["logits"]

    def _start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.batches = {key: [] for key in KEYS}

    def _collect(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        for key, parts in self.batches.items():
            parts.append(outputs[key].detach().cpu())

    def _finish(self, trainer: pl.Trainer, split: str) -> None:
        rows = {key: gathered(torch.cat(parts), trainer.world_size) for key, parts in self.batches.items()}
        order = np.unique(rows.pop("indices").numpy(), return_index=True)[1]
        self.splits[split] = {key: values.float().numpy()[order] for key, values in rows.items()}
        self.batches = {key: [] for key in KEYS}

    on_validation_epoch_start = on_test_epoch_start = on_predict_epoch_start = _start
    on_validation_batch_end = on_test_batch_end = on_predict_batch_end = _collect

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._finish(trainer, "val")

    def on_test_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._finish(trainer, "test")

    def on_predict_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._finish(trainer, "train")
