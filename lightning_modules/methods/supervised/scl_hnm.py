"""SCL-HNM: cross-entropy and supervised contrast with hard negatives on the encoder's own embedding."""

from __future__ import annotations

from typing import Annotated, ClassVar

from torch import Tensor, nn
from torch.nn import functional

from lightning_modules.base import Batch, ClassifierModule
from lightning_modules.methods.multilabel.base import MultiLabelModule
from losses import BinaryCrossEntropy, CrossEntropy, HardNegativeContrastiveLoss, SupervisedContrastiveLoss, gather


class SCLHNMModule(ClassifierModule):
    """L = L_CE + alpha L_SCL-HNM (eq. 3) over z = h / |h|, no projection: `method=scl_hnm`.

    `loss=scl` has all negatives in the denominator (eq. 1), the paper's SCL rows. A linear classifier on the pooled
    embedding, or `head=text_to_text`, as in the published code; figures of the two do not compare.

    Args:
        alpha: weight of the contrastive term (paper: 0.1).

    The remaining arguments are those of `ClassifierModule`.
    """

    losses: ClassVar[tuple[type[nn.Module], ...]] = (HardNegativeContrastiveLoss, SupervisedContrastiveLoss)
    losses_of_words = losses
    reads_loss_when = "alpha>0"

    def __init__(self, *args, alpha: Annotated[float, ">= 0"] = 0.1, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.classification_loss: nn.Module = CrossEntropy()
        self.alpha = alpha

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        views = batch["num_views"]
        labels = batch["labels"].repeat(views, *[1] * (batch["labels"].dim() - 1))
        embeddings, classification = self.classified(
            batch, lambda logits: self.classification_loss(logits, labels), labels
        )
        if self.alpha == 0:
            return {"loss": classification}
        z, labels = gather(functional.normalize(embeddings, dim=1), views), gather(labels, views)
        contrastive = self.loss(z, labels)
        if labels.dim() == 1:  # what watches pairs tells those of one class from the others
            self.watch_pairs(lambda rows, extend: self.loss(rows, labels), z, labels)
        loss = classification + self.alpha * contrastive
        return {"loss": loss, "classification": classification, "contrastive": contrastive}


class SCLHNMMultiLabelModule(SCLHNMModule, MultiLabelModule):
    """The same for texts of several labels: L = L_BCE + alpha L_SCL-HNM, `method=scl_hnm_bce`.

    Rows that share a label attract each other (`loss.positives`); the paper, whose data set MPQA Type has several
    labels, leaves the positives open.

    Arguments as of `SCLHNMModule` and `MultiLabelModule`.
    """

    losses_of_words: ClassVar[tuple[type[nn.Module], ...]] = ()

    def __init__(
        self,
        *args,
        initial_probability: Annotated[float, "> 0", "< 1"] = 0.5,
        head_lr: Annotated[float, "> 0"] = 1e-3,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs | {"initial_probability": initial_probability, "head_lr": head_lr})
        self.classification_loss = BinaryCrossEntropy()
