"""Rows to batches: what those of every kind of data share."""

import numpy as np
import torch
from torch.utils.data import Dataset

Batch = dict[str, torch.Tensor | int]


class FeatureBatches(Dataset):
    """One split as batches of ready features, for an encoder that does not train.

    Args:
        features: ``(V, N, D)``, or ``(1, N, D)`` for the same features in every view.
        labels: ``(N,)`` class indices, -1 where unknown; or ``(N, C)`` of 0 and 1.
        num_views: V.
        inputs: the same rows as an encoder takes them, for a method that reads both.
    """

    def __init__(
        self, features: np.ndarray, labels: np.ndarray, num_views: int, inputs: Dataset | None = None
    ) -> None:
        self.features, self.labels, self.num_views, self.inputs = features, labels, num_views, inputs

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, positions: np.ndarray) -> Batch:
        views = np.asarray(self.features[: self.num_views, positions])
        views = np.broadcast_to(views, (self.num_views, *views.shape[1:]))
        features = torch.from_numpy(np.array(views).reshape(-1, views.shape[-1]))
        inputs = {} if self.inputs is None else self.inputs[positions]
        return inputs | {"features": features} | targets(self.labels, positions, self.num_views)


def targets(labels: np.ndarray, positions: np.ndarray, num_views: int) -> Batch:
    """What every batch holds besides the inputs: ``labels``, ``indices`` and ``num_views``."""
    dtype = np.float32 if labels.ndim == 2 else np.int64  # what the losses of each want
    return {
        "labels": torch.from_numpy(labels[positions].astype(dtype)),
        "indices": torch.from_numpy(np.asarray(positions, dtype=np.int64)),
        "num_views": num_views,
    }
