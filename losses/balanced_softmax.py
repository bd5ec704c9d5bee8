"""Balanced Softmax."""

from __future__ import annotations

from torch import Tensor

from losses.arguments import ClassificationLoss
from losses.class_prior import log_prior
from losses.distributed import gather
from losses.logit_compensated import logit_compensated_cross_entropy


def balanced_softmax(logits: Tensor, labels: Tensor, class_counts: Tensor) -> Tensor:
    """-log(n_y e^{f_y} / sum_c n_c e^{f_c}), averaged over rows; prediction is the arg max of f alone.

    Source: Ren et al. (NeurIPS 2020). It equals cross-entropy with the log prior added to the logits, for the sum of
    the counts cancels.

    Args:
        logits: (N, C).
        labels: (N,) in [0, C).
        class_counts: (C,) training rows of each class, each >= 1.

    Returns:
        Scalar; 0 with zero gradient for an empty batch.

    Raises:
        ValueError: a class without rows, or shapes that do not fit.
    """
    return logit_compensated_cross_entropy(logits, labels, log_prior(class_counts))


class BalancedSoftmaxLoss(ClassificationLoss):
    """Module form of :func:`balanced_softmax`, over the global batch of all processes.

    Source: Ren et al. (NeurIPS 2020). `forward` takes logits (N, C), labels (N,) and class_counts (C,).
    """

    needs_every_class = True

    def forward(self, logits: Tensor, labels: Tensor, class_counts: Tensor) -> Tensor:
        """Logits (N, C), labels (N,), class_counts (C,) each >= 1 -> scalar loss."""
        return balanced_softmax(gather(logits), gather(labels), class_counts)
