"""Self-adjusting Dice loss."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import torch.nn.functional as F
from torch import Tensor

from losses.arguments import (
    ClassificationLoss,
    check_choice,
    check_not_negative,
    check_positive,
    check_rows,
    full_precision,
)
from losses.distributed import gather
from losses.probabilities import log_softmax_and_complement

Reading = Literal["per_sample", "batch"]


@full_precision
def dice(
    logits: Tensor,
    labels: Tensor,
    decay: float = 0.01,
    smoothing: float = 1.0,
    reading: Reading = "per_sample",
    squared_denominator: bool = True,
    absent_classes: bool = True,
) -> Tensor:
    """Sum over classes of 1 - (2 sum q y + s) / (sum q + sum y + s), with q = (1 - p)^decay p, p the softmax.

    Source: Li et al. (ACL 2020), self-adjusting DSC. ``batch`` takes the sums over the rows of the batch;
    ``per_sample`` is the Dice coefficient of each row alone, averaged over rows, as in the authors' code with its
    squared denominator.

    Args:
        logits: (N, C).
        labels: (N,) in [0, C); y is their one-hot form.
        decay: >= 0, the paper's alpha; 0 is the plain soft Dice loss.
        smoothing: s > 0, the paper's gamma.
        reading: ``per_sample`` or ``batch``.
        squared_denominator: sum q^2 + sum y^2 in place of sum q + sum y.
        absent_classes: of ``batch``: whether classes without a row in the batch enter, which only lowers their p.

    Returns:
        Scalar in [0, C); 0 with zero gradient for an empty batch.

    Raises:
        ValueError: decay < 0, smoothing <= 0, unknown reading or shapes that do not fit.
    """
    _check(decay, smoothing, reading)
    check_rows("logits", logits, labels)
    if not len(labels):
        return logits.sum() * 0.0
    log_p, log_rest = log_softmax_and_complement(logits)
    q, y = (decay * log_rest + log_p).exp(), F.one_hot(labels, logits.shape[1]).to(logits.dtype)
    overlap, total = q * y, (q**2 if squared_denominator else q) + y
    if reading == "batch":
        overlap, total = overlap.sum(dim=0, keepdim=True), total.sum(dim=0, keepdim=True)
    loss = 1 - (2 * overlap + smoothing) / (total + smoothing)
    if reading == "batch" and not absent_classes:
        loss = loss * y.amax(dim=0)
    return loss.sum(dim=1).mean()


class DiceLoss(ClassificationLoss):
    """Module form of :func:`dice`, over the global batch of all processes.

    Source: Li et al. (ACL 2020). Shapes: see `forward`.
    """

    def __init__(
        self,
        decay: Annotated[float, ">= 0"] = 0.01,
        smoothing: Annotated[float, "> 0"] = 1.0,
        reading: Reading = "per_sample",
        squared_denominator: bool = True,
        absent_classes: Annotated[bool, "with reading=batch"] = True,
    ) -> None:
        super().__init__()
        _check(decay, smoothing, reading)
        self.decay, self.smoothing, self.reading = decay, smoothing, reading
        self.squared_denominator, self.absent_classes = squared_denominator, absent_classes

    def forward(self, logits: Tensor, labels: Tensor, class_counts: Tensor | None = None) -> Tensor:
        """Logits (N, C), labels (N,) -> scalar; class_counts is not used."""
        logits, labels = gather(logits), gather(labels)
        return dice(
            logits, labels, self.decay, self.smoothing, self.reading, self.squared_denominator, self.absent_classes
        )


def _check(decay: float, smoothing: float, reading: Reading) -> None:
    check_not_negative("decay", decay)
    check_positive("smoothing", smoothing)
    check_choice("reading", reading, get_args(Reading))
