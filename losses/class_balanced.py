"""Losses weighted by the effective number of samples of a class, and the two ways to average them."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import torch.nn.functional as F
from torch import Tensor

from losses.arguments import (
    ClassificationLoss,
    check_choice,
    check_not_negative,
    check_rows,
    check_share,
    full_precision,
)
from losses.class_prior import effective_number_weights
from losses.distributed import gather
from losses.focal import focal_per_sample

Base = Literal["cross_entropy", "focal", "sigmoid"]
Average = Literal["rows", "weights"]


def class_balanced_weights(class_counts: Tensor, beta: float = 0.9999) -> Tensor:
    """Weights proportional to (1 - beta) / (1 - beta^n_c) that sum to C: (C,) counts, each >= 1, to (C,) float64.

    Source: Cui et al. (CVPR 2019), the effective number of samples, scaled as there so that the weights sum to C.

    Raises:
        ValueError: beta outside [0, 1), or a class without samples.
    """
    weights = effective_number_weights(class_counts, beta)
    return weights * len(weights) / weights.sum()


def weighted_mean(values: Tensor, weights: Tensor, average: Average) -> Tensor:
    """sum w v over the number of rows (``rows``) or over sum w (``weights``, as torch's weighted cross-entropy).

    ``values`` and ``weights`` > 0 are (N,); 0 with zero gradient for an empty batch. Source: ``rows`` Cui et al. (CVPR
    2019), ``weights`` the published code of LDAM-DRW (Cao et al., NeurIPS 2019).

    Raises:
        ValueError: unknown average.
    """
    check_choice("average", average, get_args(Average))
    if not len(values):
        return values.sum() * 0.0
    return (weights * values).sum() / (weights.sum() if average == "weights" else len(values))


@full_precision
def class_balanced(
    logits: Tensor,
    labels: Tensor,
    class_weights: Tensor,
    base: Base = "cross_entropy",
    gamma: float = 2.0,
    average: Average = "rows",
) -> Tensor:
    """A loss a row, times the weight of its class, averaged.

    Source: Cui et al. (CVPR 2019), class-balanced softmax, focal and sigmoid loss.

    Args:
        logits: (N, C).
        labels: (N,) in [0, C).
        class_weights: (C,), see :func:`class_balanced_weights`.
        base: ``cross_entropy``; ``focal``; ``sigmoid``, the sum over classes of one-against-rest cross-entropies.
        gamma: of ``focal``, >= 0.
        average: over ``rows`` (a batch of rare rows weighs more) or over ``weights`` (it weighs as any other).

    Returns:
        Scalar; 0 with zero gradient for an empty batch.

    Raises:
        ValueError: unknown base or average, gamma < 0 or shapes that do not fit.
    """
    check_choice("base", base, get_args(Base))
    check_rows("logits", logits, labels)
    if class_weights.shape != logits.shape[1:]:
        raise ValueError(
            f"class_weights must be ({logits.shape[1]},) for these logits, got {tuple(class_weights.shape)}"
        )
    if base == "cross_entropy":
        values = F.cross_entropy(logits, labels, reduction="none")
    elif base == "focal":
        values = focal_per_sample(logits, labels, gamma)
    else:
        target = F.one_hot(labels, logits.shape[1]).to(logits.dtype)
        values = F.binary_cross_entropy_with_logits(logits, target, reduction="none").sum(dim=1)
    return weighted_mean(values, class_weights.to(logits)[labels], average)


class ClassBalancedLoss(ClassificationLoss):
    """Module form of :func:`class_balanced`, over the global batch of all processes.

    Source: Cui et al. (CVPR 2019). `forward` takes logits (N, C), labels (N,) and class_counts (C,).

    Args:
        effective_number_beta: in [0, 1); 0 weighs all classes alike, towards 1 the weight tends to 1 / n_c.
        base: ``cross_entropy``; ``focal``; ``sigmoid``, the sum over classes of one-against-rest cross-entropies.
        gamma: of ``focal``, >= 0.
        average: over ``rows`` (a batch of rare rows weighs more) or over ``weights`` (it weighs as any other).
    """

    needs_every_class = True

    def __init__(
        self,
        effective_number_beta: Annotated[float, ">= 0", "< 1"] = 0.9999,
        base: Base = "cross_entropy",
        gamma: Annotated[float, ">= 0", "with base=focal"] = 2.0,
        average: Average = "rows",
    ) -> None:
        super().__init__()
        check_share("effective_number_beta", effective_number_beta, may_be_1=False)
        self.effective_number_beta, self.gamma = effective_number_beta, check_not_negative("gamma", gamma)
        self.base = check_choice("base", base, get_args(Base))
        self.average = check_choice("average", average, get_args(Average))

    def forward(self, logits: Tensor, labels: Tensor, class_counts: Tensor) -> Tensor:
        """Logits (N, C), labels (N,), class_counts (C,) each >= 1 -> scalar loss."""
        logits, labels = gather(logits), gather(labels)
        weights = class_balanced_weights(class_counts, self.effective_number_beta)
        return class_balanced(logits, labels, weights, self.base, self.gamma, self.average)
