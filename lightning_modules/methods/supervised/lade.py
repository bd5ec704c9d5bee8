"""Label distribution disentangling (Hong et al., CVPR 2021)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lightning_modules.base import Batch
from lightning_modules.methods.supervised.prior_shift import PriorShiftModule
from losses import LADELoss, log_prior


class LADEModule(PriorShiftModule):
    """Trained with the prior of training in the softmax, predicts with that of its target: `method=lade`.

    Args:
        target_prior: the class distribution of the texts to come: `uniform` predicts the arg max of the logits, `train`
            that of the logits + log prior of training (the PC softmax of the paper).

    The remaining arguments are those of `ClassifierModule`. All views enter the loss. Logits of an evaluation step are
    those of prediction. Over a frozen encoder it is trained by steps: the regulariser is not convex.
    """

    losses = (LADELoss,)

    def __init__(self, *args, target_prior: Literal["uniform", "train"] = "uniform", **kwargs) -> None:
        super().__init__(*args, **kwargs)
        prior = log_prior(self.class_counts).float()
        self.register_buffer("shift", prior if target_prior == "train" else torch.zeros_like(prior), False)

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        labels = batch["labels"].repeat(batch["num_views"])
        return {"loss": self.loss(self(batch)["logits"], labels, self.class_counts)}
