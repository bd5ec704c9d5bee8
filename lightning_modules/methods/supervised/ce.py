"""Cross-entropy fine-tuning, and the same with another classification loss."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from lightning_modules.base import Batch, ClassifierModule
from losses import ClassificationLoss, CrossEntropy


class CrossEntropyModule(ClassifierModule):
    """Encoder and linear classifier under one classification loss: `method=ce`, `method=logit_adjusted`."""

    losses = (ClassificationLoss,)
    losses_of_words: ClassVar[tuple[type[nn.Module], ...]] = (CrossEntropy,)

    def linear_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of logits (N, C) and labels (N,), a scalar."""
        return self.loss(logits, labels, self.class_counts)

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """The loss of all views, each with the label of its text."""
        labels = batch["labels"].repeat(batch["num_views"])
        _, loss = self.classified(batch, lambda logits: self.linear_loss(logits, labels), labels)
        return {"loss": loss}
