"""A transformer over the tokens of many texts without their padding, in one pass whatever their lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from lightning_modules.encoders.prepacked import PrepackedLinear, can_prepack

PACKABLE = "bert", "roberta", "xlm-roberta", "camembert"  # types of model in which attention alone joins tokens
WIDTH = 8  # tokens


class Packing:
    """Where the tokens of B padded texts of L tokens stand in one row of T tokens, and in attention.

    Args:
        attention_mask: (B, L) of 0/1, ones first.
        widths: (B,) that attention pads each text to, together with those of the same; None: the next multiple of
            `WIDTH`.
        spare: rows behind the tokens; None: as many as make the number a rounder one.
    """

    def __init__(self, attention_mask: Tensor, widths: Tensor | None = None, spare: int | None = None) -> None:
        self.is_token = attention_mask.bool()
        lengths = self.is_token.sum(1)
        starts = lengths.cumsum(0) - lengths
        self.number = int(lengths.sum())
        self.spare = _round(self.number) - self.number if spare is None else spare
        widths = (lengths + WIDTH - 1) // WIDTH * WIDTH if widths is None else widths
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
        """Values (T, D) of tokens -> (B, L, D), zero where there is none."""
        full = values.new_zeros(*self.is_token.shape, values.shape[-1])
        full[self.is_token] = values[: self.number]
        return full


def _round(number: int) -> int:
    """So many tokens or up to a quarter more: a product of matrices of a new size is prepared for milliseconds."""
    step = max(8, 1 << max(number.bit_length() - 3, 0))
    return -(-number // step) * step


def _group(starts: Tensor, lengths: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Places (n, W) of the tokens of some texts, and which of them (n, W) are tokens and not padding."""
    columns = torch.arange(width)
    is_token = columns < lengths[:, None]
    return starts[:, None] + torch.where(is_token, columns, 0), is_token


def _attention(joined: Tensor, heads: int, packing: Packing) -> Tensor:
    """Queries, keys and values (T, 3 D) -> attention (T, D) of each token to those of its own text, by texts of about
    one length."""
    joined = joined.index_select(0, packing.places).unflatten(1, (3, heads, -1))
    outputs, start = [], 0
    for is_token in packing.masks:
        rows = slice(start, start := start + is_token.numel())
        q, k, v = joined[rows].unflatten(0, is_token.shape).permute(2, 0, 3, 1, 4)  # (n, H, W, d) each
        attended = functional.scaled_dot_product_attention(q, k, v, attn_mask=is_token[:, None, None])
        outputs.append(attended.transpose(1, 2).flatten(0, 1).flatten(1))
    return torch.cat(outputs).index_select(0, packing.back)


class _Block:
    """A block of BERT or RoBERTa (post-norm) for prediction: residuals in full precision, one product for queries, keys
    and values."""

    def __init__(self, layer: Any, heads: int, bf16: bool) -> None:
        attention, own = layer.attention, layer.attention.self
        self.heads = heads
        self.joined = _linear([own.query, own.key, own.value], bf16)
        self.mixed, self.first_norm = _linear([attention.output.dense], bf16), attention.output.LayerNorm
        self.wide = _linear([layer.intermediate.dense], bf16, gelu=True)
        self.narrow, self.second_norm = _linear([layer.output.dense], bf16), layer.output.LayerNorm

    def __call__(self, states: Tensor, packing: Packing) -> Tensor:
        """States (T, D) -> (T, D)."""
        states = self.first_norm(self.mixed(_attention(self.joined(states), self.heads, packing)) + states)
        return self.second_norm(self.narrow(self.wide(states)) + states)


def _linear(layers: Sequence[nn.Linear], bf16: bool, gelu: bool = False) -> Callable[[Tensor], Tensor]:
    """What these layers give side by side, through an exact GELU or not."""
    weight, bias = (torch.cat([getattr(layer, name).detach() for layer in layers]) for name in ("weight", "bias"))
    if bf16 and can_prepack():
        return PrepackedLinear(weight, bias, gelu)
    if gelu:
        return lambda states: functional.gelu(functional.linear(states, weight, bias))
    return lambda states: functional.linear(states, weight, bias)


class PackedTransformer:
    """The transformer of a model, taken out of it: the blocks are laid out anew, and the model keeps none.

    Args:
        model: one for which `can_pack` holds.
        bf16: round the weights of the blocks to bfloat16 once, where autocast would for every batch.
    """

    def __init__(self, model: Any, bf16: bool) -> None:
        self.embeddings = model.embeddings
        self.blocks = [_Block(layer, model.config.num_attention_heads, bf16) for layer in model.encoder.layer]
        self.first_place = first_position(model)
        model.encoder.layer = nn.ModuleList()

    def __call__(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Token ids (B, L) and mask (B, L), ones first -> last hidden states (B, L, D), zero at padding.

        A text's states have the same bits whatever it stands with, where products of matrices round alike for all
        sizes.
        """
        packing = Packing(attention_mask)
        places = torch.arange(attention_mask.shape[1]).expand_as(attention_mask) + self.first_place
        states = self.embeddings(input_ids=packing.packed(input_ids), position_ids=packing.packed(places))[0]
        for block in self.blocks:
            states = block(states, packing)
        return packing.padded(states)


def first_position(model: Any) -> int:
    """Of a text's first token; some architectures keep the positions up to that of padding for themselves."""
    table = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return 0 if padding is None else padding + 1


def can_pack(model: Any) -> bool:
    """Whether the model is known to go without padding: `PackedTransformer` gives the same in eval mode, and
    `packed_training` in training."""
    if not isinstance(model, PreTrainedModel) or model.config.model_type not in PACKABLE:
        return False
    if getattr(model, "_hf_peft_config_loaded", False):  # adapters within it
        return False
    is_common = model.config.hidden_act == "gelu" and not model.config.is_decoder
    is_common &= getattr(model.config, "position_embedding_type", "absolute") == "absolute"
    return is_common and all(type(part) is nn.Linear for part in model.modules() if isinstance(part, nn.Linear))
