"""SetFit's objective: the encoder learns from pairs of labelled rows, then logistic regression from its embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from torch import Tensor
from torch.nn import functional

from lightning_modules.base import Batch, ClassifierModule
from lightning_modules.heads.linear_solver import LinearSolution, solve_linear
from losses import CosinePairLoss


class SetFitPairsModule(ClassifierModule):
    """Cosines of pairs, then a logistic head: `method=setfit_pairs`.

    Source: Tunstall et al., Efficient Few-Shot Learning Without Prompts (2022). There pairs are drawn beforehand and
    each is encoded by itself; here every pair of a batch counts, so that a text is encoded once an epoch.

    Args:
        inverse_penalty: C of scikit-learn's logistic regression, > 0.

    The remaining arguments are those of `ClassifierModule`.
    """

    kinds = ("text",)
    losses: ClassVar[tuple] = (CosinePairLoss,)
    protocols: ClassVar[tuple[str, ...]] = ("fixed", "kfold")
    encoder_training: ClassVar[tuple[str, ...]] = ("full", "top_layers")
    unused_groups: ClassVar[tuple[str, ...]] = ("augment", "head")
    selected_by_epoch = False
    solved_after_training = True

    def __init__(self, *args: Any, inverse_penalty: Annotated[float, "> 0"] = 1.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.inverse_penalty = inverse_penalty
        self.classifier.requires_grad_(False)  # it is solved

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": self.loss(self.embed(batch), batch["labels"])}

    def solve(self, splits: Mapping[str, tuple[Any, Tensor]]) -> dict[str, Any]:
        """Logistic regression on the embeddings of the train rows."""
        solution = regression_of(*splits["train"], self.num_classes, self.inverse_penalty)
        self.set_classifier(solution.weight, solution.bias)
        return {"solver/converged": solution.converged}


def regression_of(embeddings: Tensor, labels: Tensor, num_classes: int, inverse_penalty: float) -> LinearSolution:
    """Logistic regression on embeddings (N, D) and labels (N,), with C of scikit-learn."""
    strength = 1 / (inverse_penalty * float(embeddings.square().sum()))  # C means what it does there
    return solve_linear(lambda logits: functional.cross_entropy(logits, labels), embeddings, num_classes, strength)
