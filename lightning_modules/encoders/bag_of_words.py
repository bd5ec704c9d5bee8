"""How often each word of the vocabulary occurs in a text: nothing is trained here."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from lightning_modules.encoders.words import WordEncoder

NUM_SPECIAL = 2  # the first ids: padding and unknown words, which are not counted


class WordCounts(nn.Module):
    """Counts of words.

    Args:
        vocabulary_size: V, padding and the unknown word included.
    """

    frozen, top_layers = False, None

    def __init__(self, vocabulary_size: int) -> None:
        super().__init__()
        self.hidden_size = vocabulary_size

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Token ids (B, L) and mask (B, L) of 0/1 -> counts (B, V) in float32, 0 for padding and unknown words."""
        counts = torch.zeros(len(input_ids), self.hidden_size, device=input_ids.device)
        counts.scatter_add_(1, input_ids, attention_mask.float())
        counts[:, :NUM_SPECIAL] = 0
        return counts


class BagOfWords(WordEncoder):
    """`encoder=bag_of_words`: see `WordEncoder`, of whose arguments it has those of the vocabulary."""

    def __init__(
        self,
        name: str,
        vocabulary_size: Annotated[int, ">= 3"] = 50_000,
        min_count: Annotated[int, ">= 1"] = 1,
        train: Literal["full"] = "full",
    ) -> None:
        super().__init__(name, None, 1, vocabulary_size, min_count, train)

    def network(self, vectors: Tensor) -> WordCounts:
        return WordCounts(len(vectors))
