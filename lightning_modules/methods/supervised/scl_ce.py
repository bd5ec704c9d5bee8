"""Supervised contrast on the encoder's own embedding, beside cross-entropy."""

from __future__ import annotations

from typing import Annotated

from torch import Tensor
from torch.nn import functional

from lightning_modules.base import Batch, ClassifierModule
from losses import CrossEntropy, SupervisedContrastiveLoss, gather


class SCLCrossEntropyModule(ClassifierModule):
    """L = (1 - mu) L_CE + mu L_SCL over L2-normalised embeddings, no projection: `method=scl_ce`.

    Source: Gunel et al. (ICLR 2021), eq. 1; there one view of a text (`num_views: 1`) and the mean over anchors that
    have a positive is not spelled out. All views enter both terms.

    Args:
        mu: weight of the contrastive term (published grid: 0.1 to 1).

    The remaining arguments are those of `ClassifierModule`.
    """

    losses = (SupervisedContrastiveLoss,)
    reads_loss_when = "mu>0"

    def __init__(self, *args, mu: Annotated[float, ">= 0", "<= 1"] = 0.5, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.classification_loss = CrossEntropy()
        self.mu = mu

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        views = batch["num_views"]
        output, labels = self(batch), batch["labels"].repeat(views)
        classification = self.classification_loss(output["logits"], labels)
        if self.mu == 0:
            return {"loss": classification}
        z = functional.normalize(output["embeddings"], dim=1)
        z, labels = gather(z, views), gather(labels, views)
        contrastive = self.loss(z, labels)
        self.watch_pairs(lambda rows, extend: self.loss(rows, labels), z, labels)
        loss = (1 - self.mu) * classification + self.mu * contrastive
        return {"loss": loss, "classification": classification, "contrastive": contrastive}
