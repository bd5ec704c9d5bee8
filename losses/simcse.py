"""SimCSE: each text's second view among the second views of the batch."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional

from losses.arguments import check_tau, full_precision


class SimCSELoss(nn.Module):
    """One-directional contrast of two views, (N, D) each.

    L = -1/N sum_i log( exp(z_i.z'_i / tau) / sum_j exp(z_i.z'_j / tau) ).
    Source: Gao et al. (EMNLP 2021), eq. 4. First views are anchors, second views keys; NT-Xent (:class:`InfoNCELoss`)
    has both as anchors and both as keys.

    Args:
        tau: temperature, > 0 (published: 0.05).

    Raises:
        ValueError: tau <= 0.
    """

    def __init__(self, tau: Annotated[float, "> 0"] = 0.05) -> None:
        super().__init__()
        self.tau = check_tau(tau)

    @full_precision
    def forward(self, embeddings_a: Tensor, embeddings_b: Tensor) -> Tensor:
        """The loss of a batch; builds one tensor of N x N.

        Args:
            embeddings_a: (N, D) first views, L2-normalised.
            embeddings_b: (N, D) second views in the same order.

        Returns:
            Scalar >= 0; 0 with zero gradient for fewer than two texts.

        Raises:
            ValueError: shapes that do not fit.
        """
        if embeddings_a.dim() != 2 or embeddings_a.shape != embeddings_b.shape:
            shapes = f"{tuple(embeddings_a.shape)} and {tuple(embeddings_b.shape)}"
            raise ValueError(f"both views must be (N, D), got {shapes}")
        if len(embeddings_a) < 2:
            return (embeddings_a.sum() + embeddings_b.sum()) * 0.0
        targets = torch.arange(len(embeddings_a), device=embeddings_a.device)
        return functional.cross_entropy(embeddings_a @ embeddings_b.T / self.tau, targets)
