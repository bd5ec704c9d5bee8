"""Checkpoints: the epoch that the protocol chooses, the last epoch, and files that are whole or absent."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.fabric.plugins import CheckpointIO
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


class LastCheckpoint(_FixedCheckpoint):
    """``checkpoints/last.ckpt``: the state after the last whole epoch, from which an interrupted run goes on.

    It belongs behind `BestCheckpoint` in the list, so that it carries that one's state of the same epoch.
    """

    def __init__(self, run: RunFolder, protocol: Any) -> None:
        super().__init__(run, "last")
