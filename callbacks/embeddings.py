"""Embeddings of evaluated rows in two dimensions: a table for the page of runs, and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from scipy.linalg import eigh

from callbacks.evaluation_rows import Columns, EvaluationRows
from reporting.curves import embedding_figure
from storage.run_store import RunFolder

SHOWN_ROWS, SHOWN_CLASSES = 2000, 10


class EmbeddingMap(EvaluationRows):
    """Writes ``embedding_map.csv``: split, index, and the first two principal components of rows drawn over a split.

    Works on the dicts that evaluation steps return: ``embeddings`` (B, D) and ``indices`` (B,).

    Args:
        run: folder to write into.
        num_rows: of each split.
        seed: draws the rows where a split has more than 2,000.
    """

    keys = ("embeddings",)

    def __init__(self, run: RunFolder, num_rows: Mapping[str, int], seed: int) -> None:
        super().__init__()
        self.run, self.num_rows, self.seed = run, num_rows, seed
        self.is_drawn = np.ones(0, dtype=bool)  # of each row of the split that is evaluated

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        super().on_validation_epoch_start(trainer, pl_module)
        self._draw("val")

    def on_test_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        super().on_test_epoch_start(trainer, pl_module)
        self._draw("test")

    def _draw(self, split: str) -> None:
        number = self.num_rows[split]
        order = np.random.default_rng([self.seed, number]).permutation(number)
        self.is_drawn = np.zeros(number, dtype=bool)
        self.is_drawn[order[:SHOWN_ROWS]] = True

    def batch_columns(self, outputs: Columns) -> Columns:
        drawn = torch.from_numpy(self.is_drawn)[outputs["indices"]]
        return {key: column[drawn] for key, column in outputs.items()}

    def split_collected(self, trainer: pl.Trainer, split: str) -> None:
        columns = self.splits.get(split, {})
        if not trainer.is_global_zero or len(columns.get("embeddings", ())) < 2:
            return
        points = principal_components(columns["embeddings"].astype(float))
        rows = zip(columns["indices"].tolist(), points.tolist(), strict=True)
        lines = [(split, index, f"{x:.4g}", f"{y:.4g}") for index, (x, y) in rows]
        self.run.write_csv("embedding_map.csv", lines, ("split", "index", "x", "y"))


class EmbeddingPicture(EvaluationRows):
    """Writes ``embeddings.png`` (and .svg, .pdf) at the end of a test: the first two principal components.

    Works on the dicts that ``test_step`` returns: ``embeddings`` (B, D), ``labels`` (B,) and ``indices`` (B,). Of many
    classes those with the most test rows are drawn, of many rows the first ones. Where ``labels`` are (B, C) of 0 and
    1, the rows with one label are drawn.

    Args:
        run: folder to write into.
        label_names: names (C,).
    """

    keys = ("labels", "embeddings")

    def __init__(self, run: RunFolder, label_names: Any) -> None:
        super().__init__()
        self.run, self.label_names = run, list(label_names)

    def batch_columns(self, outputs: Columns) -> Columns:
        labels = outputs["labels"]
        if labels.ndim == 1:
            return outputs
        single = labels.sum(1) == 1
        return {key: column[single] for key, column in outputs.items()} | {"labels": labels[single].argmax(1)}

    def split_collected(self, trainer: pl.Trainer, split: str) -> None:
        if split != "test" or not trainer.is_global_zero or len(self.splits[split]["labels"]) < 2:
            return
        embeddings, labels = self.splits[split]["embeddings"], self.splits[split]["labels"]
        shown = np.argsort(-np.bincount(labels), kind="stable")[:SHOWN_CLASSES].tolist()
        subset = np.flatnonzero(np.isin(labels, shown))[:SHOWN_ROWS]
        names = {label: self.label_names[label] for label in shown}
        coordinates = principal_components(embeddings[subset].astype(float))
        panels = {"test embeddings, two principal components": (coordinates, labels[subset])}
        embedding_figure(panels, names, self.run.path / "embeddings")


def principal_components(embeddings: np.ndarray) -> np.ndarray:
    """Coordinates (N, 2) of embeddings (N, D), D at least 2; each axis points where its largest loading is positive."""
    centred = embeddings - embeddings.mean(axis=0)
    last = embeddings.shape[1] - 1
    axes = eigh(centred.T @ centred, subset_by_index=(max(last - 1, 0), last))[1].T[::-1]  # the largest first
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])
    points = centred @ (axes * signs[:, None]).T
    return points if points.shape[1] == 2 else np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
