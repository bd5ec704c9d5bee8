"""PaCo and GPaCo: parametric contrastive learning with learnable class centres."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor

from lightning_modules.base import Batch
from lightning_modules.methods.supervised.cosine import CosineModule
from lightning_modules.methods.supervised.momentum import QueueModule, gathered, view_of
from losses import ParametricContrastiveLoss


class PaCoModule(CosineModule, QueueModule):
    """One softmax over class centres, which are the classifier, and samples: `method=paco`, `method=gpaco`.

    With `momentum` (PaCo) the first view gives the anchors, and the second the keys by the momentum encoder. With
    `momentum: null` (GPaCo) the encoder gives both views, both are anchors, and the second is queued.
    Prediction is the arg max of the classifier, without the prior.

    Args:
        cosine_scale: class logits are this times the cosine of embedding and centre, which keeps them in the range of
            the similarities beside them in the softmax (1 / `loss.tau` makes both one temperature); null: linear, as
            in the published code.
        classifier_bias: of the linear classifier.
        num_views: 2.

    The remaining arguments are those of `QueueModule`.
    """

    losses = (ParametricContrastiveLoss,)

    def __init__(
        self,
        *args,
        cosine_scale: Annotated[float, "> 0"] | None = None,
        classifier_bias: bool = True,
        num_views: Literal[2] = 2,
        **kwargs,
    ) -> None:
        options = {"cosine_scale": cosine_scale, "classifier_bias": classifier_bias, "num_views": num_views}
        super().__init__(*args, **kwargs | options)

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        labels = batch["labels"]
        if self.momentum is None:
            views, anchor_labels = batch, labels.repeat(2)
        else:
            self.move_key_modules()
            views, anchor_labels = view_of(batch, 0), labels
        output = self(views)
        projected = self.project(output["embeddings"])
        new = projected[len(labels) :].detach() if self.momentum is None else self.keys(view_of(batch, 1))
        anchors, logits, anchor_labels, new, new_labels = gathered(
            projected, output["logits"], anchor_labels, new, labels
        )
        keys, key_labels = self.queued()
        if self.momentum is not None:
            keys, key_labels = torch.cat([new, keys]), torch.cat([new_labels, key_labels])
        loss = self.loss(anchors, logits, anchor_labels, keys, key_labels, self.class_counts)
        rest = (logits.detach(), anchor_labels)
        self.watch_pairs(
            lambda rows, extend: self.loss(rows, *rest, extend(keys), key_labels, self.class_counts),
            anchors,
            anchor_labels,
        )
        self.enqueue(new, new_labels)
        return {"loss": loss}
