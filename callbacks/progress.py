"""Progress: a bar on a terminal, one line per epoch elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import ProgressBar, RichProgressBar

from reporting.tables import duration, percent
from storage.run_store import RunFolder

FRACTIONS = ("accuracy", "macro_f1")


def progress_bar(run: RunFolder, protocol: Any, refresh_rate: Annotated[int, ">= 1"] = 1) -> ProgressBar:
    """Lightning's rich bar where stdout is a terminal, `EpochLines` where it is a file or a pipe."""
    return RichProgressBar(refresh_rate=refresh_rate) if sys.stdout.isatty() else EpochLines()


class EpochLines(ProgressBar):
    """Prints epoch, time, loss and evaluation figures (in %) once per epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.is_enabled = True
        self.started = 0.0

    def disable(self) -> None:
        self.is_enabled = False

    def enable(self) -> None:
        self.is_enabled = True

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.started = time.monotonic()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not (self.is_enabled and trainer.is_global_zero):
            return
        epochs = "" if trainer.max_epochs in (None, -1) else f"/{trainer.max_epochs}"
        parts = [f"epoch {trainer.current_epoch + 1}{epochs}", duration(time.monotonic() - self.started)]
        for name, value in sorted(trainer.callback_metrics.items()):
            figure = name.rpartition("/")[2]
            if figure == "loss":
                parts.append(f"{name} {value.item():.4f}")
            elif figure in FRACTIONS:
                parts.append(f"{name} {percent(value.item())}")
        print("  ".join(parts), flush=True)
