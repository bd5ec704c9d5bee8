"""A picture of the test embeddings."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch import Callback
from torch import Tensor

from callbacks.predictions import gathered
from reporting.curves import embedding_figure
from storage.run_store import RunFolder

SHOWN_ROWS, SHOWN_CLASSES = 2000, 10


class EmbeddingPicture(Callback):
    """Writes ``embeddings.png`` (and .svg, .pdf) at the end of a test: the first two principal components.

    Works on the dicts that ``test_step`` returns: ``embeddings`` (B, D), ``labels`` (B,) and ``indices`` (B,). Of many
    classes those with the most test rows are drawn, of many rows the first ones. Where ``labels`` are (B, C) of 0 and
    1, the rows with one label are drawn.

    Args:
        run: folder to write into.
        label_names: names (C,).
    """

    def __init__(self, run: RunFolder, label_names: Any) -> None:
        self.run, self.label_names = run, list(label_names)
        self.batches: list[Tensor] = []

    def on_test_epoch_start(self, *_: Any) -> None:
        self.batches = []

    def on_test_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, *_: Any) -> None:
        outputs = {key: outputs[key].detach().cpu().double() for key in ("indices", "labels", "embeddings")}
        labels = outputs["labels"]
        if labels.ndim == 2:
            single = labels.sum(1) == 1
            outputs, labels = {key: rows[single] for key, rows in outputs.items()}, labels[single].argmax(1)
        self.batches.append(torch.column_stack([outputs["indices"], labels, outputs["embeddings"]]))

    def on_test_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        collected = gathered(torch.cat(self.batches), trainer.world_size) if self.batches else torch.empty(0, 2)
        self.batches = []
        if not trainer.is_global_zero or len(collected) < 2:
            return
        rows = collected[collected[:, 0].argsort()].numpy()
        labels = rows[:, 1].astype(int)
        shown = np.argsort(-np.bincount(labels), kind="stable")[:SHOWN_CLASSES].tolist()
        subset = np.flatnonzero(np.isin(labels, shown))[:SHOWN_ROWS]
        names = {label: self.label_names[label] for label in shown}
        panels = {"test embeddings, two principal components": (principal_components(rows[subset, 2:]), labels[subset])}
        embedding_figure(panels, names, self.run.path / "embeddings")


def principal_components(embeddings: np.ndarray) -> np.ndarray:
    """Coordinates (N, 2) of embeddings (N, D), D at least 2; each axis points where its largest loading is positive."""
    centred = embeddings - embeddings.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:2]
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])
    points = centred @ (axes * signs[:, None]).T
    return points if points.shape[1] == 2 else np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
