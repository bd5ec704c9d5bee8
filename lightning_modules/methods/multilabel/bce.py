"""Binary cross-entropy fine-tuning for texts of several labels."""

from __future__ import annotations

from torch import Tensor

from lightning_modules.base import Batch
from lightning_modules.methods.multilabel.base import MultiLabelModule
from losses import BinaryCrossEntropy


class BinaryCrossEntropyModule(MultiLabelModule):
    """Encoder and linear classifier under binary cross-entropy, each label by itself: `method=bce`."""

    losses = (BinaryCrossEntropy,)

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)

    def linear_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of logits and labels, each (N, C), a scalar."""
        return self.loss(logits, labels)

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """The loss of all views, each with the labels of its text."""
        return {"loss": self.linear_loss(self(batch)["logits"], batch["labels"].repeat(batch["num_views"], 1))}
