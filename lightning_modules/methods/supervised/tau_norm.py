"""The tau-normalised classifier (Kang et al., ICLR 2020): class weights are brought towards one length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from lightning_modules.methods.supervised.ce import CrossEntropyModule

EXPONENTS = [step / 10 for step in range(21)]  # those of the authors' code


class TauNormModule(CrossEntropyModule):
    """Predicts by f_c = w_c z / ||w_c||^exponent: `method=tau_norm`.

    Rare classes have short weights. Training is that of `method=ce` without a bias, and so is the choice of the epoch.

    Args:
        exponent: the paper's tau: a number, where 0 is plain cross-entropy and 1 gives all classes one length; or
            `validation`, the one of 0, 0.1, ..., 2 with the highest recall of validation rows, averaged over classes,
            for its selected epoch. The smallest on a tie.
        classifier_bias: none, as published: a bias has no length to be divided by.

    The remaining arguments are those of `ClassifierModule`.
    """

    losses_of_words: ClassVar[tuple[type[nn.Module], ...]] = ()
    protocols = ("clean", "few_shot", "kfold")  # validation rows that are not test rows
    solved_after_training = True
    chosen: Tensor

    def __init__(
        self,
        *args,
        exponent: Annotated[float, ">= 0", "<= 10"] | Literal["validation"] = "validation",
        classifier_bias: Literal[False] = False,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs | {"classifier_bias": classifier_bias})
        self.exponent = exponent
        self.register_buffer("chosen", torch.zeros(()))  # 0 until training is over

    def on_fit_start(self) -> None:
        """A run that goes on from another's weights begins as plain cross-entropy too."""
        self.chosen.zero_()

    def weights(self, exponent: float | Tensor) -> Tensor:
        """(C, D), row c divided by its length to the power of `exponent`."""
        lengths = self.classifier.weight.norm(dim=1, keepdim=True).clamp_min(1e-12)
        return self.classifier.weight / lengths**exponent

    def logits(self, embeddings: Tensor) -> Tensor:
        if self.training:
            return super().logits(embeddings)
        return functional.linear(embeddings, self.weights(self.chosen).to(embeddings)).float()

    def prediction_head(self) -> dict[str, Tensor]:
        return {"weight": self.weights(self.chosen).detach()}

    def solve(self, splits: Mapping[str, tuple[Any, Tensor]]) -> dict[str, Any]:
        """Choose the exponent; over a frozen encoder the classifier is solved before."""
        figures = super().solve(splits) if self.is_solved else {}
        exponent = self._by_validation(*splits["val"]) if self.exponent == "validation" else self.exponent
        self.chosen.fill_(exponent)
        return figures | {"solver/exponent": exponent}

    @torch.no_grad()
    def _by_validation(self, embeddings: Tensor, labels: Tensor) -> float:
        def recall(exponent: float) -> float:
            predictions = functional.linear(embeddings, self.weights(exponent)).argmax(1)
            return float(torch.stack([(predictions[labels == c] == c).double().mean() for c in labels.unique()]).mean())

        return max(EXPONENTS, key=recall)
