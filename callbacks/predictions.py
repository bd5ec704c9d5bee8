"""``predictions.csv``: what was predicted for each row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch import Callback
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from storage.run_store import RunFolder

HEADER = ("split", "index", "label", "prediction", "probability")


class Predictions(Callback):
    """Collects evaluation outputs over batches and ranks, and writes them sorted by split and row.

    Works on the dicts that ``validation_step`` and ``test_step`` return: ``logits`` (B, C), ``labels`` (B,) and
    ``indices`` (B,), the row within the split; ``predictions`` (B,) where the highest logit does not decide, -1 for no
    class, which is an empty cell in the file. A row that several ranks saw counts once.

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
        keys = ("indices", "labels", "logits", "predictions")
        outputs = {key: outputs[key].detach().cpu().double() for key in keys if key in outputs}
        self.batches.append(torch.column_stack([outputs["indices"], *self._columns(outputs)]))

    def _columns(self, outputs: dict[str, Tensor]) -> Iterable[Tensor]:
        """What is kept of a batch besides its indices, each (B,) or (B, columns)."""
        probabilities, predictions = outputs["logits"].softmax(dim=-1).max(dim=-1)
        if "predictions" in outputs:
            predictions = outputs["predictions"]
            probabilities = outputs["logits"].softmax(dim=-1).gather(1, predictions.long().clamp_min(0)[:, None])[:, 0]
            probabilities = probabilities.masked_fill(predictions < 0, 0.0)
        return outputs["labels"], predictions, probabilities

    def _finish(self, trainer: pl.Trainer, pl_module: pl.LightningModule, split: str) -> None:
        rows = torch.cat(self.batches) if self.batches else torch.empty(0, len(HEADER) - 1, dtype=torch.double)
        self.batches = []
        self.splits[split] = _sorted_without_repeats(gathered(rows, trainer.world_size))
        if trainer.is_global_zero:
            self.write()

    def write(self) -> None:
        """Write the file with the splits so far."""
        self.run.write_csv("predictions.csv", self._rows(), HEADER)

    def _rows(self) -> Iterable[tuple[Any, ...]]:
        def name(label: float) -> Any:
            if label < 0:
                return ""
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


class LabelSetPredictions(Predictions):
    """The same where texts have several labels: ``labels`` (B, C) of 0 and 1.

    In the file the labels, the predicted labels and their probabilities are JSON lists, in the order of the classes.

    Attributes:
        threshold: above which probability a label is predicted, one or one a label (C,); `write` again after a change.
    """

    threshold: ArrayLike = 0.5

    def of(self, split: str) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:  # type: ignore[override]
        """Labels and probabilities of a split, each (N, C), in row order. Raises KeyError before its evaluation."""
        labels, probabilities = self.splits[split][:, 1:].numpy().reshape(len(self.splits[split]), 2, -1).swapaxes(0, 1)
        return labels > 0, probabilities

    def _columns(self, outputs: dict[str, Tensor]) -> Iterable[Tensor]:
        return outputs["labels"], outputs["logits"].sigmoid()

    def _rows(self) -> Iterable[tuple[Any, ...]]:
        names = self.label_names
        for split, rows in self.splits.items():
            for index, labels, scores in zip(rows[:, 0].tolist(), *self.of(split), strict=True):
                true = [c if names is None else names[c] for c in np.flatnonzero(labels).tolist()]
                yield split, int(index), *map(dumped, (true, *labels_above(self.threshold, scores, names)))


def labels_above(
    threshold: ArrayLike, scores: NDArray[np.floating], label_names: Sequence[str] | None
) -> tuple[list[Any], list[float]]:
    """Names (numbers without any) and scores of the labels whose score is above the threshold, of a row (C,)."""
    above = np.flatnonzero(scores > np.asarray(threshold)).tolist()
    return [c if label_names is None else label_names[c] for c in above], scores[above].round(6).tolist()


def dumped(values: list[Any]) -> str:
    """A list in one field of a CSV file."""
    return json.dumps(values, ensure_ascii=False)


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
