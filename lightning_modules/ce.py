"""Cross-entropy fine-tuning, and the same with another classification loss."""

from __future__ import annotations

from torch import Tensor

from lightning_modules.base import Batch, ClassifierModule


class CrossEntropyModule(ClassifierModule):
    """Encoder and linear classifier under one classification loss: `method=ce`, `method=logit_adjusted`."""

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """The loss of all views, each with the label of its text."""
        logits = self(batch)["logits"]
        labels = batch["labels"].repeat(batch["num_views"])
        return {"loss": self.loss(logits, labels, self.class_counts)}
