"""Hybrid-SC and Hybrid-PSC (Wang et al., CVPR 2021)."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from lightning_modules.base import Batch, ClassifierModule
from lightning_modules.heads.projection import ProjectionHead
from lightning_modules.schedules import falling_share
from losses import PrototypicalContrastiveLoss, SupervisedContrastiveLoss, gather, inverse_frequency_weights


class HybridSCModule(ClassifierModule):
    """L = alpha L_contrast + (1 - alpha) L_CE, alpha = 1 - (t / T)^2: `method=hybrid_sc`.

    Training moves from representation to classification. `loss=scl` is Hybrid-SC over all views, `loss=psc` Hybrid-PSC
    with learnable prototypes. The published classifier branch has a class-balanced sampler and a batch of its own;
    here both branches share the batch, and cross-entropy weighs its rows instead.

    Args:
        classifier_weighting: `inverse_frequency` weighs rows as sampling all classes alike would do in expectation,
            `none` all the same.
        schedule_by: t counts `step`s, or `epoch`s as published; few epochs make few values of alpha.
        projection_size: output of the projection (published: 128).

    The remaining arguments are those of `ClassifierModule`.
    """

    losses = (SupervisedContrastiveLoss, PrototypicalContrastiveLoss)

    row_weights: Tensor

    def __init__(
        self,
        *args,
        classifier_weighting: Literal["inverse_frequency", "none"] = "inverse_frequency",
        schedule_by: Literal["step", "epoch"] = "step",
        projection_size: Annotated[int, ">= 1"] = 128,
        num_views: Annotated[int, ">= 1", "<= 64"] = 2,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs | {"num_views": num_views})
        self.project = ProjectionHead(self.encoder.hidden_size, projection_size)
        if isinstance(self.loss, PrototypicalContrastiveLoss):
            self.prototypes = nn.Parameter(torch.randn(self.num_classes, projection_size))
        self.schedule_by = schedule_by
        even = torch.ones(self.num_classes)
        weights = inverse_frequency_weights(self.class_counts).float() if classifier_weighting != "none" else even
        self.register_buffer("row_weights", weights, persistent=False)

    def contrast_share(self) -> float:
        """alpha: 1 at the start of training, 0 at its end."""
        return falling_share(*self.progress(self.schedule_by))

    def contrastive_loss(self, embeddings: Tensor, labels: Tensor, num_views: int) -> Tensor:
        """SC or PSC on the global batch: `embeddings` (V*B, D) of this rank, `labels` (V*B,)."""
        z, labels = gather(self.project(embeddings), num_views), gather(labels, num_views)
        if isinstance(self.loss, PrototypicalContrastiveLoss):
            return self.loss(z, labels, functional.normalize(self.prototypes, dim=1))
        self.watch_pairs(lambda rows, extend: self.loss(rows, labels), z, labels)
        return self.loss(z, labels)

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        views = batch["num_views"]
        output, labels = self(batch), batch["labels"].repeat(views)
        rows = functional.cross_entropy(output["logits"], labels, reduction="none")
        classification = gather(rows * self.row_weights[labels]).mean()
        contrastive = self.contrastive_loss(output["embeddings"], labels, views)
        alpha = self.contrast_share()
        loss = alpha * contrastive + (1 - alpha) * classification
        return {"loss": loss, "classification": classification, "contrastive": contrastive}
