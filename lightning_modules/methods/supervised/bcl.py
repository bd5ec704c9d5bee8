"""Balanced contrastive learning (Zhu et al., CVPR 2022)."""

from __future__ import annotations

from typing import Annotated, Literal

from torch import Tensor

from lightning_modules.base import Batch
from lightning_modules.heads.projection import ProjectionHead
from lightning_modules.methods.supervised.cosine import CosineModule
from losses import BalancedContrastiveLoss, LogitCompensatedCrossEntropy, gather


class BCLModule(CosineModule):
    """L = L_LC + mu L_BCL: logit-compensated cross-entropy and balanced contrast with prototypes: `method=bcl`.

    Args:
        mu: weight of the contrastive term (published: 0.35).
        projection_size: output of both projections (published: 1024, over images).
        projection_norm: batch_norm as published, none elsewhere.
        adjustment_strength: factor of the log prior in cross-entropy.
        views: `shared` gives every view to both terms; `separate` the first to cross-entropy and the others to the
            contrast, as published, with `num_views: 3`.

    The remaining arguments are those of `CosineModule`. The prototypes are the projected rows of the classifier.

    Raises:
        ValueError: `views: separate` with one view.
    """

    losses = (BalancedContrastiveLoss,)
    reads_loss_when = "mu>0"
    needs_every_class = True

    def __init__(
        self,
        *args,
        mu: Annotated[float, ">= 0"] = 0.35,
        projection_size: Annotated[int, ">= 1", "with mu>0"] = 128,
        projection_norm: Annotated[Literal["none", "batch_norm"], "with mu>0"] = "none",
        adjustment_strength: Annotated[float, ">= 0"] = 1.0,
        views: Literal["shared", "separate"] = "shared",
        num_views: Annotated[int, ">= 1", "<= 64"] = 2,
        **kwargs,
    ) -> None:
        super().__init__(*args, num_views=num_views, **kwargs)
        if views == "separate" and self.num_views < 2:
            raise ValueError(f"method.num_views: found {self.num_views}, allowed: >= 2 with method.views=separate")
        size = self.encoder.hidden_size
        self.project_features = ProjectionHead(size, projection_size, projection_norm)
        self.project_prototypes = ProjectionHead(size, projection_size, projection_norm)
        self.classification_loss = LogitCompensatedCrossEntropy(adjustment_strength)
        self.mu, self.views = mu, views

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        size, labels = len(batch["labels"]), batch["labels"].repeat(batch["num_views"])
        separate = self.views == "separate"
        classified, contrasted = slice(size if separate else None), slice(size if separate else 0, None)
        embeddings = self.embed(batch)
        logits = self.logits(embeddings[classified])
        classification = self.classification_loss(logits, labels[classified], self.class_counts)
        if self.mu == 0:
            return {"loss": classification}
        z, z_labels = gather(self.project_features(embeddings[contrasted])), gather(labels[contrasted])
        prototypes = self.project_prototypes(self.classifier.weight)
        contrastive = self.loss(z, z_labels, prototypes)
        fixed = prototypes.detach()
        self.watch_pairs(lambda rows, extend: self.loss(rows, z_labels, extend(fixed)), z, z_labels)
        loss = classification + self.mu * contrastive
        return {"loss": loss, "classification": classification, "contrastive": contrastive}
