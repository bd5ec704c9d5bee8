"""Softmax probabilities in logarithms, where their powers have bounded gradients."""

from __future__ import annotations

import torch
from torch import Tensor


def log_softmax_and_complement(logits: Tensor) -> tuple[Tensor, Tensor]:
    """log p and log(1 - p) of the softmax, each (N, C), for logits (N, C).

    Exact where p is within rounding of 1: there 1 - p is summed from the other classes. A power (1 - p)^a written
    as exp(a log(1 - p)) then has a finite gradient for every a >= 0. Source: this house.
    """
    log_p = logits.log_softmax(dim=1)
    # Only the largest p can round to 1; for all others 1 - p >= 1/2. The finite fill keeps C = 1 free of NaN.
    top = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, logits.argmax(dim=1, keepdim=True), True)
    others = log_p.masked_fill(top, torch.finfo(log_p.dtype).min / 2).logsumexp(dim=1, keepdim=True)
    return log_p, torch.where(top, others, torch.log1p(-log_p.masked_fill(top, -1.0).exp()))
