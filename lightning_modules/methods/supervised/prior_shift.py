"""What methods share that predict by logits with a multiple of the classes' log prior added."""

from __future__ import annotations

from torch import Tensor

from lightning_modules.base import ClassifierModule


class PriorShiftModule(ClassifierModule):
    """Logits of evaluation, and of export, have `shift` (C,) added, which a method registers; those of training not."""

    shift: Tensor

    def logits(self, embeddings: Tensor) -> Tensor:
        logits = super().logits(embeddings)
        return logits if self.training else logits + self.shift

    def prediction_head(self) -> dict[str, Tensor]:
        head = super().prediction_head()
        return head | {"bias": head["bias"] + self.shift if "bias" in head else self.shift}
