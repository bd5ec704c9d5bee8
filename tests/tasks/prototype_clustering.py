"""A small method that learns clusters, for the tests of the task: it uses all that the protocol offers."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from clustering.kmeans import kmeans
from lightning_modules.base import derived_seed
from lightning_modules.methods.clustering.base import ClusteringModule


class PrototypeClustering(ClusteringModule):
    """Prototypes begin at the centres of k-means; its clusters are then the targets of all views.

    Texts are drawn to their batch mean a little, so that the order of evaluation counts.
    """

    losses = ()
    depends_on_companions = True
    stop_at: int | None = None  # the epoch before which a test interrupts

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.prototypes = nn.Parameter(torch.zeros(self.num_clusters, self.encoder.hidden_size))

    def setup(self, stage: str) -> None:
        if stage == "fit":
            rows = len(self.trainer.datamodule.indices["train"])
            self.register_buffer("targets", torch.zeros(rows, dtype=torch.int64))

    def start_epoch(self) -> None:
        if self.current_epoch == self.stop_at:
            type(self).stop_at = None
            raise KeyboardInterrupt
        if self.current_epoch == 0:
            rng = np.random.default_rng(derived_seed(self.seed, "k-means"))
            actual = kmeans(self.all_outputs().numpy(), self.num_clusters, rng)
            self.prototypes.data.copy_(torch.from_numpy(actual.centres))
            self.targets.copy_(torch.from_numpy(actual.assignments))

    def forward(self, batch):
        embeddings = self.embed(batch)
        embeddings = 0.9 * embeddings + 0.1 * embeddings.mean(dim=0)
        similarity = (embeddings @ embeddings.T).softmax(dim=1)
        return {
            "embeddings": embeddings,
            "logits": -torch.cdist(embeddings, self.prototypes).square(),
            "similarity": similarity,
        }

    def training_losses(self, batch):
        assert (batch["labels"] == -1).all()
        targets = self.targets[batch["indices"]].repeat(batch["num_views"])
        return {"loss": nn.functional.cross_entropy(self(batch)["logits"], targets)}
