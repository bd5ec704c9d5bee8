"""Clustering methods that teach each text a label found by a look at the whole set."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from clustering.kmeans import kmeans
from lightning_modules.base import Batch, derived_seed
from lightning_modules.methods.clustering.base import ClusteringModule


class PseudoLabelModule(ClusteringModule):
    """Keeps a label a text, (N,), or a soft one, (N, K), in the checkpoint but not among the weights: a resumed run has
    those of its epoch, and a run that is opened for prediction needs none.

    `pseudo_labels` is None until the first are found.
    """

    pseudo_labels: Tensor | None = None

    def kmeans_of(self, vectors: Tensor, unit_length: bool = False) -> tuple[Tensor, Tensor]:
        """Labels (N,) and centres (K, D) by the house's k-means, seeded by the run and the epoch."""
        rng = np.random.default_rng(derived_seed(self.seed, "kmeans", self.current_epoch))
        rows = functional.normalize(vectors, dim=1) if unit_length else vectors
        clustering = kmeans(rows.numpy(), self.num_clusters, rng)
        return torch.from_numpy(clustering.assignments), torch.from_numpy(clustering.centres)

    def labels_of(self, batch: Batch) -> Tensor:
        """The pseudo-labels of a batch's texts (B,), or (B, K)."""
        assert self.pseudo_labels is not None, "start_epoch has found none"
        return self.pseudo_labels[batch["indices"].cpu()].to(self.device)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        checkpoint["pseudo_labels"] = self.pseudo_labels

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_load_checkpoint(checkpoint)
        self.pseudo_labels = checkpoint["pseudo_labels"]
