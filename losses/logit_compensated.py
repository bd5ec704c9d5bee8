"""Cross-entropy, plain and with logits compensated for the class prior."""

from __future__ import annotations

from typing import Annotated

import torch.nn.functional as F
from torch import Tensor

from losses.arguments import ClassificationLoss, check_not_negative, check_rows, full_precision
from losses.class_prior import log_prior as log_prior_of
from losses.distributed import gather


@full_precision
def logit_compensated_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    log_prior: Tensor,
    adjustment_strength: float = 1.0,
    unit_norm_logits: bool = False,
) -> Tensor:
    """Cross-entropy of logits + adjustment_strength * log P, averaged over samples.

    The prior is added in training only: inference takes the argmax of the raw logits.
    Source: SharpReCL, eq. 6; Menon et al. (ICLR 2021), eq. 10, with its strength.

    Args:
        logits: (B, C).
        labels: (B,) in [0, C).
        log_prior: (C,) log class frequencies of the training set; see :func:`losses.log_prior`.
        adjustment_strength: >= 0; 0 is plain cross-entropy.
        unit_norm_logits: the published code's variant: logits scaled to unit L2 norm first, prior log(P + 1e-9).
            It bounds the probability of rare classes from above, hence the loss from below.

    Returns:
        Scalar; 0 with zero gradient for an empty batch.

    Raises:
        ValueError: adjustment_strength < 0 or shapes that do not fit.
    """
    check_not_negative("adjustment_strength", adjustment_strength)
    check_rows("logits", logits, labels)
    if log_prior.shape != logits.shape[1:]:
        raise ValueError(f"log_prior must be ({logits.shape[1]},) for these logits, got {tuple(log_prior.shape)}")
    if unit_norm_logits:
        logits, log_prior = F.normalize(logits, dim=1), (log_prior.exp() + 1e-9).log()
    return _cross_entropy(logits + adjustment_strength * log_prior.to(logits), labels)


class LogitCompensatedCrossEntropy(ClassificationLoss):
    """Module form of :func:`logit_compensated_cross_entropy` over the global batch of all processes.

    The prior comes from ``class_counts`` at each call. Source: SharpReCL, eq. 6. Shapes: see `forward`.
    """

    needs_every_class = True

    def __init__(self, adjustment_strength: Annotated[float, ">= 0"] = 1.0, unit_norm_logits: bool = False) -> None:
        super().__init__()
        self.adjustment_strength = check_not_negative("adjustment_strength", adjustment_strength)
        self.unit_norm_logits = unit_norm_logits

    def forward(self, logits: Tensor, labels: Tensor, class_counts: Tensor) -> Tensor:
        """Logits (B, C), labels (B,), class_counts (C,) each >= 1 -> scalar loss."""
        logits, labels = gather(logits), gather(labels)
        return logit_compensated_cross_entropy(
            logits, labels, log_prior_of(class_counts), self.adjustment_strength, self.unit_norm_logits
        )


class CrossEntropy(ClassificationLoss):
    """Plain cross-entropy with the call signature of :class:`LogitCompensatedCrossEntropy`, over the global batch.

    Source: maximum likelihood, as every paper here has it. Shapes: see `forward`.
    """

    @full_precision
    def forward(self, logits: Tensor, labels: Tensor, class_counts: Tensor | None = None) -> Tensor:
        """Logits (B, C), labels (B,) -> scalar mean; class_counts is not used. 0 for an empty batch."""
        check_rows("logits", logits, labels)
        return _cross_entropy(gather(logits), gather(labels))


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits, labels) if len(logits) else logits.sum() * 0.0
