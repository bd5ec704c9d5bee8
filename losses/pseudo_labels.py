"""Classification where most labels are guesses: cross-entropy of true ones, a bounded or a soft loss of the others."""

from __future__ import annotations

from typing import Annotated

import torch.nn.functional as F
from torch import Tensor, nn

from losses.arguments import check_positive, check_rows, full_precision
from losses.distributed import gather


class PseudoLabelLoss(nn.Module):
    """Weighted mean over rows of -log p_y where the label is true, and of (1 - p_y^q) / q where it is a guess.

    Source: generalised cross-entropy, Zhang and Sabuncu (NeurIPS 2018), eq. 6: between cross-entropy (q to 0) and the
    mean absolute error (q = 1), which a wrong label cannot pull far. True labels weigh ``label_weight`` rows.
    Over the global batch of all processes. Shapes: see `forward`.

    Args:
        q: 0 < q <= 1.
        label_weight: > 0, of a row with a true label; one of a guess weighs 1.
    """

    def __init__(
        self,
        q: Annotated[float, "> 0", "<= 1", "with encoder.train=full|top_layers"] = 0.7,
        label_weight: Annotated[float, "> 0", "with encoder.train=full|top_layers"] = 5.0,
    ) -> None:
        super().__init__()
        if not 0 < q <= 1:
            raise ValueError(f"q must be in (0, 1], got {q}")
        self.q, self.label_weight = q, check_positive("label_weight", label_weight)

    @full_precision
    def forward(self, logits: Tensor, labels: Tensor, is_true: Tensor) -> Tensor:
        """Logits (B, C), labels (B,) and whether each is true (B,) -> scalar; 0 for an empty batch."""
        check_rows("logits", logits, labels)
        logits, labels, is_true = gather(logits), gather(labels), gather(is_true)
        if not len(logits):
            return logits.sum() * 0.0
        cross_entropy = F.cross_entropy(logits, labels, reduction="none")
        bounded = -(-self.q * cross_entropy).expm1() / self.q
        weights = 1 + (self.label_weight - 1) * is_true.to(logits)
        return (weights * cross_entropy.where(is_true, bounded)).sum() / weights.sum()


class SoftLabelLoss(nn.Module):
    """Weighted mean over rows of the mean over labels of -[t log s(f) + (1 - t) log(1 - s(f))], s the sigmoid.

    t is 0 or 1 where the labels of a row are true, a probability where they are guesses. Rows with true labels weigh
    ``label_weight`` rows. Over the global batch of all processes. Shapes: see `forward`.
    Source: distillation, Hinton, Vinyals and Dean (2015), at temperature 1, of each label by itself.

    Args:
        label_weight: > 0, of a row with true labels; one of guesses weighs 1.
    """

    def __init__(self, label_weight: Annotated[float, "> 0"] = 5.0) -> None:
        super().__init__()
        self.label_weight = check_positive("label_weight", label_weight)

    @full_precision
    def forward(self, logits: Tensor, targets: Tensor, is_true: Tensor) -> Tensor:
        """Logits (B, C), targets (B, C) in [0, 1] and whether a row's are true (B,) -> scalar; 0 for an empty batch.

        Raises:
            ValueError: logits and targets of other shapes.
        """
        if logits.shape != targets.shape or logits.dim() != 2:
            shapes = f"{tuple(logits.shape)} and {tuple(targets.shape)}"
            raise ValueError(f"logits and targets must both be (B, C), got {shapes}")
        logits, targets, is_true = gather(logits), gather(targets.to(logits.dtype)), gather(is_true)
        if not len(logits):
            return logits.sum() * 0.0
        of_rows = F.binary_cross_entropy_with_logits(logits, targets, reduction="none").mean(1)
        weights = 1 + (self.label_weight - 1) * is_true.to(logits)
        return (weights * of_rows).sum() / weights.sum()
