"""Linear layers in bfloat16 whose weights lie as the processor multiplies them.

`nn.Linear` brings its weight into that layout at every call, which costs a small batch a third of its time. The two
operators are those that `torch.compile` puts in place of a linear layer on a processor.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

OPERATORS = torch.ops.mkldnn
ROWS = 384  # tokens: the number for which the layout is chosen; others are served by it too


def can_prepack() -> bool:
    """Whether this torch has the operators, and this processor multiplies in bfloat16 by them."""
    has_operators = hasattr(OPERATORS, "_reorder_linear_weight") and hasattr(OPERATORS, "_linear_pointwise")
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported() and has_operators


class PrepackedLinear(nn.Module):
    """(…, in) in any precision -> (…, out) in bfloat16: `gelu(x W^T + b)`, or without the gelu.

    Args:
        linear: a layer on the CPU, which is left as it is.
        gelu: apply the exact GELU, before the result is rounded.
    """

    def __init__(self, linear: nn.Linear, gelu: bool = False) -> None:
        super().__init__()
        weight = linear.weight.detach().to(torch.bfloat16)
        self.weight = OPERATORS._reorder_linear_weight(weight, ROWS)
        self.bias = None if linear.bias is None else linear.bias.detach().to(torch.bfloat16)
        self.activation: tuple[str, list[float], str] = ("gelu", [], "none") if gelu else ("none", [], "")

    def forward(self, inputs: Tensor) -> Tensor:
        """Multiply; no gradient."""
        return OPERATORS._linear_pointwise(inputs.to(torch.bfloat16), self.weight, self.bias, *self.activation)


def prepack(model: Any) -> None:
    """Replace the linear layers of a transformer; a GELU of BERT's or RoBERTa's goes into the layer before it."""
    for block in model.modules():
        if hasattr(block, "intermediate_act_fn") and model.config.hidden_act == "gelu":
            block.dense = PrepackedLinear(block.dense, gelu=True)
            block.intermediate_act_fn = nn.Identity()
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                setattr(module, name, PrepackedLinear(child))
