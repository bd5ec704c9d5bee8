"""Distribution alignment: a calibration of given logits, and the re-weighted cross-entropy that trains it."""

from __future__ import annotations

from typing import Annotated, get_args

from torch import Tensor

from losses.arguments import ClassificationLoss, check_choice, check_not_negative, full_precision
from losses.class_balanced import Average, class_balanced
from losses.class_prior import log_prior
from losses.distributed import gather


def generalised_weights(class_counts: Tensor, exponent: float = 1.2) -> Tensor:
    """w_c = C (1 / P_c)^exponent / sum_k (1 / P_k)^exponent: (C,) counts, each >= 1, to (C,) float64 that sum to C.

    Source: Zhang et al. (CVPR 2021), generalised re-weighting; the factor C as in the authors' code.

    Raises:
        ValueError: exponent < 0, or a class without rows.
    """
    check_not_negative("exponent", exponent)
    return len(class_counts) * (-exponent * log_prior(class_counts)).softmax(0)


@full_precision
def adaptive_calibration(logits: Tensor, confidence: Tensor, magnitude: Tensor, margin: Tensor) -> Tensor:
    """sigma (magnitude * f + margin) + (1 - sigma) f, with sigma the sigmoid of `confidence`.

    Source: Zhang et al. (CVPR 2021), adaptive calibration function.

    Args:
        logits: f, (N, C).
        confidence: (N, 1), before the sigmoid; one number for all classes of a row.
        magnitude, margin: (C,).

    Returns:
        (N, C).
    """
    return logits + confidence.sigmoid() * ((magnitude - 1) * logits + margin)


class GeneralisedReweightingLoss(ClassificationLoss):
    """Cross-entropy weighted by :func:`generalised_weights`, over the global batch of all processes.

    Source: Zhang et al. (CVPR 2021). `forward` takes logits (N, C), labels (N,) and class_counts (C,).

    Args:
        exponent: rho >= 0 (published: 1.2 on ImageNet-LT, chosen for each data set); 0 weighs all classes alike, 1 by
            the inverse of their size.
        average: over ``rows`` or over ``weights``.
    """

    needs_every_class = True

    def __init__(
        self,
        exponent: Annotated[float, ">= 0", "with method.representation_share<1"] = 1.2,
        average: Annotated[Average, "with method.representation_share<1"] = "weights",
    ) -> None:
        super().__init__()
        self.exponent = check_not_negative("exponent", exponent)
        self.average = check_choice("average", average, get_args(Average))

    def forward(self, logits: Tensor, labels: Tensor, class_counts: Tensor) -> Tensor:
        """Logits (N, C), labels (N,), class_counts (C,) each >= 1 -> scalar loss."""
        weights = generalised_weights(class_counts, self.exponent)
        return class_balanced(gather(logits), gather(labels), weights, average=self.average)
