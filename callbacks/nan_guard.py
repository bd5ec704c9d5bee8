"""Stop at a loss that is no number any more, and say where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import lightning.pytorch as pl
import torch
from lightning.pytorch import Callback
from torch import Tensor

from storage.run_store import RunFolder


@dataclass(frozen=True)
class _Step:
    epoch: int
    number: int
    loss: Tensor
    indices: Tensor | None


class NanGuard(Callback):
    """Raises ValueError with step, epoch and batch when the loss is NaN or infinite.

    Looking at a loss makes an accelerator wait, so there the last ``interval`` losses are looked at together; on the
    CPU every loss is.
    """

    def __init__(self, run: RunFolder, protocol: Any, interval: Annotated[int, ">= 1"] = 20) -> None:
        self.interval = interval
        self.steps: list[_Step] = []

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        indices = batch.get("indices") if isinstance(batch, Mapping) else None
        loss = outputs["loss"].detach()
        self.steps.append(_Step(trainer.current_epoch, trainer.global_step, loss, indices))
        if loss.device.type == "cpu" or len(self.steps) >= self.interval:
            self._look()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._look()

    def _look(self) -> None:
        steps, self.steps = self.steps, []
        if not steps:
            return
        finite = torch.isfinite(torch.stack([step.loss for step in steps])).tolist()
        for step, is_finite in zip(steps, finite, strict=True):
            if not is_finite:
                raise ValueError(_message(step))


def _message(step: _Step) -> str:
    rows = "unknown" if step.indices is None else ", ".join(map(str, step.indices.tolist()[:8]))
    more = " …" if step.indices is not None and len(step.indices) > 8 else ""
    position = f"step {step.number} (epoch {step.epoch}, train rows {rows}{more})"
    return (
        f"loss: found {step.loss.item()} at {position}, allowed a finite number; "
        "try a lower optimizer.lr, a higher loss.tau, or trainer.precision=32"
    )
