"""How a contrastive loss pulls at each pair of a batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

Extend = Callable[[Tensor], Tensor]


def pair_gradients(loss: Callable[[Tensor, Extend], Tensor], embeddings: Tensor) -> Tensor:
    """dL/d(z_i.z_k) of every pair, for any loss that sees the embeddings through their similarities alone.

    Below 0 the loss draws the pair together, above 0 apart. A pair has one similarity, so what i as an anchor does to
    k and what k as an anchor does to i is added up; ACL's own ``pair_gradients`` keeps the two apart.
    Source: the conflicts of ACL, eq. 7, without a formula for each loss. Row i gets B further coordinates, e_i +
    shift_i, which change z_i.z_k by shift_i[k] + shift_k[i]; the gradient is taken at shift = 0.

    Args:
        loss: of embeddings (B, D + B) and a function that gives other vectors (M, D) the same width.
        embeddings: (B, D).

    Returns:
        (B, B), symmetric; the diagonal means nothing.
    """
    size = len(embeddings)
    shift = embeddings.new_zeros(size, size, requires_grad=True)
    with torch.enable_grad():
        identity = torch.eye(size, dtype=embeddings.dtype, device=embeddings.device)
        value = loss(torch.cat([embeddings.detach(), identity + shift], dim=1), partial(functional.pad, pad=(0, size)))
        (gradient,) = torch.autograd.grad(value, shift, allow_unused=True)
    return torch.zeros_like(identity) if gradient is None else gradient
