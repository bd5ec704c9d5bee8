"""``history.csv``: one line per epoch with all that was logged in it."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
from lightning.pytorch import Callback

from storage.run_store import RunFolder


class History(Callback):
    """Rewrites the file atomically at each epoch's end.

    It holds no times, so that a resumed run's file equals that of an uninterrupted one. Epochs that a resumed run
    repeats replace their earlier lines.
    """

    def __init__(self, run: RunFolder, protocol: Any) -> None:
        self.run = run
        self.rows: list[dict[str, str]] = []

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        rows = self.run.read_csv("history.csv") if (self.run.path / "history.csv").exists() else []
        self.rows = [row for row in rows if int(row["epoch"]) < trainer.current_epoch]

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trainer.callback_metrics.clear()  # a figure that this epoch does not measure is not the last one's again

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        logged = {name: repr(value.item()) for name, value in sorted(trainer.callback_metrics.items())}
        self.rows.append({"epoch": str(trainer.current_epoch), "step": str(trainer.global_step), **logged})
        header = list(dict.fromkeys(key for row in self.rows for key in row))
        self.run.write_csv("history.csv", ([row.get(key, "") for key in header] for row in self.rows), header)
