"""Balanced contrastive learning (Zhu et al., CVPR 2022)."""

from __future__ import annotations

from typing import Annotated, Literal

from torch import Tensor
from torch.nn import functional

from lightning_modules.base import Batch, ClassifierModule
from lightning_modules.heads.projection import ProjectionHead
from losses import BalancedContrastiveLoss, LogitCompensatedCrossEntropy, gather


class BCLModule(ClassifierModule):
    """L = L_LC + mu L_BCL: logit-compensated cross-entropy and balanced contrast with prototypes: `method=bcl`.

    Args:
        mu: weight of the contrastive term (published: 0.35).
        projection_size: output of both projections (published: 1024, over images).
        projection_norm: batch_norm as published, none elsewhere.
        cosine_scale: logits are this times the cosine of embedding and class weight (published: 30); null: a plain
            linear classifier.
        adjustment_strength: factor of the log prior in cross-entropy.
        views: `shared` gives every view to both terms; `separate` the first to cross-entropy and the others to the
            contrast, as published, with `num_views: 3`.
        classifier_bias: used by the linear classifier alone.

    The remaining arguments are those of `ClassifierModule`. The prototypes are the projected rows of the classifier.

    Raises:
        ValueError: `views: separate` with one view.
    """

    losses = (BalancedContrastiveLoss,)

    def __init__(
        self,
        *args,
        mu: Annotated[float, ">= 0"] = 0.35,
        projection_size: Annotated[int, ">= 1"] = 128,
        projection_norm: Literal["none", "batch_norm"] = "none",
        cosine_scale: Annotated[float, "> 0"] | None = 30.0,
        adjustment_strength: Annotated[float, ">= 0"] = 1.0,
        views: Literal["shared", "separate"] = "shared",
        num_views: Annotated[int, ">= 1"] = 2,
        classifier_bias: bool = False,
        **kwargs,
    ) -> None:
        if classifier_bias and cosine_scale is not None:
            raise ValueError("method.classifier_bias: found true, allowed: false with method.cosine_scale")
        super().__init__(*args, **kwargs | {"num_views": num_views, "classifier_bias": classifier_bias})
        if views == "separate" and self.num_views < 2:
            raise ValueError(f"method.num_views: found {self.num_views}, allowed: >= 2 with method.views=separate")
        size = self.encoder.hidden_size
        self.project_features = ProjectionHead(size, projection_size, projection_norm)
        self.project_prototypes = ProjectionHead(size, projection_size, projection_norm)
        self.classification_loss = LogitCompensatedCrossEntropy(adjustment_strength)
        self.mu, self.cosine_scale, self.views = mu, cosine_scale, views
        self.unit_norm_embeddings = cosine_scale is not None

    def logits(self, embeddings: Tensor) -> Tensor:
        if self.cosine_scale is None:
            return super().logits(embeddings)
        features = functional.normalize(self.dropout(embeddings).float(), dim=1)
        return self.cosine_scale * features @ functional.normalize(self.classifier.weight.float(), dim=1).T

    def prediction_head(self) -> dict[str, Tensor]:
        if self.cosine_scale is None:
            return super().prediction_head()
        return {"weight": self.cosine_scale * functional.normalize(self.classifier.weight.detach(), dim=1)}

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
