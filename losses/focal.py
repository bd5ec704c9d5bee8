"""Focal loss over softmax probabilities."""

from __future__ import annotations

from typing import Annotated

from torch import Tensor

from losses.arguments import ClassificationLoss, check_not_negative, check_rows, full_precision
from losses.distributed import gather
from losses.probabilities import log_softmax_and_complement


@full_precision
def focal_per_sample(logits: Tensor, labels: Tensor, gamma: float = 2.0) -> Tensor:
    """-(1 - p_y)^gamma log p_y for each row: logits (N, C), labels (N,) in [0, C) -> (N,), each >= 0.

    Source: Lin et al. (ICCV 2017), with the softmax of all classes in place of the sigmoid of one. Gradients are
    finite for every gamma >= 0, also where p_y rounds to 1.

    Raises:
        ValueError: gamma < 0 or shapes that do not fit.
    """
    check_not_negative("gamma", gamma)
    check_rows("logits", logits, labels)
    log_p, log_rest = (value.gather(1, labels[:, None]).squeeze(1) for value in log_softmax_and_complement(logits))
    return -(gamma * log_rest).exp() * log_p


class FocalLoss(ClassificationLoss):
    """Mean of :func:`focal_per_sample` over the global batch of all processes.

    The paper's alpha is not here: one number for all classes only rescales the learning rate, and one for each class
    is ``ClassBalancedLoss(base="focal")``. Source: Lin et al. (ICCV 2017). Shapes: see `forward`.

    Args:
        gamma: >= 0, how strongly well classified rows are turned down; 0 is cross-entropy.
    """

    def __init__(self, gamma: Annotated[float, ">= 0"] = 2.0) -> None:
        super().__init__()
        self.gamma = check_not_negative("gamma", gamma)

    def forward(self, logits: Tensor, labels: Tensor, class_counts: Tensor | None = None) -> Tensor:
        """Logits (N, C), labels (N,) -> scalar; class_counts is not used. 0 for an empty batch."""
        logits, labels = gather(logits), gather(labels)
        return focal_per_sample(logits, labels, self.gamma).sum() / max(1, len(labels))
