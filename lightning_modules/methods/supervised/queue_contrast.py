"""Methods of two stages whose first contrasts queries with keys of a momentum encoder and a queue of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from torch import Tensor, nn
from torch.nn import functional

from lightning_modules.base import Batch
from lightning_modules.heads.linear_solver import STRENGTHS, solve_and_choose
from lightning_modules.methods.supervised.momentum import QueueModule, gathered, view_of
from lightning_modules.methods.supervised.two_stages import TwoStageModule
from losses import inverse_frequency_weights

Weighting = Literal["inverse_frequency", "class_balanced", "none"]


class QueueContrastModule(TwoStageModule, QueueModule):
    """A representation by contrast with a queue, then a classifier on it; a method says `contrast`.

    The first view gives the queries, the second the keys. Until the second stage the classifier is 0 and all classes
    score the same. The loss of the first rises while the queue fills, for the denominator grows.

    With `representation_share=1` all steps are the first stage's, and the classifier is then the minimum of its
    cross-entropy with a penalty on the embeddings of the encoder at rest: what enough steps of a second stage would
    come to. The strength of the penalty is the one with the lowest such loss on the validation rows; where there are
    none, that of scikit-learn's logistic regression (C = 1) on embeddings over their root mean square length.

    Args:
        representation_share: as in `TwoStageModule`, in [0, 1].
        classifier_weighting: as in `TwoStageModule`; of a solved classifier `class_balanced` is `inverse_frequency`.
        momentum: of the momentum encoder, as in `QueueModule`.
        num_views: 2.

    The remaining arguments are those of `TwoStageModule` and `QueueModule`.
    """

    reads_when = MappingProxyType({"dropout": "representation_share<1"})

    def __init__(
        self,
        *args,
        representation_share: Annotated[float, ">= 0", "<= 1"] = 1.0,
        classifier_weighting: Weighting = "inverse_frequency",
        momentum: Annotated[float, ">= 0", "< 1", "with representation_share>0"] = 0.999,
        num_views: Literal[2] = 2,
        **kwargs,
    ) -> None:
        kwargs |= {"representation_share": representation_share, "classifier_weighting": classifier_weighting}
        super().__init__(*args, momentum=momentum, num_views=num_views, **kwargs)
        self.solved_after_training = self.representation_share == 1
        for parameter in self.classifier.parameters():
            nn.init.zeros_(parameter)

    def contrast(self, queries: Tensor, labels: Tensor, keys: Tensor) -> Tensor:
        """The loss of queries (B, P), labels (B,) and own keys (B, P) of the global batch beside the queue."""
        raise NotImplementedError

    def linear_loss_of(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of logits (N, C) and labels (N,), rows weighted as in a second stage: a scalar."""
        rows = functional.cross_entropy(logits, labels, reduction="none")
        if self.classifier_weighting != "none":
            rows = rows * inverse_frequency_weights(self.class_counts).to(rows)[labels]
        return rows.mean()

    def solve(self, splits: Mapping[str, tuple[Any, Tensor]]) -> dict[str, Any]:
        """Solve the classifier on the rows of "train"; the strength of the penalty is chosen on those of "val".

        Args:
            splits: embeddings (N, D) by the trained encoder, and labels (N,).
        """
        train, has_bias = splits["train"], self.classifier.bias is not None
        strengths = STRENGTHS if "val" in splits else (1 / len(train[1]),)
        val = splits.get("val", train)
        solution = solve_and_choose(self.linear_loss_of, train, val, self.num_classes, has_bias, strengths).best
        self.set_classifier(solution.weight, solution.bias)
        return {"solver/penalty": solution.strength, "solver/converged": solution.converged}

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
