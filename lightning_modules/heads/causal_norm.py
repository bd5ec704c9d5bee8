"""The multi-head normalised classifier of Tang et al. (NeurIPS 2020), and what its total direct effect leaves."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def unit_parts(rows: Tensor, num_parts: int) -> Tensor:
    """Rows (..., D) with each of `num_parts` consecutive parts scaled to unit length."""
    return functional.normalize(rows.unflatten(-1, (num_parts, -1)), dim=-1).flatten(-2)


def causal_norm_weight(
    weight: Tensor, direction: Tensor, num_heads: int, scale: float, offset: float, strength: float
) -> Tensor:
    """W (C, D) such that the logits are W times the embedding x with its parts x^k at unit length.

    f = scale/K sum_k w^k / (|w^k| + offset) . (x^k/|x^k| - strength cos(x^k, d^k) d^k/|d^k|), of
    Tang et al. (NeurIPS 2020). The part in parentheses is a projection of x^k/|x^k|, moved to the other side of the
    product.

    Args:
        weight: (C, D).
        direction: (D,); a part of zeros takes nothing away.
        num_heads: K, a divisor of D.
        scale: tau of the paper.
        offset: gamma of the paper.
        strength: alpha of the paper.
    """
    parts = weight.unflatten(1, (num_heads, -1))
    parts = parts * (scale / num_heads) / (parts.norm(dim=2, keepdim=True) + offset)
    unit = functional.normalize(direction.to(weight).unflatten(0, (num_heads, -1)), dim=1)
    along = (parts * unit).sum(2, keepdim=True)
    return (parts - strength * along * unit).flatten(1)
