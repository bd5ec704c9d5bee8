"""Distribution alignment (Zhang et al., CVPR 2021)."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from lightning_modules.base import Batch, ClassifierModule
from lightning_modules.methods.supervised.two_stages import TwoStageModule
from losses import CrossEntropy, GeneralisedReweightingLoss, adaptive_calibration


class DisAlignModule(TwoStageModule):
    """Plain training, then a calibration of its logits under re-weighted cross-entropy: `method=disalign`.

    Encoder and classifier rest in the second stage. What is learned is a magnitude and a margin for each class, and
    how far a row takes part in them, by its embedding. Published: 90 and 10 epochs.

    Args:
        class_lr: learning rate of magnitudes and margins, which have a way of order 1 to go (published: 0.1).
        classifier_weighting: none, for the loss weighs the rows of the second stage.

    The remaining arguments are those of `TwoStageModule`.
    """

    losses = (GeneralisedReweightingLoss,)

    def __init__(
        self,
        *args,
        class_lr: Annotated[float, "> 0", "with representation_share<1"] = 0.1,
        classifier_weighting: Literal["none"] = "none",
        **kwargs,
    ) -> None:
        super().__init__(*args, classifier_weighting=classifier_weighting, **kwargs)
        self.confidence = nn.Linear(self.encoder.hidden_size, 1)
        self.magnitude = nn.Parameter(torch.ones(self.num_classes))
        self.margin = nn.Parameter(torch.zeros(self.num_classes))
        self.rates = {"magnitude": class_lr, "margin": class_lr}
        self.first_loss = CrossEntropy()

    def logits(self, embeddings: Tensor) -> Tensor:
        """Calibrated scores (B, C); until the second stage those of the classifier."""
        return self._calibrated(super().logits(embeddings), embeddings)

    def _calibrated(self, logits: Tensor, embeddings: Tensor) -> Tensor:
        return adaptive_calibration(logits, self.confidence(embeddings).float(), self.magnitude, self.margin)

    def representation_losses(self, batch: Batch) -> dict[str, Tensor]:
        labels = batch["labels"].repeat(batch["num_views"])
        return {"loss": self.first_loss(ClassifierModule.logits(self, self.embed(batch)), labels)}

    def begin_second_stage(self) -> None:
        """The classifier stays: its logits are what is calibrated."""

    def classifier_losses(self, batch: Batch) -> dict[str, Tensor]:
        embeddings = self.resting_embeddings(batch)
        with torch.no_grad():
            logits = self.classifier(embeddings).float()
        return {"loss": self.loss(self._calibrated(logits, embeddings), batch["labels"], self.class_counts)}

    def prediction_head(self) -> dict[str, Tensor]:
        raise ValueError(f"task=export: method={self.name} calibrates each text by its embedding; nothing to fold")
