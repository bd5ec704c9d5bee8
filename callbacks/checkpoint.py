"""Checkpoints: the epoch that the protocol chooses, the last epoch, and files that are whole or absent."""

from __future__ import annotations

import pickle
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import lightning.pytorch as pl
import torch
from lightning.fabric.plugins import CheckpointIO
from lightning.fabric.utilities.apply_func import apply_to_collection
from lightning.pytorch.callbacks import ModelCheckpoint

from storage.files import replacing
from storage.run_store import RunFolder, first_line


class AtomicCheckpointIO(CheckpointIO):
    """Checkpoint files by temporary name, fsync and rename; read as tensors and plain values alone."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None) -> None:
        """Write ``checkpoint``. Raises ReportError where the folder cannot be written to, a full disk included."""
        with replacing(path) as file:
            try:
                torch.save(checkpoint, file)
            except RuntimeError as error:
                # torch hides what stopped it behind its own error: a full disk, or Ctrl-C
                raise _cause(error) from error

    def load_checkpoint(
        self, path: str | Path, map_location: Callable | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Read a checkpoint, always with ``weights_only=True``: nothing in it is executed.

        Raises:
            ValueError: missing, truncated, or holding more than tensors and plain values.
        """
        try:
            return torch.load(path, map_location=map_location or "cpu", weights_only=True)
        except FileNotFoundError as error:
            raise ValueError(f"checkpoint {path}: no such file") from error
        except (RuntimeError, EOFError, OSError, pickle.UnpicklingError) as error:
            reason = first_line(error)[:120]
            raise ValueError(f"checkpoint {path}: cannot be read ({reason}); force=true starts the run anew") from error

    def remove_checkpoint(self, path: str | Path) -> None:
        Path(path).unlink(missing_ok=True)


class WaitingCheckpointIO(AtomicCheckpointIO):
    """As `AtomicCheckpointIO`, but while a model trains its weights without an optimizer's state wait in memory for the
    next whole state, or for the end of training, an error included.

    A file costs as much as many steps where an epoch has few of them, and without the state that goes with it nothing
    is resumed from it.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, dict[str, Any]] = {}
        self.is_over = False

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None) -> None:
        """Write a whole state after what waits, or keep a copy of ``checkpoint``, which holds weights."""
        if self.is_over or "optimizer_states" in checkpoint:
            self.write_waiting()
            super().save_checkpoint(checkpoint, path, storage_options)
        else:
            copied = apply_to_collection(checkpoint, torch.Tensor, lambda tensor: tensor.detach().to("cpu", copy=True))
            self.waiting[str(path)] = copied

    def remove_checkpoint(self, path: str | Path) -> None:
        self.waiting.pop(str(path), None)
        super().remove_checkpoint(path)

    def teardown(self) -> None:
        self.write_waiting()
        self.is_over = True

    def write_waiting(self) -> None:
        """Write what waits, in the order in which it came."""
        for path in list(self.waiting):
            super().save_checkpoint(self.waiting[path], path)
            del self.waiting[path]


def _cause(error: BaseException) -> BaseException:
    inner = error.__cause__ or error.__context__
    while inner is not None and not isinstance(inner, (OSError, KeyboardInterrupt)):
        inner = inner.__cause__ or inner.__context__
    return inner or error


class _FixedCheckpoint(ModelCheckpoint):
    """A checkpoint under one fixed name, found again where the run store was moved between two starts."""

    def __init__(self, run: RunFolder, name: str, **options: Any) -> None:
        super().__init__(
            dirpath=run.checkpoints,
            filename=name,
            save_top_k=1,
            enable_version_counter=False,
            save_on_train_epoch_end=True,
            **options,
        )

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        with warnings.catch_warnings():
            # what Lightning warns of is how a resumed run finds its folder
            warnings.filterwarnings("ignore", message="Checkpoint directory .* is not empty")
            super().setup(trainer, pl_module, stage)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        def local(path: str) -> str:
            return str(Path(self.dirpath or ".") / Path(path).name) if path else path

        moved = {key: local(state_dict[key]) for key in ("best_model_path", "kth_best_model_path", "last_model_path")}
        scores = {local(path): score for path, score in state_dict["best_k_models"].items()}
        super().load_state_dict({**state_dict, **moved, "best_k_models": scores, "dirpath": self.dirpath})


class BestCheckpoint(_FixedCheckpoint):
    """``checkpoints/best.ckpt``: the epoch at which the protocol's monitored figure was best, on a tie as it says.

    Epochs after which the module is not ``is_selectable`` are passed over.
    """

    serves = "classification"  # which methods it is for

    def __init__(self, run: RunFolder, protocol: Any) -> None:
        super().__init__(run, "best", monitor=protocol.monitor, mode=protocol.mode, save_weights_only=True)
        self.latest = getattr(protocol, "ties", "earliest") == "latest"

    def check_monitor_top_k(self, trainer: pl.Trainer, current: torch.Tensor | None = None) -> bool:
        """Whether `current` takes the place of the best figure so far."""
        if self.latest and current is not None and self.best_k_models:
            equal = bool(current == self.best_k_models[self.kth_best_model_path])
            if trainer.strategy.reduce_boolean_decision(equal):
                return True
        return super().check_monitor_top_k(trainer, current)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if getattr(pl_module, "is_selectable", True):
            super().on_train_epoch_end(trainer, pl_module)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        super().on_train_end(trainer, pl_module)
        if isinstance(files := trainer.strategy.checkpoint_io, WaitingCheckpointIO):
            files.write_waiting()
        trainer.strategy.barrier("best.ckpt")  # all processes read it next


class LastCheckpoint(_FixedCheckpoint):
    """``checkpoints/last.ckpt``: the state after a whole epoch, from which an interrupted run goes on.

    It belongs behind `BestCheckpoint` in the list, so that it carries that one's state of the same epoch.

    Args:
        every_seconds: Training between two writes, at the least; 0 writes after each epoch. The last epoch is written
            in any case.
    """

    def __init__(self, run: RunFolder, protocol: Any, every_seconds: Annotated[float, ">= 0"] = 10.0) -> None:
        super().__init__(run, "last")
        self.every_seconds = every_seconds

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        super().on_train_start(trainer, pl_module)
        self.written = time.monotonic()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        is_due = _is_last_epoch(trainer) or time.monotonic() - self.written >= self.every_seconds
        if trainer.strategy.reduce_boolean_decision(is_due, all=False):
            super().on_train_epoch_end(trainer, pl_module)
            self.written = time.monotonic()


def _is_last_epoch(trainer: pl.Trainer) -> bool:
    return (
        trainer.should_stop
        or trainer.current_epoch + 1 == trainer.max_epochs
        or trainer.global_step == trainer.max_steps
    )
