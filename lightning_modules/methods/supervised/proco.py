"""Probabilistic contrastive learning (Du et al., TPAMI 2024)."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor

from lightning_modules.base import Batch, ClassifierModule
from lightning_modules.heads.projection import ProjectionHead
from losses import LogitCompensatedCrossEntropy, ProCoLoss, gather


class ProCoModule(ClassifierModule):
    """L = L_LC + mu L_ProCo: logit-compensated cross-entropy beside von Mises-Fisher classes: `method=proco`.

    The distributions come from running means of the embeddings of an epoch and of the one before it: at the start of
    each but the first the sums of the epoch before become those in use, and new ones begin at 0. A class not yet met
    has the uniform distribution. Both views enter both terms; prediction is the arg max of the classifier.

    Args:
        mu: weight of the contrastive term (published: 1).
        projection_size: output of the projection (published: 128).
        adjustment_strength: factor of the log prior in cross-entropy.
        num_views: 2.

    The remaining arguments are those of `ClassifierModule`.
    """

    losses = (ProCoLoss,)
    reads_loss_when = "mu>0"
    needs_every_class = True
    state_of_rows = ("sums", "counts")
    sums: Tensor
    counts: Tensor

    def __init__(
        self,
        *args,
        mu: Annotated[float, ">= 0"] = 1.0,
        projection_size: Annotated[int, ">= 2", "<= 65536", "with mu>0"] = 128,
        adjustment_strength: Annotated[float, ">= 0"] = 1.0,
        num_views: Literal[2] = 2,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs | {"num_views": num_views})
        self.project = ProjectionHead(self.encoder.hidden_size, projection_size)
        self.classification_loss = LogitCompensatedCrossEntropy(adjustment_strength)
        self.mu = mu
        self.register_buffer("sums", torch.zeros(2, self.num_classes, projection_size))  # in use, of this epoch
        self.register_buffer("counts", torch.zeros(2, self.num_classes))

    def on_train_epoch_start(self) -> None:
        super().on_train_epoch_start()
        if self.current_epoch:
            for estimate in (self.sums, self.counts):
                estimate[0] = estimate[1]
                estimate[1] = 0

    @torch.no_grad()
    def updated_means(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Take in embeddings (V*B, P) of the global batch; the class means (C, P) in use."""
        for sums, counts in zip(self.sums, self.counts, strict=True):
            sums.index_add_(0, labels, embeddings.to(sums))
            counts += labels.bincount(minlength=self.num_classes)
        return self.sums[0] / self.counts[0].clamp_min(1)[:, None]

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        output, labels = self(batch), batch["labels"].repeat(2)
        classification = self.classification_loss(output["logits"], labels, self.class_counts)
        z, labels = gather(self.project(output["embeddings"]), 2), gather(labels, 2)
        contrastive = self.loss(z, labels, self.updated_means(z.detach(), labels), self.class_counts)
        loss = classification + self.mu * contrastive
        return {"loss": loss, "classification": classification, "contrastive": contrastive}
