"""Label-distribution-aware margin loss."""

from __future__ import annotations

from typing import Annotated, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from losses.arguments import check_choice, check_not_negative, check_positive, check_rows, check_share, full_precision
from losses.class_balanced import Average, class_balanced_weights, weighted_mean
from losses.class_prior import checked_counts
from losses.distributed import gather


def class_margins(class_counts: Tensor, max_margin: float = 0.5) -> Tensor:
    """Delta_c = max_margin (n_min / n_c)^(1/4): (C,) counts, each >= 1, to (C,) float64, max_margin for the rarest.

    Source: Cao et al. (NeurIPS 2019), the margins n_c^(-1/4), scaled as in the authors' code.
    """
    counts = checked_counts(class_counts)
    return max_margin * (counts.min() / counts) ** 0.25


@full_precision
def ldam(
    cosines: Tensor,
    labels: Tensor,
    margins: Tensor,
    scale: float = 30.0,
    class_weights: Tensor | None = None,
    average: Average = "weights",
) -> Tensor:
    """Weighted cross-entropy of scale * (cosine - margin of the label, at the label).

    Source: Cao et al. (NeurIPS 2019), LDAM loss; its authors' code takes cosines of unit features and unit weights and
    averages over the weights.

    Args:
        cosines: (N, C) in [-1, 1]: on scores of any size the margins would mean nothing.
        labels: (N,) in [0, C).
        margins: (C,), see :func:`class_margins`.
        scale: > 0.
        class_weights: (C,) > 0, or None for none.
        average: over ``rows`` or over ``weights``.

    Returns:
        Scalar; 0 with zero gradient for an empty batch.

    Raises:
        ValueError: scale <= 0 or shapes that do not fit.
    """
    check_positive("scale", scale)
    check_rows("cosines", cosines, labels)
    if margins.shape != cosines.shape[1:]:
        raise ValueError(f"margins must be ({cosines.shape[1]},) for these cosines, got {tuple(margins.shape)}")
    shifted = cosines - F.one_hot(labels, cosines.shape[1]) * margins.to(cosines)
    values = F.cross_entropy(scale * shifted, labels, reduction="none")
    weights = torch.ones_like(margins) if class_weights is None else class_weights
    return weighted_mean(values, weights.to(cosines)[labels], average)


class LDAMLoss(nn.Module):
    """Module form of :func:`ldam`, with weights by effective number where asked for (deferred re-weighting).

    Source: Cao et al. (NeurIPS 2019). Shapes: see `forward`.

    Args:
        max_margin: >= 0, of the rarest class.
        scale: > 0, of the cosines.
        effective_number_beta: in [0, 1), of the re-weighting.
        average: over ``rows`` or over ``weights``, of the global batch of all processes.
    """

    needs_every_class = True

    def __init__(
        self,
        max_margin: Annotated[float, ">= 0"] = 0.5,
        scale: Annotated[float, "> 0"] = 30.0,
        effective_number_beta: Annotated[float, ">= 0", "< 1", "with method.reweight_from<1"] = 0.9999,
        average: Annotated[Average, "with method.reweight_from<1"] = "weights",
    ) -> None:
        super().__init__()
        self.max_margin = check_not_negative("max_margin", max_margin)
        self.scale = check_positive("scale", scale)
        self.effective_number_beta = check_share("effective_number_beta", effective_number_beta, may_be_1=False)
        self.average = check_choice("average", average, get_args(Average))

    def forward(self, cosines: Tensor, labels: Tensor, class_counts: Tensor, reweight: bool = False) -> Tensor:
        """Cosines (N, C), labels (N,), class_counts (C,) each >= 1 -> scalar loss."""
        cosines, labels = gather(cosines), gather(labels)
        weights = None
        if reweight:
            weights = class_balanced_weights(class_counts, self.effective_number_beta)
        return ldam(cosines, labels, class_margins(class_counts, self.max_margin), self.scale, weights, self.average)
