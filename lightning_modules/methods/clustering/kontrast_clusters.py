"""Clusters that the encoder learns: first those that halves of the texts agree on, half-way those it has by then."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from clustering.agreement import most_agreed
from lightning_modules.base import Batch, derived_seed
from lightning_modules.heads.discriminant import Discriminant, discriminant_em
from lightning_modules.methods.clustering.pseudo_labels import PseudoLabelModule
from losses import PseudoLabelLoss


class KontrastClustersModule(PseudoLabelModule):
    """What `method=kontrast` does with names, done without any: `method=kontrast_clusters`.

    1. The texts are grouped as in `sbert_agreement`, over the encoder as it comes; from there EM fits a linear
       discriminant (`lightning_modules.heads.discriminant`), which gives each text its first cluster.
    2. Encoder and a linear head learn these by a bounded loss (`losses.PseudoLabelLoss`), all of them guesses.
    3. Half-way and at the end the discriminant is fitted anew to the trained embeddings, from the head's own clusters;
       its scores, brought to the spread of the head's, are added to them. Half-way the sum gives new clusters to learn,
       at the end the clusters.

    Args:
        shrinkage: of the discriminant's covariance towards a multiple of the identity, 0 < s <= 1.
        max_steps: of EM, >= 1.
        dropout: on the embeddings, before the linear head.
        num_views: 1, the text itself.

    The remaining arguments are those of `ClusteringModule`.
    """

    losses = (PseudoLabelLoss,)
    encoder_training = ("full", "top_layers")
    unused_groups = (*PseudoLabelModule.unused_groups, "augment")

    def __init__(
        self,
        *args,
        shrinkage: Annotated[float, "> 0", "<= 1"] = 0.5,
        max_steps: Annotated[int, ">= 1"] = 10,
        dropout: Annotated[float, ">= 0", "< 1"] = 0.1,
        num_views: Literal[1] = 1,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs | {"num_views": num_views})
        self.classifier = nn.Linear(self.encoder.hidden_size, self.num_clusters)
        self.dropout = nn.Dropout(dropout)
        self.shrinkage, self.max_steps = shrinkage, max_steps

    def start_epoch(self) -> None:
        if self.current_epoch == 0:
            self.pseudo_labels = self._first_clusters(functional.normalize(self.all_outputs(), dim=1))
        elif self.current_epoch == -(-self.max_epochs // 2):
            embeddings = self.all_outputs()
            head = self._head()
            joined = head.scores(embeddings) + self._refitted(embeddings, head).scores(embeddings)
            self.pseudo_labels = joined.argmax(1)

    def _first_clusters(self, rows: Tensor) -> Tensor:
        rng = np.random.default_rng(derived_seed(self.seed, "agreement"))
        centres = torch.from_numpy(most_agreed(rows.numpy(), self.num_clusters, rng).centres)
        nearest = Discriminant(centres, -centres.square().sum(1) / 2)
        return self._fitted(rows, nearest).scores(rows).argmax(1)

    def _fitted(self, rows: Tensor, start: Discriminant) -> Discriminant:
        unknown = torch.full((len(rows),), -1)
        return discriminant_em(rows, unknown, start, self.shrinkage, max_steps=self.max_steps)

    def _head(self) -> Discriminant:
        return Discriminant(self.classifier.weight.detach().cpu(), self.classifier.bias.detach().cpu())

    def _refitted(self, embeddings: Tensor, head: Discriminant) -> Discriminant:
        """The discriminant of the embeddings (N, D) from the head's clusters, its scores as far apart as the head's."""
        fitted = self._fitted(embeddings, head)
        scale = head.scores(embeddings).std() / fitted.scores(embeddings).std()
        return Discriminant(scale * fitted.weight, scale * fitted.bias)

    @torch.no_grad()
    def on_train_epoch_end(self) -> None:
        """After the last epoch, before its checkpoint, add the discriminant to the head: both are linear."""
        if self.current_epoch == self.max_epochs - 1:
            fitted = self._refitted(self.all_outputs(), self._head())
            self.classifier.weight.add_(fitted.weight.to(self.device))
            self.classifier.bias.add_(fitted.bias.to(self.device))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        embeddings = self.embed(batch)
        return {"embeddings": embeddings, "logits": self.classifier(self.dropout(embeddings)).float()}

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        labels = self.labels_of(batch)
        return {"loss": self.loss(self(batch)["logits"], labels, torch.zeros_like(labels, dtype=torch.bool))}
