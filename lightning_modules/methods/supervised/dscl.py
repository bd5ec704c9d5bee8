"""Decoupled contrastive learning (Xuan and Zhang, AAAI 2024), without its self-distillation of image patches."""

from __future__ import annotations

from torch import Tensor

from lightning_modules.methods.supervised.queue_contrast import QueueContrastModule
from losses import DecoupledContrastiveLoss


class DSCLModule(QueueContrastModule):
    """Two stages: contrast whose positives pull alike in every class, then a classifier on it: `method=dscl`.

    The paper's second part, patch-based self-distillation, is left out: it crops pictures, and has no counterpart for
    other rows. Arguments are those of `QueueContrastModule`.
    """

    losses = (DecoupledContrastiveLoss,)

    def contrast(self, queries: Tensor, labels: Tensor, keys: Tensor) -> Tensor:
        return self.loss(queries, labels, keys, *self.queued())
