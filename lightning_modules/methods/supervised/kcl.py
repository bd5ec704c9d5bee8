"""k-positive contrastive learning (Kang et al., ICLR 2021)."""

from __future__ import annotations

from torch import Tensor

from lightning_modules.methods.supervised.queue_contrast import QueueContrastModule
from losses import KPositiveContrastiveLoss


class KCLModule(QueueContrastModule):
    """Two stages: contrast with as many positives for every class, then a classifier on it: `method=kcl`.

    Arguments are those of `QueueContrastModule`.
    """

    losses = (KPositiveContrastiveLoss,)

    def contrast(self, queries: Tensor, labels: Tensor, keys: Tensor) -> Tensor:
        return self.loss(queries, labels, keys, *self.queued(), self.step_generator())
