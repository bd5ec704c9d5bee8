"""Log-sum-exp over part of the columns."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_log_sum_exp(logits: Tensor, mask: Tensor) -> Tensor:
    """Row-wise over the columns where ``mask`` holds, (N, M) -> (N,); a row without any gives -inf and no gradient.

    Source: this house.
    """
    some = mask.any(1)
    masked = logits.masked_fill(~mask, -torch.inf).masked_fill(~some[:, None], 0.0)
    return masked.logsumexp(1).masked_fill(~some, -torch.inf)


def weighted_log_sum_exp(logits: Tensor, weights: Tensor) -> Tensor:
    """Row-wise log sum_j w_j e^{x_j} for w >= 0, (N, M) each -> (N,); a row of zeros gives -inf and no gradient.

    An entry of weight 0 gets no gradient, in x or in w, so that log 0 is never taken. Source: this house.
    """
    some = weights > 0
    shown = logits.masked_fill(~some, -torch.inf)
    largest = shown.detach().amax(1, keepdim=True).nan_to_num(neginf=0.0)
    total = (weights * (shown - largest).exp()).sum(1)
    none = ~some.any(1)
    return (total.masked_fill(none, 1.0).log() + largest.squeeze(1)).masked_fill(none, -torch.inf)
