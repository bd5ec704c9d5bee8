"""Unsupervised InfoNCE between two views of each text."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import torch
from torch import Tensor, nn

from losses.arguments import check_choice, check_tau, full_precision
from losses.supervised_contrastive import off_diagonal_log_sum_exp, supervised_contrastive

Batch = Literal["views", "originals"]


@full_precision
def info_nce(embeddings_a: Tensor, embeddings_b: Tensor, tau: float = 0.5, batch: Batch = "views") -> Tensor:
    """InfoNCE: each text's two views attract, all else repels.

    L_i = -1/|B| log( exp(z_i.z_i+ / tau) / sum_{k in B \\ i} exp(z_i.z_k / tau) ), summed over i.
    Source: SharpReCL, eq. 1, which leaves open what B is:

    - ``views``: both views, |B| = 2N, every view is an anchor. This is NT-Xent (Chen et al., ICML 2020, eq. 1), mean
      over 2N; the positive is in the denominator.
    - ``originals``: the N original texts, which are the anchors. The positive is not in the denominator, so the loss
      can be negative.

    Computed in blocks and in float32 under autocast, as :func:`supervised_contrastive`.

    Args:
        embeddings_a: (N, D) of the original texts, normally L2-normalised; used as they are.
        embeddings_b: (N, D) of the augmented texts in the same order.
        tau: temperature, > 0.
        batch: ``views`` or ``originals``.

    Returns:
        Scalar; 0 with zero gradient where there is nothing to repel.

    Raises:
        ValueError: tau <= 0, unknown batch, or shapes that do not fit.
    """
    check_tau(tau)
    check_choice("batch", batch, get_args(Batch))
    if embeddings_a.dim() != 2 or embeddings_a.shape != embeddings_b.shape:
        raise ValueError(f"both views must be (N, D), got {tuple(embeddings_a.shape)} and {tuple(embeddings_b.shape)}")
    size = len(embeddings_a)
    if batch == "views":
        # A view's only positive is the other view of its text: the supervised loss with texts as classes.
        text = torch.arange(size, device=embeddings_a.device).repeat(2)
        return supervised_contrastive(torch.cat((embeddings_a, embeddings_b)), text, tau)
    if size < 2:
        return (embeddings_a.sum() + embeddings_b.sum()) * 0.0
    weights = embeddings_a.new_full((size,), 1 / size)
    alignment = (embeddings_a * embeddings_b).sum() / (size * tau)
    return off_diagonal_log_sum_exp(embeddings_a, weights, tau) - alignment


class InfoNCELoss(nn.Module):
    """Module form of :func:`info_nce`.

    Source: SharpReCL, eq. 1. Shapes: see `forward`.
    """

    def __init__(self, tau: Annotated[float, "> 0"] = 0.5, batch: Batch = "views") -> None:
        super().__init__()
        self.tau = check_tau(tau)
        self.batch = check_choice("batch", batch, get_args(Batch))

    def forward(self, embeddings_a: Tensor, embeddings_b: Tensor) -> Tensor:
        """Two views (N, D) each -> scalar loss."""
        return info_nce(embeddings_a, embeddings_b, self.tau, self.batch)
