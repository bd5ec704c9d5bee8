"""Training steps of a transformer over the tokens of many texts without their padding, on the CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from lightning_modules.encoders.packed import Packing, first_position

WIDTHS = torch.tensor([0, *(width << power for power in range(2, 16) for width in (2, 3))])  # 8, 12, 16, 24, 32, …


def trained_states(
    model: Any, input_ids: Tensor, attention_mask: Tensor, states: Tensor | None = None, blocks: Any = None
) -> Tensor:
    """The last hidden states (B, L, D) of a model for which `can_pack` holds, with gradients, zero at padding.

    What it computes is the model's own, up to the order of sums; its dropout draws other masks (`quick_dropout`).

    Args:
        model: with its weights as they are.
        input_ids, attention_mask: (B, L), ones first, of at most 98,304 tokens a text.
        states: (B, L, D) hidden states to begin at, in place of the embeddings.
        blocks: those that follow; None: all.
    """
    lengths = attention_mask.sum(1)
    packing = Packing(attention_mask, WIDTHS[torch.bucketize(lengths, WIDTHS)], spare=0)
    if states is None:
        places = torch.arange(input_ids.shape[1]).expand_as(input_ids) + first_position(model)
        tokens = model.embeddings(input_ids=packing.packed(input_ids), position_ids=packing.packed(places))[0]
    else:
        tokens = states[packing.is_token]
    for block in model.encoder.layer if blocks is None else blocks:
        tokens = _block(block, tokens, model.config.num_attention_heads, packing)
    return packing.padded(tokens)


def _block(block: Any, states: Tensor, heads: int, packing: Packing) -> Tensor:
    """A block of BERT or RoBERTa: states (T, D) -> (T, D)."""
    attention = block.attention
    projections = [attention.self.query, attention.self.key, attention.self.value]
    weight, bias = (torch.cat([getattr(each, name) for each in projections]) for name in ("weight", "bias"))
    attended = _attention(functional.linear(states, weight, bias), heads, packing, attention.self.dropout)
    states = _sublayer(attention.output, attended, states)
    return _sublayer(block.output, block.intermediate(states), states)


def _sublayer(output: Any, values: Tensor, states: Tensor) -> Tensor:
    """The end of a sublayer: (T, E) and what came in (T, D) -> (T, D)."""
    return output.LayerNorm(_dropped(output.dense(values), output.dropout) + states)


def _attention(joined: Tensor, heads: int, packing: Packing, dropout: nn.Dropout) -> Tensor:
    """Queries, keys and values (T, 3 D) -> attention (T, D) of each token to those of its own text, by texts of about
    one length."""
    joined = _Moved.apply(joined, packing.places, packing.back, None).unflatten(1, (3, heads, -1))
    outputs, start = [], 0
    for is_token in packing.masks:
        rows = slice(start, start := start + is_token.numel())
        q, k, v = joined[rows].unflatten(0, is_token.shape).permute(2, 0, 3, 1, 4)  # (n, H, W, d) each
        scores = (q @ k.transpose(2, 3)).float() * q.shape[-1] ** -0.5
        shares = scores.masked_fill(~is_token[:, None, None], float("-inf")).softmax(dim=3).to(v.dtype)
        outputs.append((_dropped(shares, dropout) @ v).transpose(1, 2).flatten(0, 1).flatten(1))
    is_token = torch.cat([mask.flatten() for mask in packing.masks])
    return _Moved.apply(torch.cat(outputs), packing.back, packing.places, is_token)


class _Moved(torch.autograd.Function):
    """Rows of values at `places`; the gradient comes `back` the same way, without a sum: no row is used twice, but for
    padding, whose gradient is zero or, where `is_token` says which rows are none, left out."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, places: Tensor, back: Tensor, is_token: Tensor | None) -> Tensor:
        ctx.save_for_backward(back, is_token)
        return values.index_select(0, places)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        back, is_token = ctx.saved_tensors
        moved = gradients[0].index_select(0, back)
        return moved if is_token is None else moved * is_token[:, None], None, None, None


def _dropped(values: Tensor, dropout: nn.Dropout) -> Tensor:
    return quick_dropout(values, dropout.p) if dropout.training else values


def quick_dropout(values: Tensor, share: float) -> Tensor:
    """Dropout with masks of 16 random bits a value, where `nn.Dropout` draws a number for each, which takes a sixth of
    a step on the CPU.

    Args:
        values: of any shape.
        share: of the values that become zero, from 0 to 1, rounded to 1 / 65,536.
    """
    if share in (0, 1):
        return values if share == 0 else torch.zeros_like(values)
    number = values.numel()
    bits = torch.empty(-(-number // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)[:number]
    kept = (bits >= round(share * 2**16) - 2**15).view(values.shape)
    return values * kept.to(values.dtype).mul_(1 / (1 - share))
