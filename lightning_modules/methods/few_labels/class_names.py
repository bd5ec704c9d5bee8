"""The names of the classes as an encoder reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

AT_ONCE = 1024  # phrases that the encoder sees
MAX_LENGTH = 64  # tokens of a phrase
TEMPLATES = ("{}", "This text is about {}.", "The topic is {}.", "Category: {}")


def read_alike(descriptions: Sequence[str], tokenizer: Any) -> tuple[int, int] | None:
    """Two classes whose descriptions are the same tokens, mostly of a script that the encoder does not know; None where
    there are none."""
    first: dict[tuple[int, ...], int] = {}
    for place, ids in enumerate(tokenizer(list(descriptions), add_special_tokens=False)["input_ids"]):
        if first.setdefault(tuple(ids), place) != place:
            return first[tuple(ids)], place
    return None


class ClassNames(nn.Module):
    """Tokens of every phrase of every class in every template, and their mean embedding a class.

    As rows beside labelled ones all classes have as many, one a template: `sentences`, of which the k-th of a class
    holds its k-th phrase, again from the first one where it has fewer.

    Args:
        descriptions: of each class, C texts; phrases are joined by commas, the name first.
        tokenizer: the encoder's.
    """

    input_ids: Tensor
    attention_mask: Tensor
    owner: Tensor
    sentences: Tensor

    def __init__(self, descriptions: Sequence[str], tokenizer: Any) -> None:
        super().__init__()
        phrases = [[part.strip() for part in text.split(",") if part.strip()] or [text] for text in descriptions]
        texts = [template.format(phrase) for parts in phrases for phrase in parts for template in TEMPLATES]
        options = {"padding": True, "padding_side": "right", "truncation": True, "max_length": MAX_LENGTH}
        tokens = tokenizer(texts, return_tensors="pt", **options)
        owner = [c for c, parts in enumerate(phrases) for _ in parts for _ in TEMPLATES]
        self.num_classes = len(phrases)
        for name, value in (("input_ids", tokens["input_ids"]), ("attention_mask", tokens["attention_mask"])):
            self.register_buffer(name, value, persistent=False)
        self.register_buffer("owner", torch.tensor(owner), persistent=False)
        firsts = np.cumsum([0, *(len(TEMPLATES) * len(parts) for parts in phrases)])
        number = len(TEMPLATES)  # of rows a phrase, and of sentences a class
        rows = [first + k % len(parts) * number + k for first, parts in zip(firsts, phrases, strict=False)
                for k in range(number)]  # fmt: skip
        self.register_buffer("sentences", torch.tensor(rows), persistent=False)

    def rows(self, encoder: nn.Module) -> tuple[list[NDArray[np.int32]], Tensor, Tensor]:
        """Of each sentence the token ids, without padding, the embedding (4 C, D) and the class (4 C,)."""
        inputs, classes = self.some(self.sentences)
        tokens = [ids[mask].cpu().numpy().astype(np.int32) for ids, mask in zip(inputs[0], inputs[1] > 0, strict=True)]
        return tokens, _embedded(encoder, *inputs), classes

    def some(self, places: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """Inputs of the encoder and classes of the phrases at these places, without columns that are padding alone."""
        mask = self.attention_mask[places]
        length = int(mask.sum(1).max()) if len(mask) else 1
        return (self.input_ids[places, :length], mask[:, :length]), self.owner[places]

    def forward(self, encoder: nn.Module) -> Tensor:
        """Anchors (C, D) of unit length: the mean over a class's phrases, each embedded to unit length."""
        embeddings = functional.normalize(_embedded(encoder, self.input_ids, self.attention_mask), dim=1)
        anchors = embeddings.new_zeros(self.num_classes, embeddings.shape[1])
        return functional.normalize(anchors.index_add_(0, self.owner, embeddings), dim=1)


def _embedded(encoder: nn.Module, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    pairs = zip(input_ids.split(AT_ONCE), attention_mask.split(AT_ONCE), strict=True)
    return torch.cat([encoder(*pair) for pair in pairs])
