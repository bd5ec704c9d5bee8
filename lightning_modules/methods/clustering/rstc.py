"""RSTC: pseudo-labels by self-adaptive optimal transport (Zheng et al., ACL 2023)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from lightning_modules.base import Batch
from lightning_modules.heads.projection import ClusterHead, ProjectionHead
from lightning_modules.methods.clustering.pseudo_labels import PseudoLabelModule
from losses import RSTCLoss, self_adaptive_transport
from losses.transport import Sizes


class RSTCModule(PseudoLabelModule):
    """`method=rstc`: contrast of two views, and cross-entropy of both with pseudo-labels: see `losses.RSTCLoss`.

    Labels come from k-means on the embeddings for the first epochs, then from the transport of all texts' assignments
    (`losses.self_adaptive_transport`), at epochs that lie the wider apart the later (published: at steps).

    Args:
        kmeans_epochs: epochs under the labels of k-means, at least 1.
        unit_length: whether k-means sees the embeddings at unit length.
        refreshes: how often transport gives new labels at most, spaced quadratically over the other epochs; those that
            fall into one epoch are one.
        entropy_weight: e1 of the transport (published: 0.1).
        size_weight: e2 of the transport (published: 0.1 for imbalanced sets, else 1).
        sizes: of the clusters: `adaptive`, or `uniform`.
        projection_size: of the contrast.
        head_dropout: before the hidden layers of the clustering network.

    The remaining arguments are those of `ClusteringModule`; `num_views` is 2.

    Raises:
        ValueError: a run that ends before the first transport.
    """

    losses = (RSTCLoss,)

    def __init__(
        self,
        *args,
        kmeans_epochs: Annotated[int, ">= 1"] = 10,
        unit_length: bool = True,
        refreshes: Annotated[int, ">= 1"] = 50,
        entropy_weight: Annotated[float, "> 0"] = 0.1,
        size_weight: Annotated[float, "> 0", "with sizes=adaptive"] = 0.1,
        sizes: Sizes = "adaptive",
        projection_size: Annotated[int, ">= 1"] = 128,
        head_dropout: Annotated[float, ">= 0", "< 1"] = 0.5,
        num_views: Literal[2] = 2,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs | {"num_views": num_views})
        hidden = self.encoder.hidden_size
        self.projector = ProjectionHead(hidden, projection_size)
        self.head = ClusterHead(hidden, hidden, self.num_clusters, head_dropout)
        self.kmeans_epochs, self.unit_length, self.refreshes = kmeans_epochs, unit_length, refreshes
        self.transport: dict[str, Any] = {"entropy_weight": entropy_weight, "size_weight": size_weight, "sizes": sizes}

    def setup(self, stage: str) -> None:
        super().setup(stage)
        self.refuse_to_end_by(self.kmeans_epochs, "method.kmeans_epochs", stage)

    def refresh_epochs(self) -> set[int]:
        """Epochs that begin with new labels from transport."""
        remaining = self.max_epochs - self.kmeans_epochs
        return {self.kmeans_epochs + int(remaining * (k / self.refreshes) ** 2) for k in range(self.refreshes)}

    def start_epoch(self) -> None:
        if self.current_epoch == 0:
            self.pseudo_labels, _ = self.kmeans_of(self.all_outputs(), self.unit_length)
        elif self.current_epoch in self.refresh_epochs():
            logits = self.all_outputs(lambda batch: self(batch)["logits"])
            plan = self_adaptive_transport(logits.log_softmax(1), **self.transport).plan
            self.pseudo_labels = plan.argmax(1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        embeddings = self.embed(batch)
        return {"embeddings": embeddings, "logits": self.head(embeddings).float()}

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        embeddings = self.embed(batch)
        first, second = self.projector(embeddings).chunk(2)
        logits = torch.stack([self.head(rows) for rows in embeddings.chunk(2)])
        return self.loss(first, second, logits, self.labels_of(batch))
