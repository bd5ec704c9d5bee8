"""Long-tailed recognition by the likelihood of Gaussian mixtures (Suh and Seo, ICML 2023)."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor

from lightning_modules.base import Batch
from lightning_modules.methods.supervised.cosine import CosineModule
from lightning_modules.methods.supervised.momentum import QueueModule, gathered, view_of
from losses import GaussianMixtureLoss, LogitCompensatedCrossEntropy, log_prior


class GMLModule(CosineModule, QueueModule):
    """L = L_LC + mu L_GML: logit-compensated cross-entropy and mixtures around keys of each class: `method=gml`.

    The first view is classified and gives the anchors, the second the keys. The queue holds a share of each class by
    its frequency, so that no class is ever without keys. Prediction is the arg max of the classifier, without the
    prior. The published distillation from a teacher, off by default in its code, is left out.

    Args:
        mu: weight of the mixtures (published: 1).
        least_keys: the smallest share of a class in the queue.
        adjustment_strength: factor of the log prior in cross-entropy.
        queue_size: keys kept, divided among the classes by frequency, rounded down, but for `least_keys` of each.
        momentum: of the momentum encoder, as in `QueueModule`.
        num_views: 2.

    The remaining arguments are those of `CosineModule` and `QueueModule`. The temperature of the loss is learned at
    `head_lr`.
    """

    losses = (GaussianMixtureLoss,)
    reads_loss_when = "mu>0"
    shares: Tensor

    def __init__(
        self,
        *args,
        mu: Annotated[float, ">= 0"] = 1.0,
        least_keys: Annotated[int, ">= 1", "with mu>0"] = 8,
        adjustment_strength: Annotated[float, ">= 0"] = 1.0,
        queue_size: Annotated[int, ">= 0", "<= 1048576", "with mu>0"] = 1024,
        momentum: Annotated[float, ">= 0", "< 1", "with mu>0"] = 0.999,
        num_views: Literal[2] = 2,
        **kwargs,
    ) -> None:
        super().__init__(*args, queue_size=queue_size, momentum=momentum, num_views=num_views, **kwargs)
        shares = (queue_size * log_prior(self.class_counts).exp()).long().clamp_min(least_keys)
        self.register_buffer("shares", shares, persistent=False)
        size = int(shares.sum())
        self.register_buffer("queue", torch.zeros(size, self.queue.shape[1]))
        self.register_buffer("queue_labels", torch.full((size,), -1))
        self.register_buffer("queue_position", torch.zeros_like(shares))
        self.classification_loss = LogitCompensatedCrossEntropy(adjustment_strength)
        self.mu = mu

    @torch.no_grad()
    def enqueue(self, keys: Tensor, labels: Tensor) -> None:
        """Take in keys (B, projection_size) of the global batch, each over the oldest of its class."""
        same_class = labels[:, None] == labels
        earlier, share = same_class.tril(-1).sum(1), self.shares[labels]
        stays = earlier >= same_class.sum(1) - share  # of more than the share, the last
        places = (self.shares.cumsum(0) - self.shares)[labels] + (self.queue_position[labels] + earlier) % share
        self.queue[places[stays]], self.queue_labels[places[stays]] = keys[stays].to(self.queue), labels[stays]
        self.queue_position = (self.queue_position + labels.bincount(minlength=self.num_classes)) % self.shares

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        self.move_key_modules()
        output = self(view_of(batch, 0))
        classification = self.classification_loss(output["logits"], batch["labels"], self.class_counts)
        anchors, keys, labels = gathered(
            self.project(output["embeddings"]), self.keys(view_of(batch, 1)), batch["labels"]
        )
        queue, queue_labels = self.queued()
        mixture = self.loss(
            anchors, labels, torch.cat([keys, queue]), torch.cat([labels, queue_labels]), self.class_counts
        )
        self.enqueue(keys, labels)
        loss = classification + self.mu * mixture
        return {"loss": loss, "classification": classification, "mixture": mixture}
