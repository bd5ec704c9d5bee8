"""Binary cross-entropy fine-tuning for texts of several labels."""

from __future__ import annotations

from typing import Annotated

from torch import Tensor

from lightning_modules.base import Batch
from lightning_modules.heads.label_solver import LabelRegressions
from lightning_modules.heads.linear_solver import Solver
from lightning_modules.methods.multilabel.base import MultiLabelModule
from losses import BinaryCrossEntropy


class BinaryCrossEntropyModule(MultiLabelModule):
    """Encoder and linear classifier under binary cross-entropy, each label by itself: `method=bce`.

    Args:
        initial_probability: of every label before training; a classifier that is solved starts nowhere.

    The remaining arguments are those of `MultiLabelModule`.
    """

    losses = (BinaryCrossEntropy,)

    def __init__(
        self,
        *args,
        initial_probability: Annotated[float, "> 0", "< 1", "with encoder.train=full|top_layers"] = 0.01,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs | {"initial_probability": initial_probability})

    def linear_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of logits and labels, each (N, C), a scalar."""
        return self.loss(logits, labels)

    def linear_solver(self, embeddings: Tensor, labels: Tensor, has_bias: bool) -> Solver:
        return LabelRegressions(embeddings, labels, has_bias).solve

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """The loss of all views, each with the labels of its text."""
        return {"loss": self.linear_loss(self(batch)["logits"], batch["labels"].repeat(batch["num_views"], 1))}
