"""Label distribution disentangling (Hong et al., CVPR 2021)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lightning_modules.base import Batch, ClassifierModule
from losses import LADELoss, log_prior


class LADEModule(ClassifierModule):
    """Trained with the prior of training in the softmax, predicts with that of its target: `method=lade`.

    Args:
        target_prior: the class distribution of the texts to come: `uniform` predicts the arg max of the logits, `train`
            that of the logits + log prior of training (the PC softmax of the paper).

    The remaining arguments are those of `ClassifierModule`. All views enter the loss. Logits of an evaluation step are
    those of prediction. Over a frozen encoder it is trained by steps: the regulariser is not convex.
    """

    losses = (LADELoss,)
    adjustment: Tensor

    def __init__(self, *args, target_prior: Literal["uniform", "train"] = "uniform", **kwargs) -> None:
        super().__init__(*args, **kwargs)
        prior = log_prior(self.class_counts).float()
        self.register_buffer("adjustment", prior if target_prior == "train" else torch.zeros_like(prior), False)

    def logits(self, embeddings: Tensor) -> Tensor:
        logits = super().logits(embeddings)
        return logits if self.training else logits + self.adjustment

    def prediction_head(self) -> dict[str, Tensor]:
        head = super().prediction_head()
        return head | {"bias": head["bias"] + self.adjustment if "bias" in head else self.adjustment}

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        labels = batch["labels"].repeat(batch["num_views"])
        return {"loss": self.loss(self(batch)["logits"], labels, self.class_counts)}
