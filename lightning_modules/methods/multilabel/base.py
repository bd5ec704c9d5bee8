"""What methods for texts of several labels share: probabilities of each label alone, thresholds, figures."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from lightning_modules.base import ClassifierModule

Threshold = Annotated[float, "> 0", "< 1"] | Literal["global", "per_label"]


class MultiLabelModule(ClassifierModule):
    """Base of the methods for texts with any number of labels.

    Batches carry `labels` (B, C) float32 of 0 and 1, evaluation steps return them so; a label's probability is the
    sigmoid of its logit.

    Args:
        threshold: above which probability a label is predicted: one number; or chosen among all that make a difference
            on the rows that choose the epoch, `global` for the best micro-F1, `per_label` for the best F1 of each
            label. Every epoch is judged at the threshold that it would get.
        initial_probability: of every label before training, set by the classifier's bias where it has one, so that the
            first epochs need not learn that most labels are absent. Source: Lin et al. (ICCV 2017), sec. 4.1; 0.5 is a
            bias of 0.

    The remaining arguments are those of `ClassifierModule`.
    """

    multilabel = True

    def __init__(
        self,
        *args,
        threshold: Threshold = 0.5,
        initial_probability: Annotated[float, "> 0", "< 1"] = 0.01,
        head_lr: Annotated[float, "> 0"] = 1e-2,
        **kwargs,
    ) -> None:
        self.threshold = threshold
        super().__init__(*args, **kwargs | {"head_lr": head_lr})
        if self.classifier.bias is not None:
            nn.init.constant_(self.classifier.bias, math.log(initial_probability / (1 - initial_probability)))

    def _make_metrics(self, split: str) -> Metric:
        return LabelScores(self.threshold, f"{split}/")

    def probabilities(self, logits: Tensor) -> Tensor:
        """Of each label by itself (B, C)."""
        return logits.sigmoid()

    def evaluation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Binary cross-entropy, the mean over rows and labels."""
        return nn.functional.binary_cross_entropy_with_logits(logits, labels.to(logits))


class LabelScores(Metric):
    """Accuracy of whole label sets, macro-F1 over the labels that occur in references or predictions, and micro-F1.

    Args:
        threshold: above which sigmoid of its logit a label is predicted; `global` and `per_label` choose by the rows.
        prefix: of the names.
    """

    scores: list[Tensor]
    labels: list[Tensor]

    def __init__(self, threshold: Threshold, prefix: str) -> None:
        super().__init__()
        self.threshold, self.prefix = threshold, prefix
        self.add_state("scores", [], dist_reduce_fx="cat")
        self.add_state("labels", [], dist_reduce_fx="cat")

    def update(self, logits: Tensor, labels: Tensor) -> None:
        self.scores.append(logits.sigmoid())
        self.labels.append(labels > 0)

    def compute(self) -> dict[str, Tensor]:
        scores, true = dim_zero_cat(self.scores), dim_zero_cat(self.labels)
        predicted = scores > (self.threshold if isinstance(self.threshold, float) else self._cuts(scores, true))
        hits, total = (predicted & true).sum(0), predicted.sum(0) + true.sum(0)
        figures = {
            "accuracy": (predicted == true).all(1).float().mean(),
            "macro_f1": (2 * hits / total)[total > 0].sum() / (total > 0).sum().clamp_min(1),
            "micro_f1": 2 * hits.sum() / total.sum().clamp_min(1),
        }
        return {self.prefix + name: value for name, value in figures.items()}

    def _cuts(self, scores: Tensor, true: Tensor) -> Tensor:
        """The threshold (1,), or thresholds (C,), of best F1."""
        pairs = [(scores.ravel(), true.ravel())] if self.threshold == "global" else zip(scores.T, true.T, strict=True)
        return torch.stack([best_cut(*pair) for pair in pairs])


def best_cut(scores: Tensor, true: Tensor) -> Tensor:
    """The threshold, a scalar, above which scores (N,) in [0, 1] are predicted where F1 of `true` (N,) is best.

    As `reporting.multilabel_metrics.best_threshold` chooses it for the report: in the middle between two scores, of
    equally good ones the highest, 0.5 where none is true.
    """
    if not true.any():
        return scores.new_tensor(0.5)
    ranked, order = scores.sort(descending=True)
    below = torch.cat([ranked[1:], ranked.new_zeros(1)])
    number = torch.arange(1, len(ranked) + 1, device=ranked.device)
    f1 = 2 * true[order].cumsum(0) / (number + true.sum())
    best = f1.where(below < ranked, -1.0).argmax()  # equal scores are on one side
    middle = (ranked[best] + below[best]) / 2
    return middle.where(middle < ranked[best], below[best])
