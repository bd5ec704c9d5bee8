"""How often a contrastive loss pushes positives apart, by class."""

from __future__ import annotations

from typing import Annotated, Any

import lightning.pytorch as pl
import torch
from lightning.pytorch import Callback
from torch import Tensor

from storage.run_store import RunFolder

HEADER = ("epoch", "class", "pairs", "conflicts", "ratio")


class GradientConflict(Callback):
    """Writes ``gradient_conflict.csv``: per epoch and class, ordered positive pairs and those that repel.

    Works for every method whose ``training_step`` returns ``pair_gradients``: a function without arguments that gives
    the gradient (M, M) of the contrastive loss with respect to the similarity of row i to column k, and the labels
    (M,). Where it is above 0 between two of a class, positives are pushed apart. Source: ACL, eq. 7 and Fig. 4a.

    Args:
        run: folder to write into.
        protocol: not used; all callbacks are built alike.
        interval: steps between two that are counted.

    Raises:
        ValueError: a training step without ``pair_gradients``.
    """

    def __init__(self, run: RunFolder, protocol: Any, interval: Annotated[int, ">= 1"] = 1) -> None:
        self.run, self.interval = run, interval
        self.rows: list[dict[str, Any]] = []
        self.counts = torch.zeros(2, 0, dtype=torch.long)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        written = self.run.read_csv("gradient_conflict.csv") if self._file_exists() else []
        self.rows = [row for row in written if int(row["epoch"]) < trainer.current_epoch]

    def _file_exists(self) -> bool:
        return (self.run.path / "gradient_conflict.csv").exists()

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.counts = torch.zeros(2, 0, dtype=torch.long)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if "pair_gradients" not in outputs:
            raise ValueError(
                "callbacks.gradient_conflict: found a method whose training_step gives no pair_gradients; "
                "allowed: methods that contrast the rows of a batch with each other, with a weight above 0"
            )
        if batch_idx % self.interval == 0:
            counts = pair_counts(*outputs["pair_gradients"]()).cpu()
            size = max(counts.shape[1], self.counts.shape[1])
            self.counts = _padded(self.counts, size) + _padded(counts, size)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        for label, (pairs, conflicts) in enumerate(self.counts.T.tolist()):
            ratio = conflicts / pairs if pairs else 0.0
            values = (trainer.current_epoch, label, pairs, conflicts, f"{ratio:.6f}")
            self.rows.append(dict(zip(HEADER, values, strict=True)))
        self.run.write_csv("gradient_conflict.csv", ([row[key] for key in HEADER] for row in self.rows), HEADER)


def pair_counts(gradients: Tensor, labels: Tensor) -> Tensor:
    """(2, largest label + 1): ordered positive pairs of each class, and those whose gradient (M, M) is above 0."""
    positive = (labels[:, None] == labels).fill_diagonal_(False)
    pairs, conflicts = positive.sum(1), (positive & (gradients > 0)).sum(1)
    counts = torch.zeros(2, int(labels.max()) + 1 if len(labels) else 0, dtype=torch.long, device=labels.device)
    return counts.index_add(1, labels, torch.stack([pairs, conflicts]))


def _padded(counts: Tensor, size: int) -> Tensor:
    return torch.nn.functional.pad(counts, (0, size - counts.shape[1]))
