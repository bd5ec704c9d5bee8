"""Early stopping on the protocol's monitored figure."""

from __future__ import annotations

from typing import Annotated, Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.callbacks.early_stopping import EarlyStoppingReason

from storage.run_store import RunFolder


class PersistentEarlyStopping(EarlyStopping):
    """Stops after ``patience`` epochs without a better figure, or where the protocol takes the latest of equal epochs
    without one as good; a stop once decided survives a resume.

    Lightning restores the counter but not the decision: a run killed between the stop and its end would train on.
    Epochs after which the module is not ``is_selectable`` do not count.
    """

    serves = "classification"  # which methods it is for

    def __init__(
        self,
        run: RunFolder,
        protocol: Any,
        patience: Annotated[int, ">= 1"] = 5,
        min_delta: Annotated[float, ">= 0"] = 0.0,
    ) -> None:
        super().__init__(
            monitor=protocol.monitor,
            mode=protocol.mode,
            patience=patience,
            min_delta=min_delta,
            check_on_train_epoch_end=True,
        )
        self.latest = getattr(protocol, "ties", "earliest") == "latest"

    def _evaluate_stopping_criteria(self, current: torch.Tensor) -> tuple[bool, str | None]:
        if self.latest and current == self.best_score:
            self.wait_count = 0
            return False, None
        return super()._evaluate_stopping_criteria(current)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.stopping_reason is not EarlyStoppingReason.NOT_STOPPED:
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if getattr(pl_module, "is_selectable", True):
            super().on_train_epoch_end(trainer, pl_module)
