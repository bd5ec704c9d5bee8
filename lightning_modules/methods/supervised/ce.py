"""Cross-entropy fine-tuning, and the same with another classification loss."""

from __future__ import annotations

from torch import Tensor

from lightning_modules.base import Batch, ClassifierModule
from lightning_modules.heads.text_to_text import TextToTextHead
from losses import CrossEntropy


class CrossEntropyModule(ClassifierModule):
    """Encoder and linear classifier under one classification loss: `method=ce`, `method=logit_adjusted`."""

    def use_head(self, head: TextToTextHead) -> None:
        """See `ClassifierModule`. Raises ValueError: a loss that the tokens of the words would not see."""
        if not isinstance(self.loss, CrossEntropy):
            found = type(self.loss).__name__
            raise ValueError(f"loss: found {found}, allowed with head=text_to_text: cross_entropy")
        super().use_head(head)

    def linear_loss(self, logits: Tensor, labels: Tensor) -> Tensor:  # type: ignore[override]
        """The loss of logits (N, C) and labels (N,), a scalar."""
        return self.loss(logits, labels, self.class_counts)

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """The loss of all views, each with the label of its text."""
        labels = batch["labels"].repeat(batch["num_views"])
        _, loss = self.classified(batch, lambda logits: self.linear_loss(logits, labels), labels)
        return {"loss": loss}
