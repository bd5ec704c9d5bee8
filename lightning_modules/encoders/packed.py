"""A transformer over the tokens of many texts without their padding, in one pass whatever their lengths."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, PreTrainedModel

PACKED = "packed"  # name of the attention below among those of `transformers`
PACKABLE = "bert", "roberta"  # types of model in which attention alone joins tokens
WIDTH = 8  # tokens: attention pads texts to a multiple of it, together with those of the same


class Packing:
    """Where the tokens of B padded texts of L tokens stand in one row of T tokens, and in attention.

    Args:
        attention_mask: (B, L) of 0/1, ones first.
    """

    def __init__(self, attention_mask: Tensor) -> None:
        self.is_token = attention_mask.bool()
        lengths = self.is_token.sum(1)
        starts = lengths.cumsum(0) - lengths
        self.number = int(lengths.sum())
        self.spare = _round(self.number) - self.number
        widths = (lengths + WIDTH - 1) // WIDTH * WIDTH
        groups = [_group(starts[widths == width], lengths[widths == width], int(width)) for width in widths.unique()]
        self.masks = [is_token for _, is_token in groups]
        self.places = torch.cat([places.flatten() for places, _ in groups])
        self.back = torch.zeros(self.number + self.spare, dtype=torch.long)
        shown = torch.cat([is_token.flatten() for is_token in self.masks]).nonzero().squeeze(1)
        self.back[self.places[shown]] = shown

    def packed(self, values: Tensor) -> Tensor:
        """Whole numbers (B, L) -> those of tokens, and zeros, (1, T)."""
        return functional.pad(values[self.is_token], (0, self.spare))[None]

    def padded(self, values: Tensor) -> Tensor:
        """Values (1, T, D) of tokens -> (B, L, D), zero where there is none."""
        full = values.new_zeros(*self.is_token.shape, values.shape[-1])
        full[self.is_token] = values[0, : self.number]
        return full


def _round(number: int) -> int:
    """So many tokens or up to a quarter more: a product of matrices of a new size is prepared for milliseconds."""
    step = max(16, 1 << max(number.bit_length() - 3, 0))
    return -(-number // step) * step


def _group(starts: Tensor, lengths: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Places (n, W) of the tokens of some texts, and which of them (n, W) are tokens and not padding."""
    columns = torch.arange(width)
    is_token = columns < lengths[:, None]
    return starts[:, None] + torch.where(is_token, columns, 0), is_token


def _attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: None, *, packing: Packing, **others: Any
) -> tuple[Tensor, None]:
    """Attention (1, H, T, D) of each token to those of its own text, as (1, T, H, D), by texts of about one length."""
    joined = [values[0].transpose(0, 1).index_select(0, packing.places) for values in (query, key, value)]
    outputs, start = [], 0
    for is_token in packing.masks:
        rows = slice(start, start := start + is_token.numel())
        q, k, v = (values[rows].unflatten(0, is_token.shape).transpose(1, 2) for values in joined)  # (n, H, W, D)
        attended = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=is_token[:, None, None], scale=others.get("scaling")
        )
        outputs.append(attended.transpose(1, 2).flatten(0, 1))
    return torch.cat(outputs).index_select(0, packing.back)[None], None


AttentionInterface.register(PACKED, _attention)


def pack(model: Any) -> bool:
    """Let attention of this model be the one above, for `hidden_states`; False where it is no such model."""
    if not isinstance(model, PreTrainedModel) or model.config.model_type not in PACKABLE or model.config.is_decoder:
        return False
    model.set_attn_implementation(PACKED)
    return True


def hidden_states(model: Any, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    """Token ids (B, L) and mask (B, L), ones first -> last hidden states (B, L, D), zero at padding.

    A text's states have the same bits whatever it stands with, where products of matrices round alike for all sizes.
    """
    packing = Packing(attention_mask)
    first = model.config.pad_token_id + 1 if model.config.model_type == "roberta" else 0
    places = torch.arange(attention_mask.shape[1]).expand_as(attention_mask) + first
    states = model(input_ids=packing.packed(input_ids), position_ids=packing.packed(places), packing=packing)
    return packing.padded(states.last_hidden_state)
