"""A run that cannot end in time is not trained on."""

from __future__ import annotations

import time
from typing import Annotated, Any

import lightning.pytorch as pl
from lightning.pytorch import Callback

from storage.run_store import RunFolder

WARM_UP = 2  # steps that say nothing of the next ones
LOOKED_AT = 6  # steps after which the end is foretold


class OutOfTime(ValueError):
    """The run would take longer than it may.

    Attributes:
        seconds: what it would take, foretold from its steps so far.
    """

    def __init__(self, seconds: float, allowed: float) -> None:
        super().__init__(f"training would take about {seconds:.0f} s, allowed: {allowed:.0f} s")
        self.seconds = seconds


class TimeLimit(Callback):
    """Raises `OutOfTime` where all epochs would not end within so many seconds, told from the first steps.

    Early stopping may end a run sooner than that: what counts is that it surely ends.

    Args:
        run, protocol: not used; all callbacks are built alike.
        seconds: of training, > 0.
    """

    def __init__(self, run: RunFolder, protocol: Any, seconds: Annotated[float, "> 0"]) -> None:
        self.seconds = seconds
        self.started = self.warm = 0.0
        self.steps = 0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.started, self.steps = time.monotonic(), 0

    def on_step_beforehand(self, done: int, steps: int) -> None:
        """A method has done so many of the steps that it does before the first epoch; the epochs come on top."""
        now = time.monotonic()
        if done == WARM_UP:
            self.warm = now
        if done >= LOOKED_AT:
            expected = now - self.started + (steps - done) * (now - self.warm) / (done - WARM_UP)
            if expected > self.seconds:
                raise OutOfTime(expected, self.seconds)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.steps += 1
        now = time.monotonic()
        if self.steps == WARM_UP:
            self.warm = now
        if self.steps < LOOKED_AT:
            return
        epochs = (trainer.max_epochs or 1) - trainer.current_epoch
        left = epochs * int(trainer.num_training_batches) - batch_idx - 1
        expected = now - self.started + left * (now - self.warm) / (self.steps - WARM_UP)
        if expected > self.seconds:
            raise OutOfTime(expected, self.seconds)
