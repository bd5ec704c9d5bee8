"""Linear layers in bfloat16 whose weights lie as the CPU multiplies them.

`nn.Linear` brings its weight into that layout at every call, which costs a small batch a third of its time. The two
operators are those that `torch.compile` puts in place of a linear layer on a CPU.
"""

from __future__ import annotations

import torch
from torch import Tensor

OPERATORS = torch.ops.mkldnn
ROWS = 384  # tokens: the number for which the layout is chosen; others are served by it too


def can_prepack() -> bool:
    """Whether this torch has the operators, and this CPU multiplies in bfloat16 by them."""
    has_operators = hasattr(OPERATORS, "_reorder_linear_weight") and hasattr(OPERATORS, "_linear_pointwise")
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported() and has_operators


class PrepackedLinear:
    """(…, in) in any precision -> (…, out) in bfloat16: `x W^T + b`, or the exact GELU of it, rounded at the end.

    Args:
        weight, bias: (out, in) and (out,), on the CPU.
    """

    def __init__(self, weight: Tensor, bias: Tensor, gelu: bool = False) -> None:
        self.weight = OPERATORS._reorder_linear_weight(weight.to(torch.bfloat16), ROWS)
        self.bias = bias.to(torch.bfloat16)
        self.activation: tuple[str, list[float], str] = ("gelu", [], "none") if gelu else ("none", [], "")

    def __call__(self, inputs: Tensor) -> Tensor:
        """Multiply; no gradient."""
        return OPERATORS._linear_pointwise(inputs.to(torch.bfloat16), self.weight, self.bias, *self.activation)
