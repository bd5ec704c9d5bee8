"""Classifier re-training (Kang et al., ICLR 2020)."""

from __future__ import annotations

from torch import Tensor

from lightning_modules.base import Batch
from lightning_modules.methods.supervised.two_stages import TwoStageModule, Weighting
from losses import ClassificationLoss


class CRTModule(TwoStageModule):
    """A representation by plain training, then a new classifier on balanced draws of it: `method=crt`.

    Published: 90 and 10 epochs. The classifier of the first stage is thrown away.

    Args:
        classifier_weighting: see `TwoStageModule` (published: `class_balanced`).

    The remaining arguments are those of `TwoStageModule`.
    """

    losses = (ClassificationLoss,)

    def __init__(self, *args, classifier_weighting: Weighting = "class_balanced", **kwargs) -> None:
        super().__init__(*args, classifier_weighting=classifier_weighting, **kwargs)

    def representation_losses(self, batch: Batch) -> dict[str, Tensor]:
        labels = batch["labels"].repeat(batch["num_views"])
        return {"loss": self.loss(self(batch)["logits"], labels, self.class_counts)}
