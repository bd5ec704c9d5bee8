"""TensorBoard: event files in a folder of the run, to be read by `tensorboard --logdir runs`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only

from callbacks.open_logs import opened
from storage.run_store import RunFolder


class RunTensorBoardLogger(TensorBoardLogger):
    """Lightning's logger, which takes the outcome beside the config (TensorBoard's page of hyperparameters)."""

    def __init__(self, run: RunFolder, config: Mapping[str, Any]) -> None:
        super().__init__(run.path, name="tensorboard", version="", default_hp_metric=False)
        self.config = dict(config)

    @rank_zero_only
    def log_outcome(self, run: RunFolder, figures: Mapping[str, float]) -> None:
        """Figures of test, and the picture of the test embeddings; those of validation stand in the curves."""
        outcome = {name: value for name, value in figures.items() if not name.startswith("val/")}
        self.log_hyperparams(self.config, outcome)
        if (picture := run.path / "embeddings.png").exists():
            from matplotlib.image import imread

            self.experiment.add_image("embeddings", imread(picture), dataformats="HWC")

    @rank_zero_only
    def close(self) -> None:
        self.experiment.close()


def tensorboard_logger(
    run: RunFolder, config: Mapping[str, Any], embedding_picture: bool = True
) -> RunTensorBoardLogger:
    """Logger of a run into `runs/ID/tensorboard`. A resumed run adds a file there.

    Args:
        run: whose folder holds the files.
        config: resolved config, shown beside the outcome.
        embedding_picture: whether the run draws its test embeddings; read by `tasks.fit`.
    """
    return opened(RunTensorBoardLogger(run, config))
