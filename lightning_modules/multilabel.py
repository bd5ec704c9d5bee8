"""What methods for texts of several labels share: probabilities of each label alone, thresholds, figures."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torchmetrics import Metric

from lightning_modules.base import ClassifierModule


class MultiLabelModule(ClassifierModule):
    """Base of the methods for texts with any number of labels.

    Batches carry `labels` (B, C) float32 of 0 and 1, evaluation steps return them so; a label's probability is the
    sigmoid of its logit.

    Args:
        threshold: above which probability a label is predicted: one number; or chosen among all that make a difference
            on the rows that choose the epoch, `global` for the best micro-F1, `per_label` for the best F1 of each
            label. The epoch itself is chosen at 0.5, or at the number.
        initial_probability: of every label before training, set by the classifier's bias where it has one, so that the
            first epochs need not learn that most labels are absent. Source: Lin et al. (ICCV 2017), sec. 4.1; 0.5 is a
            bias of 0.

    The remaining arguments are those of `ClassifierModule`.
    """

    multilabel = True

    def __init__(
        self,
        *args,
        threshold: Annotated[float, "> 0", "< 1"] | Literal["global", "per_label"] = 0.5,
        initial_probability: Annotated[float, "> 0", "< 1"] = 0.01,
        **kwargs,
    ) -> None:
        self.threshold = threshold
        super().__init__(*args, **kwargs)
        if self.classifier.bias is not None:
            nn.init.constant_(self.classifier.bias, math.log(initial_probability / (1 - initial_probability)))

    def _make_metrics(self, split: str) -> Metric:
        return LabelScores(self.num_classes, 0.5 if isinstance(self.threshold, str) else self.threshold, f"{split}/")

    def probabilities(self, logits: Tensor) -> Tensor:
        """Of each label by itself (B, C)."""
        return logits.sigmoid()

    def evaluation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Binary cross-entropy, the mean over rows and labels."""
        return nn.functional.binary_cross_entropy_with_logits(logits, labels)


class LabelScores(Metric):
    """Accuracy of whole label sets, macro-F1 over the labels that occur in references or predictions, and micro-F1.

    Args:
        num_labels: C.
        threshold: a label is predicted where the sigmoid of its logit is above.
        prefix: of the names.
    """

    hits: Tensor
    total: Tensor
    exact: Tensor
    rows: Tensor

    def __init__(self, num_labels: int, threshold: float, prefix: str) -> None:
        super().__init__()
        self.threshold, self.prefix = threshold, prefix
        for name, size in (("hits", num_labels), ("total", num_labels), ("exact", 1), ("rows", 1)):
            self.add_state(name, torch.zeros(size, dtype=torch.long), dist_reduce_fx="sum")

    def update(self, logits: Tensor, labels: Tensor) -> None:
        predicted, true = logits.sigmoid() > self.threshold, labels > 0
        self.hits += (predicted & true).sum(0)
        self.total += predicted.sum(0) + true.sum(0)
        self.exact += (predicted == true).all(1).sum()
        self.rows += len(labels)

    def compute(self) -> dict[str, Tensor]:
        occurs = self.total > 0
        figures = {
            "accuracy": self.exact / self.rows,
            "macro_f1": (2 * self.hits[occurs] / self.total[occurs]).sum() / occurs.sum().clamp_min(1),
            "micro_f1": 2 * self.hits.sum() / self.total.sum().clamp_min(1),
        }
        return {self.prefix + name: value.float().squeeze() for name, value in figures.items()}
