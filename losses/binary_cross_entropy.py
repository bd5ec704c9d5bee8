"""Cross-entropy of each label by itself."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from losses.arguments import full_precision
from losses.distributed import gather


class BinaryCrossEntropy(nn.Module):
    """-(1/BC) sum_i sum_c [y_ic log s(f_ic) + (1 - y_ic) log(1 - s(f_ic))], s the sigmoid: L_BCE of kNN-MLTC.

    The paper does not say how its sum over rows and labels is scaled; here it is the mean, over the global batch.
    Source: Su, Wang and Dai (ACL 2022). `forward` takes logits (B, C) and labels (B, C).
    """

    @full_precision
    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Scalar loss of logits (B, C) and labels (B, C) of 0 and 1; 0 of an empty batch.

        Raises:
            ValueError: shapes that do not fit.
        """
        if logits.shape != labels.shape or logits.dim() != 2:
            shapes = f"{tuple(logits.shape)} and {tuple(labels.shape)}"
            raise ValueError(f"logits and labels must both be (B, C), got {shapes}")
        logits, labels = gather(logits), gather(labels.to(logits.dtype))
        return functional.binary_cross_entropy_with_logits(logits, labels) if len(logits) else logits.sum()
