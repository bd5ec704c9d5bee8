"""Pseudo-labels by optimal transport between texts and clusters whose sizes adapt themselves (RSTC)."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from losses.arguments import check_choice, check_positive, full_precision

Sizes = Literal["adaptive", "uniform"]
BISECTIONS = 60  # halve the bracket of a root beyond the digits of float64


class Plan(NamedTuple):
    """A transport plan and what it leaves unmet. Source: RSTC (Zheng et al., ACL 2023).

    Attributes:
        plan: (N, M), rows of 1/N.
        sizes: b, (M,), sums to 1.
        gap: sum_j |sum_i plan_ij - b_j| at the end.
    """

    plan: Tensor
    sizes: Tensor
    gap: float


@torch.no_grad()
@full_precision
def self_adaptive_transport(
    log_p: Tensor,
    entropy_weight: float = 0.1,
    size_weight: float = 1.0,
    sizes: Sizes = "adaptive",
    max_iterations: int = 500,
    tolerance: float = 1e-4,
) -> Plan:
    """min over plan and b of <plan, -log P> + e1 sum plan (log plan - 1) + e2 sum_j (-log b_j - log(1 - b_j)).

    Rows sum to 1/N, columns to b, b to 1. Source: RSTC (Zheng et al., ACL 2023), its first penalty on b.

    The dual is concave, and is climbed by one block at a time: f of the rows, g of the columns, h of sum b = 1. All in
    logarithms, so that no e1 underflows; the published code scales probabilities. With plan_ij =
    exp((f_i + g_j + log P_ij) / e1), the stationary b_j is 2 e2 / (sqrt(u^2 + 4 e2^2) + 2 e2 - u), u = h - g_j; g_j
    and h are roots of monotone functions, found by bisection.

    Args:
        log_p: log P, (N, M), finite.
        entropy_weight: e1, > 0; the less, the harder the plan.
        size_weight: e2, > 0; the more, the more even the clusters.
        sizes: `adaptive`, or `uniform` for b = 1/M as in plain Sinkhorn.
        max_iterations: of all blocks; the rows are right after each, the columns at the end.
        tolerance: of the columns against b, in absolute sum.

    Raises:
        ValueError: an argument out of range.
    """
    check_choice("sizes", sizes, get_args(Sizes))
    check_positive("entropy_weight", entropy_weight)
    check_positive("size_weight", size_weight)
    if log_p.dim() != 2 or 0 in log_p.shape or not log_p.isfinite().all():
        raise ValueError(f"log_p must be (N, M) of finite numbers, not empty, got {tuple(log_p.shape)}")
    number, clusters = log_p.shape
    e1, e2 = entropy_weight, size_weight
    scaled = log_p / e1
    even = torch.full_like(log_p[0], 1 / clusters)
    adapts = sizes == "adaptive" and clusters > 1
    g, h, b = torch.zeros_like(even), log_p.new_zeros(()), even
    for iteration in range(max_iterations + 1):
        log_rows = (scaled + g / e1).logsumexp(1, keepdim=True) + math.log(number)  # -f / e1
        log_received = (scaled - log_rows).logsumexp(0)
        if adapts:
            h = _level(g, e2)
            b = _stationary(h - g, e2)
        gap = ((log_received + g / e1).exp() - b).abs().sum().item()
        if gap <= tolerance or iteration == max_iterations:
            break
        g = _potentials(log_received, h, e1, e2) if adapts else e1 * (even.log() - log_received)
    return Plan((scaled + g / e1 - log_rows).exp(), b, gap)


def _stationary(u: Tensor, e2: float) -> Tensor:
    """The b in (0, 1) with e2 (1/(1 - b) - 1/b) = u; grows with u. A form without cancellation near b = 0."""
    return 2 * e2 / ((u.square() + 4 * e2 * e2).sqrt() + 2 * e2 - u)


def _level(g: Tensor, e2: float) -> Tensor:
    """h with sum_j b_j(h - g_j) = 1, for two clusters or more."""
    even = e2 * (1 / (1 - 1 / len(g)) - len(g))  # u where b = 1/M: no b is above it at `low`, none below at `high`
    low, high = g.amin() + even, g.amax() + even
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        too_much = _stationary(middle - g, e2).sum() > 1
        low, high = torch.where(too_much, low, middle), torch.where(too_much, middle, high)
    return (low + high) / 2


def _potentials(log_received: Tensor, h: Tensor, e1: float, e2: float) -> Tensor:
    """g with e^{g_j / e1} c_j = b_j(h - g_j), log c given, (M,): the left side grows in g_j, the right one falls."""

    def excess(g: Tensor) -> Tensor:
        return log_received + g / e1 - _stationary(h - g, e2).log()

    high = -e1 * log_received  # the left side is 1 there, above any b
    step = torch.full_like(high, max(e1, e2))
    low = high - step
    while (excess(low) > 0).any():
        step = step * 2
        low = high - step
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        too_much = excess(middle) > 0
        low, high = torch.where(too_much, low, middle), torch.where(too_much, middle, high)
    return (low + high) / 2
