"""SCCL: contrast of two views beside clustering by Student's t (Zhang et al., NAACL 2021)."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from lightning_modules.base import Batch
from lightning_modules.heads.projection import ProjectionHead
from lightning_modules.methods.clustering.pseudo_labels import PseudoLabelModule
from losses import SCCLLoss, student_t_log_assignments


class SCCLModule(PseudoLabelModule):
    """`method=sccl`: see `losses.SCCLLoss`. Centres start from k-means on the embeddings and are trained at the heads'
    rate; a text's cluster is the arg max of its Student-t assignment.

    The contrast is of a text and its augmentation (published: two augmentations of it, and the text itself in the
    clustering term only).

    Args:
        projection_size: of the contrast.

    The remaining arguments are those of `ClusteringModule`; `num_views` is 2.
    """

    losses = (SCCLLoss,)

    def __init__(
        self,
        *args,
        projection_size: Annotated[int, ">= 1"] = 128,
        num_views: Literal[2] = 2,
        head_lr: Annotated[float, "> 0"] = 1e-3,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs | {"num_views": num_views, "head_lr": head_lr})
        hidden = self.encoder.hidden_size
        self.projector = ProjectionHead(hidden, projection_size)
        self.centres = nn.Parameter(torch.zeros(self.num_clusters, hidden))

    def start_epoch(self) -> None:
        if self.current_epoch == 0:
            _, centres = self.kmeans_of(self.all_outputs())
            with torch.no_grad():
                self.centres.copy_(centres)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        embeddings = self.embed(batch)
        logits = student_t_log_assignments(embeddings, self.centres, self.loss.clustering.alpha)
        return {"embeddings": embeddings, "logits": logits.float()}

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        embeddings = self.embed(batch)
        first, second = self.projector(embeddings).chunk(2)
        return self.loss(first, second, embeddings.chunk(2)[0], self.centres)
