"""Label-aware smoothing: the more rows a class has, the more its target is smoothed."""

from __future__ import annotations

import math
from typing import Annotated

from torch import Tensor

from losses.arguments import ClassificationLoss, check_rows, full_precision
from losses.class_prior import log_prior
from losses.distributed import gather


def class_smoothing(class_counts: Tensor, head_smoothing: float = 0.3, tail_smoothing: float = 0.0) -> Tensor:
    """eps_c = tail + (head - tail) sin(pi/2 (n_c - n_min) / (n_max - n_min)), (C,) float64 in [0, 1).

    Source: Zhong et al. (CVPR 2021), the concave form. Where all classes are of one size, each is as large as the
    largest.

    Args:
        class_counts: (C,) training rows of each class, each >= 1.
        head_smoothing: of the largest class, in [tail_smoothing, 1).
        tail_smoothing: of the smallest class, in [0, head_smoothing].

    Raises:
        ValueError: smoothing out of range, or a class without rows.
    """
    _check_smoothing(head_smoothing, tail_smoothing)
    counts = log_prior(class_counts).exp()  # shares serve as well as counts, and every count is checked
    spread = counts.max() - counts.min()
    place = (counts - counts.min()) / spread if spread > 0 else counts / counts
    return tail_smoothing + (head_smoothing - tail_smoothing) * (place * math.pi / 2).sin()


@full_precision
def label_aware_smoothing(logits: Tensor, labels: Tensor, smoothing: Tensor) -> Tensor:
    """-(1 - eps_y) log p_y - eps_y / C sum_c log p_c, averaged over rows.

    Source: Zhong et al. (CVPR 2021), as in the authors' code, whose mean over classes has the label in it.

    Args:
        logits: (N, C).
        labels: (N,) in [0, C).
        smoothing: (C,) in [0, 1), see :func:`class_smoothing`.

    Returns:
        Scalar; 0 with zero gradient for an empty batch.

    Raises:
        ValueError: shapes that do not fit.
    """
    check_rows("logits", logits, labels)
    if smoothing.shape != logits.shape[1:]:
        raise ValueError(f"smoothing must be ({logits.shape[1]},) for these logits, got {tuple(smoothing.shape)}")
    if not len(logits):
        return logits.sum() * 0.0
    log_p = logits.log_softmax(1)
    of_label = log_p.gather(1, labels[:, None]).squeeze(1)
    return -of_label.lerp(log_p.mean(1), smoothing.to(logits)[labels]).mean()


class LabelAwareSmoothingLoss(ClassificationLoss):
    """Module form of :func:`label_aware_smoothing`, over the global batch of all processes.

    Source: Zhong et al. (CVPR 2021). `forward` takes logits (N, C), labels (N,) and class_counts (C,).

    Args:
        head_smoothing: of the largest class, in [tail_smoothing, 1).
        tail_smoothing: of the smallest class, in [0, head_smoothing].
    """

    needs_every_class = True

    def __init__(
        self,
        head_smoothing: Annotated[float, ">= 0", "< 1", "with method.representation_share<1"] = 0.3,
        tail_smoothing: Annotated[float, ">= 0", "< 1", "with method.representation_share<1"] = 0.0,
    ) -> None:
        super().__init__()
        _check_smoothing(head_smoothing, tail_smoothing)
        self.head_smoothing, self.tail_smoothing = head_smoothing, tail_smoothing

    def forward(self, logits: Tensor, labels: Tensor, class_counts: Tensor) -> Tensor:
        """Logits (N, C), labels (N,), class_counts (C,) each >= 1 -> scalar loss."""
        smoothing = class_smoothing(class_counts, self.head_smoothing, self.tail_smoothing)
        return label_aware_smoothing(gather(logits), gather(labels), smoothing)


def _check_smoothing(head: float, tail: float) -> None:
    if not 0 <= tail <= head < 1:
        raise ValueError(f"smoothing must be 0 <= tail_smoothing <= head_smoothing < 1, got {tail} and {head}")
