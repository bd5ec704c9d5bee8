"""``predictions.csv``: what was predicted for each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch import Callback
from torch import Tensor

from reporting.run_store import RunFolder

HEADER = ("split", "index", "label", "prediction", "probability")


class Predictions(Callback):
    """Collects evaluation outputs over batches and ranks, and writes them sorted by split and row.

    Works on the dicts that ``validation_step`` and ``test_step`` return: ``logits`` (B, C), ``labels`` (B,) and
    ``indices`` (B,), the row within the split. A row that several ranks saw counts once.

    Args:
        run: folder to write into.
        protocol: not used; all callbacks are built alike.
        label_names: names (C,) to write in place of class numbers.
    """

    def __init__(self, run: RunFolder, protocol: Any = None, label_names: Sequence[str] | None = None) -> None:
        self.run = run
        self.label_names = label_names
        self.batches: list[Tensor] = []
        self.splits: dict[str, Tensor] = {}

    def of(self, split: str) -> tuple[list[int], list[int]]:
        """Labels and predictions of a split as class numbers, in row order. Raises KeyError before its evaluation."""
        rows = self.splits[split]
        return rows[:, 1].long().tolist(), rows[:, 2].long().tolist()

    def _start(self, *_: Any) -> None:
        self.batches = []

    def _collect(self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, *_: Any) -> None:
        probabilities, predictions = outputs["logits"].detach().cpu().double().softmax(dim=-1).max(dim=-1)
        columns = (outputs["indices"].cpu(), outputs["labels"].cpu(), predictions, probabilities)
        self.batches.append(torch.stack([column.double() for column in columns], dim=1))

    def _finish(self, trainer: pl.Trainer, pl_module: pl.LightningModule, split: str) -> None:
        rows = torch.cat(self.batches) if self.batches else torch.empty(0, len(HEADER) - 1, dtype=torch.double)
        self.batches = []
        self.splits[split] = _sorted_without_repeats(gathered(rows, trainer.world_size))
        if trainer.is_global_zero:
            self.run.write_csv("predictions.csv", self._rows(), HEADER)

    def _rows(self) -> list[tuple[Any, ...]]:
        def name(label: float) -> Any:
            return int(label) if self.label_names is None else self.label_names[int(label)]

        return [
            (split, int(index), name(label), name(prediction), f"{probability:.6f}")
            for split, rows in self.splits.items()
            for index, label, prediction, probability in rows.tolist()
        ]

    on_validation_epoch_start = _start
    on_test_epoch_start = _start
    on_validation_batch_end = _collect
    on_test_batch_end = _collect

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._finish(trainer, pl_module, "val")

    def on_test_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._finish(trainer, pl_module, "test")


def gathered(rows: Tensor, world_size: int) -> Tensor:
    """Rows of all ranks; ranks may hold different numbers of rows."""
    if world_size == 1:
        return rows
    import torch.distributed as distributed

    parts: list[Any] = [None] * world_size
    distributed.all_gather_object(parts, rows)
    return torch.cat(parts)


def _sorted_without_repeats(rows: Tensor) -> Tensor:
    rows = rows[rows[:, 0].argsort(stable=True)]
    is_first = torch.ones(len(rows), dtype=torch.bool)
    is_first[1:] = rows[1:, 0] != rows[:-1, 0]
    return rows[is_first]
