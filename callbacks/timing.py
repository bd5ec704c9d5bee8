"""How long the phases took, how fast training went, and how much memory it needed."""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch import Callback

from storage.run_store import RunFolder


class Timing(Callback):
    """Writes into ``metrics.json`` at the end of training, over all starts of the run.

    ``seconds/train`` and ``seconds/validate`` (s), ``samples_per_second`` (texts through training steps, views not
    counted, validation left out), ``peak_memory_mib`` of the process and, with CUDA, ``peak_gpu_memory_mib``.
    """

    def __init__(self, run: RunFolder, protocol: Any) -> None:
        self.run = run
        self.totals = {"train": 0.0, "validate": 0.0, "samples": 0}
        self.since = 0.0

    def state_dict(self) -> dict[str, float]:
        return dict(self.totals)

    def load_state_dict(self, state_dict: dict[str, float]) -> None:
        self.totals = dict(state_dict)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._count("nothing")

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.totals["samples"] += len(batch["indices"]) * trainer.world_size
        self._count("train")

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._count("nothing")

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._count("validate")

    def _count(self, phase: str) -> None:
        """Add the time since the last call to a phase; what lies between phases goes to none."""
        now = time.perf_counter()
        if phase in self.totals:
            self.totals[phase] += now - self.since
        self.since = now

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.is_global_zero:
            self.run.write_metrics(self.figures())

    def figures(self) -> dict[str, float]:
        """The figures so far, by their keys in ``metrics.json``."""
        train, samples = self.totals["train"], self.totals["samples"]
        figures = {
            "seconds/train": train,
            "seconds/validate": self.totals["validate"],
            "peak_memory_mib": peak_memory_mib(),
        }
        if train > 0:
            figures["samples_per_second"] = samples / train
        if torch.cuda.is_available():
            figures["peak_gpu_memory_mib"] = torch.cuda.max_memory_allocated() / 2**20
        return figures


def peak_memory_mib() -> float:
    """Largest resident size of this process so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
