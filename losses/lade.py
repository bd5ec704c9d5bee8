"""LADE: logits whose differences estimate the likelihood, disentangled from the class distribution of training."""

from __future__ import annotations

import math
from typing import Annotated, Literal, get_args

import torch
from torch import Tensor

from losses.arguments import ClassificationLoss, check_choice, check_not_negative, check_rows, full_precision
from losses.class_prior import log_prior
from losses.distributed import gather
from losses.logit_compensated import logit_compensated_cross_entropy

Importance = Literal["of_rows", "of_columns"]


@full_precision
def lade_regulariser(
    logits: Tensor, labels: Tensor, class_counts: Tensor, square_weight: float = 0.1, importance: Importance = "of_rows"
) -> Tensor:
    """-sum_c P_c (a_c - b_c - w b_c^2): how far logits are from log p_u(x|c) / p_u(x), regularised Donsker-Varadhan.

    a_c is the mean of f_c over the rows of class c, 0 for a class that the batch lacks; b_c = log( 1/N sum_i
    p_u(y_i) / P_{y_i} e^{f_c(x_i)} ), p_u(y) = 1/C.
    Source: Hong et al. (CVPR 2021), the regulariser of LADE.

    Args:
        logits: (N, C), without the prior.
        labels: (N,) in [0, C).
        class_counts: (C,) training rows of each class, each >= 1.
        square_weight: w (lambda of the paper), >= 0.
        importance: of a row its own class's p_u / P, as printed (`of_rows`), or that of the column c (`of_columns`),
            as in the published code, a constant for each class.

    Returns:
        Scalar; 0 with zero gradient for an empty batch.

    Raises:
        ValueError: an argument out of range, or shapes that do not fit.
    """
    check_not_negative("square_weight", square_weight)
    check_choice("importance", importance, get_args(Importance))
    check_rows("logits", logits, labels)
    if class_counts.shape != logits.shape[1:]:
        raise ValueError(f"class_counts must be ({logits.shape[1]},), got {tuple(class_counts.shape)}")
    if not len(logits):
        return logits.sum() * 0.0
    log_p = log_prior(class_counts).to(logits)
    log_importance = -math.log(len(log_p)) - log_p
    shift = log_importance[labels, None] if importance == "of_rows" else log_importance
    spread = (logits + shift).logsumexp(0) - math.log(len(logits))
    number = labels.bincount(minlength=len(log_p))
    own = torch.zeros_like(log_p).index_add(0, labels, logits.gather(1, labels[:, None]).squeeze(1))
    return -(log_p.exp() * (own / number.clamp_min(1) - spread - square_weight * spread.square())).sum()


class LADELoss(ClassificationLoss):
    """Cross-entropy of logits + log prior, plus `regulariser_weight` times :func:`lade_regulariser`.

    Over the global batch of all processes. Source: Hong et al. (CVPR 2021), the whole loss. Shapes: see `forward`.

    Args:
        regulariser_weight: alpha of the paper, >= 0.
        square_weight: lambda of the paper, >= 0.
        importance: `of_rows` as printed, `of_columns` as in the published code.

    Raises:
        ValueError: an argument out of range.
    """

    needs_every_class = True

    def __init__(
        self,
        regulariser_weight: Annotated[float, ">= 0"] = 0.1,
        square_weight: Annotated[float, ">= 0", "with regulariser_weight>0"] = 0.1,
        importance: Annotated[Importance, "with regulariser_weight>0"] = "of_rows",
    ) -> None:
        super().__init__()
        self.regulariser_weight = check_not_negative("regulariser_weight", regulariser_weight)
        self.square_weight = check_not_negative("square_weight", square_weight)
        self.importance = check_choice("importance", importance, get_args(Importance))

    def forward(self, logits: Tensor, labels: Tensor, class_counts: Tensor) -> Tensor:
        """Logits (N, C), labels (N,), class_counts (C,) each >= 1 -> scalar loss."""
        logits, labels = gather(logits), gather(labels)
        classification = logit_compensated_cross_entropy(logits, labels, log_prior(class_counts))
        regulariser = lade_regulariser(logits, labels, class_counts, self.square_weight, self.importance)
        return classification + self.regulariser_weight * regulariser
