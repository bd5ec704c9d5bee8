"""Log-sum-exp over part of the columns."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_log_sum_exp(logits: Tensor, mask: Tensor) -> Tensor:
    """Row-wise over the columns where ``mask`` holds, (N, M) -> (N,); a row without any gives -inf and no gradient."""
    some = mask.any(1)
    masked = logits.masked_fill(~mask, -torch.inf).masked_fill(~some[:, None], 0.0)
    return masked.logsumexp(1).masked_fill(~some, -torch.inf)
