"""Supervised contrastive loss in blocks: memory grows with B, not with B squared."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from losses.arguments import check_tau, full_precision
from losses.shared_labels import Positives, check_labelled_rows, check_positives, same_label

# Tiles and row blocks that stay within a CPU's cache; below SYMMETRIC_FROM rows whole rows are as fast.
TILE = 512
SYMMETRIC_FROM = 1024
# Logits within +-40 of 0 span 80: exp of the difference is still a normal float32 (exp(-87) is the smallest).
SAFE_LOGIT = 40.0


@full_precision
def supervised_contrastive(
    embeddings: Tensor, labels: Tensor, tau: float = 0.3, positives: Positives = "any_label"
) -> Tensor:
    """Supervised contrastive loss L_out, averaged over the anchors that have a positive.

    L_i = -1/|P_i| sum_{p in P_i} log( exp(z_i.z_p / tau) / sum_{k != i} exp(z_i.z_k / tau) ), P_i = same label, not i.
    Source: Khosla et al. (NeurIPS 2020), eq. 2; SharpReCL, eq. 2. An anchor alone in its class, for which the
    formula is undefined, is left out of the mean but stays in the denominators of the others.

    Time O(B^2 D), memory O(B D): blocks of the similarity matrix are made, used for loss and gradient, and
    overwritten. First derivatives only. Computed in float32 under autocast. Several labels take a mask of B x B beside.

    Args:
        embeddings: (B, D), normally L2-normalised; used as they are.
        labels: (B,) integers of any value, or (B, C) of 0 and 1 where texts have several labels.
        tau: temperature, > 0.
        positives: of several labels, see `losses.shared_labels.same_label`.

    Returns:
        Scalar >= 0 up to rounding; 0 with zero gradient where no anchor has a positive.

    Raises:
        ValueError: tau <= 0 or shapes that do not fit.
    """
    check_tau(tau)
    check_labelled_rows(embeddings, labels)
    positives = check_positives(positives)
    if len(embeddings) < 2:
        return embeddings.sum() * 0.0
    if labels.dim() == 2:
        return _over_pairs(embeddings, same_label(labels, positives).fill_diagonal_(False), tau)
    _, group, size = labels.unique(return_inverse=True, return_counts=True)
    size = size.to(embeddings.dtype)
    has_positive = (size > 1).to(embeddings.dtype)
    num_anchors = (size * has_positive).sum().clamp_min(1)

    # Over a class of n members, sum_i 1/(n-1) sum_{p != i} z_i.z_p = (|sum of z|^2 - sum of |z|^2) / (n - 1).
    class_sum = embeddings.new_zeros(len(size), embeddings.shape[1]).index_add(0, group, embeddings)
    square_sum = embeddings.new_zeros(len(size)).index_add(0, group, embeddings.square().sum(1))
    pairs = class_sum.square().sum(1) - square_sum
    mean_positive = (pairs * has_positive / (size - 1).clamp_min(1)).sum() / (num_anchors * tau)

    weights = (has_positive / num_anchors)[group]
    return off_diagonal_log_sum_exp(embeddings, weights, tau) - mean_positive


def _over_pairs(embeddings: Tensor, positive: Tensor, tau: float) -> Tensor:
    """The loss where pairs attract as a mask (B, B) says."""
    number = positive.sum(1)
    weights = (number > 0).to(embeddings.dtype) / (number > 0).sum().clamp_min(1)
    shares = positive * (weights / number.clamp_min(1))[:, None]
    return off_diagonal_log_sum_exp(embeddings, weights, tau) - (shares @ embeddings * embeddings).sum() / tau


class SupervisedContrastiveLoss(nn.Module):
    """Module form of :func:`supervised_contrastive`.

    Source: Khosla et al. (NeurIPS 2020), eq. 2. Shapes: see `forward`.
    """

    def __init__(self, tau: Annotated[float, "> 0"] = 0.3, positives: Positives = "any_label") -> None:
        super().__init__()
        self.tau = check_tau(tau)
        self.positives = check_positives(positives)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Embeddings (B, D), labels (B,) or (B, C) -> scalar loss."""
        return supervised_contrastive(embeddings, labels, self.tau, self.positives)


def off_diagonal_log_sum_exp(embeddings: Tensor, weights: Tensor, tau: float) -> Tensor:
    """sum_i w_i log sum_{k != i} exp(z_i.z_k / tau), in blocks. Source: this house.

    Args:
        embeddings: (B, D) with B >= 2, float32 or float64.
        weights: (B,) without gradient.
        tau: temperature, > 0.

    Returns:
        Scalar. Its gradient is computed beside it, so that no graph over the blocks is kept.
    """
    return _OffDiagonalLogSumExp.apply(embeddings, weights, tau, torch.is_grad_enabled() and embeddings.requires_grad)


class _OffDiagonalLogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, embeddings: Tensor, weights: Tensor, tau: float, with_grad: bool) -> Tensor:
        embeddings = embeddings.detach()
        bound = embeddings.square().sum(1).amax() / tau
        symmetric = len(embeddings) >= SYMMETRIC_FROM and bound <= SAFE_LOGIT
        if symmetric:
            value, grad = _by_symmetric_tiles(embeddings, weights, tau, bound, with_grad)
        else:
            value, grad = _by_rows(embeddings, weights, tau, with_grad)
        ctx.grad = grad
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor):
        return ctx.grad * grad_output, None, None, None


def _by_rows(z: Tensor, weights: Tensor, tau: float, with_grad: bool) -> tuple[Tensor, Tensor | None]:
    """Blocks of whole rows, each shifted by its own maximum: right for logits of any size."""
    scaled = z / tau
    value = z.new_zeros(())
    grad = torch.zeros_like(z) if with_grad else None
    buffer = z.new_empty(min(TILE, len(z)), len(z))
    for start in range(0, len(z), TILE):
        rows = slice(start, start + TILE)
        block = torch.mm(scaled[rows], z.T, out=buffer[: len(z) - start])
        block.diagonal(start).fill_(-torch.inf)
        largest = block.amax(1, keepdim=True)
        total = block.sub_(largest).exp_().sum(1, keepdim=True)
        value += weights[rows] @ (largest + total.log()).squeeze(1)
        if grad is not None:
            # d/dS_ik = f_i exp(S_ik) with f_i = w_i / total_i, and S_ik moves both z_i and z_k.
            factor = weights[rows, None] / (total * tau)
            grad[rows] += factor * (block @ z)
            grad.addmm_(block.T, factor * z[rows])
    return value, grad


def _by_symmetric_tiles(
    z: Tensor, weights: Tensor, tau: float, bound: Tensor, with_grad: bool
) -> tuple[Tensor, Tensor | None]:
    """Tiles on and above the diagonal only: E = exp(S - bound) is symmetric, so half of it serves all rows.

    Two thirds of the multiplications of :func:`_by_rows`; needs one shift for all rows, hence bounded logits.
    """
    total = z.new_zeros(len(z))
    for rows, columns, tile in _upper_tiles(z, tau, bound):
        total[rows] += tile.sum(1)
        if columns != rows:
            total[columns] += tile.sum(0)
    value = weights @ (total.log() + bound)
    if not with_grad:
        return value, None

    grad = torch.zeros_like(z)
    factor = weights / (total * tau)
    for rows, columns, tile in _upper_tiles(z, tau, bound):
        # E_ij enters row i with f_i and row j with f_j; the sum is symmetric again.
        tile.mul_(factor[rows, None] + factor[columns])
        grad[rows].addmm_(tile, z[columns])
        if columns != rows:
            grad[columns].addmm_(tile.T, z[rows])
    return value, grad


def _upper_tiles(z: Tensor, tau: float, bound: Tensor):
    """Yields (rows, columns, exp(z_rows z_columns^T / tau - bound) with a zero diagonal); the tile is overwritten."""
    scaled = z / tau
    buffer = z.new_empty(TILE, TILE)
    blocks = [slice(start, min(start + TILE, len(z))) for start in range(0, len(z), TILE)]
    for index, rows in enumerate(blocks):
        for columns in blocks[index:]:
            out = buffer[: rows.stop - rows.start, : columns.stop - columns.start]
            tile = torch.mm(scaled[rows], z[columns].T, out=out).sub_(bound).exp_()
            if columns == rows:
                tile.fill_diagonal_(0)
            yield rows, columns, tile
