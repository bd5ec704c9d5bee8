"""Contrast weighted by shared labels, beside binary cross-entropy."""

from __future__ import annotations

from typing import Annotated

from torch import Tensor

from lightning_modules.base import Batch
from lightning_modules.methods.multilabel.base import MultiLabelModule
from losses import BinaryCrossEntropy, MultiLabelContrastiveLoss, gather


class KNNMultiLabelModule(MultiLabelModule):
    """L = L_BCE + gamma L_con over embeddings that are not normalised: `method=knn_mltc`.

    Source: kNN-MLTC (ACL 2022), the training part; the neighbours come in with `retrieval=knn`. All views of a text
    enter both terms; published is one view.

    Args:
        gamma: weight of the contrastive term. The paper has 0.1 (AAPD) and 0.01 (RCV1-V2) with a contrastive term that
            is a sum over the batch, `loss.reduction=sum`.

    The remaining arguments are those of `MultiLabelModule`.
    """

    losses = (MultiLabelContrastiveLoss,)
    reads_loss_when = "gamma>0"

    def __init__(self, *args, gamma: Annotated[float, ">= 0"] = 0.1, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.classification_loss = BinaryCrossEntropy()
        self.gamma = gamma

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        views = batch["num_views"]
        output, labels = self(batch), batch["labels"].repeat(views, 1)
        classification = self.classification_loss(output["logits"], labels)
        if self.gamma == 0:
            return {"loss": classification}
        contrastive = self.loss(gather(output["embeddings"], views), gather(labels, views))
        loss = classification + self.gamma * contrastive
        return {"loss": loss, "classification": classification, "contrastive": contrastive}
