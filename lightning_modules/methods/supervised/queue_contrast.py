"""Methods of two stages whose first contrasts queries with keys of a momentum encoder and a queue of them."""

from __future__ import annotations

from typing import Annotated, Literal

from torch import Tensor, nn

from lightning_modules.base import Batch
from lightning_modules.methods.supervised.momentum import QueueModule, gathered, view_of
from lightning_modules.methods.supervised.two_stages import TwoStageModule


class QueueContrastModule(TwoStageModule, QueueModule):
    """A representation by contrast with a queue, then a classifier on it; a method says `contrast`.

    The first view gives the queries, the second the keys. Until the second stage the classifier is 0 and all classes
    score the same. The loss of the first rises while the queue fills, for the denominator grows.

    Args:
        momentum: of the momentum encoder, as in `QueueModule`.
        num_views: 2.

    The remaining arguments are those of `TwoStageModule` and `QueueModule`.
    """

    def __init__(
        self,
        *args,
        momentum: Annotated[float, ">= 0", "< 1", "with representation_share>0"] = 0.999,
        num_views: Literal[2] = 2,
        **kwargs,
    ) -> None:
        super().__init__(*args, momentum=momentum, num_views=num_views, **kwargs)
        for parameter in self.classifier.parameters():
            nn.init.zeros_(parameter)

    def contrast(self, queries: Tensor, labels: Tensor, keys: Tensor) -> Tensor:
        """The loss of queries (B, P), labels (B,) and own keys (B, P) of the global batch beside the queue."""
        raise NotImplementedError

    def representation_losses(self, batch: Batch) -> dict[str, Tensor]:
        self.move_key_modules()
        queries, keys = self.project(self.embed(view_of(batch, 0))), self.keys(view_of(batch, 1))
        return {"loss": self.contrast_and_enqueue(queries, batch["labels"], keys)}

    def contrast_and_enqueue(self, queries: Tensor, labels: Tensor, keys: Tensor) -> Tensor:
        """`contrast` of the rows of this process over all processes; afterwards the queue takes the keys in."""
        queries, keys, labels = gathered(queries, keys, labels)
        loss = self.contrast(queries, labels, keys)
        self.enqueue(keys, labels)
        return loss
