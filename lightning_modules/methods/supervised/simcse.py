"""SimCSE beside cross-entropy."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from lightning_modules.base import Batch, ClassifierModule
from losses import CrossEntropy, SimCSELoss, gather


class SimCSEModule(ClassifierModule):
    """L = L_CE + mu L_SimCSE, the joint form of papers on long-tailed text: `method=simcse`.

    The views pass a dense layer with tanh, which prediction does without (`mlp_only_train` of the published code).
    With `augment=dropout` the views of a text differ by dropout alone, as published. Both views are classified.

    Args:
        mu: weight of the contrastive term; published nowhere for the joint form.

    The remaining arguments are those of `ClassifierModule`; `num_views` is 2.
    """

    losses = (SimCSELoss,)
    reads_loss_when = "mu>0"

    def __init__(self, *args, mu: Annotated[float, ">= 0"] = 0.1, num_views: Literal[2] = 2, **kwargs) -> None:
        super().__init__(*args, **kwargs | {"num_views": num_views})
        size = self.encoder.hidden_size
        self.project = nn.Sequential(nn.Linear(size, size), nn.Tanh())
        self.classification_loss = CrossEntropy()
        self.mu = mu

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        output, labels = self(batch), batch["labels"].repeat(2)
        classification = self.classification_loss(output["logits"], labels)
        if self.mu == 0:
            return {"loss": classification}
        first, second = functional.normalize(self.project(output["embeddings"]).float(), dim=1).chunk(2)
        first, second, texts = gather(first), gather(second), gather(batch["labels"])
        contrastive = self.loss(first, second)
        views = torch.cat([first, second])
        self.watch_pairs(lambda rows, extend: self.loss(*rows.chunk(2)), views, texts.repeat(2))
        loss = classification + self.mu * contrastive
        return {"loss": loss, "classification": classification, "contrastive": contrastive}
