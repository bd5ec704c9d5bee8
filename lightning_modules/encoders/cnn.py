"""A convolutional encoder of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor, nn

from lightning_modules.encoders.words import WordEncoder, with_a_token


class TextCNN(nn.Module):
    """Convolutions of several widths over word vectors, the largest value of each map over the text.

    Source: Kim, Convolutional Neural Networks for Sentence Classification (EMNLP 2014), the non-static variant, without
    its bound on the norm of the classifier's rows. Padding does not change an embedding.

    Args:
        vectors: (V, E), row 0 is padding; they train.
        widths: words that a filter sees.
        maps: filters of each width.
        dropout: on the embedding, as there on the penultimate layer.
    """

    frozen, top_layers = False, None

    def __init__(self, vectors: Tensor, widths: Sequence[int], maps: int, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding.from_pretrained(vectors, freeze=False, padding_idx=0)
        self.widths = tuple(widths)
        self.convolutions = nn.ModuleList(nn.Conv1d(vectors.shape[1], maps, width) for width in widths)
        self.dropout = nn.Dropout(dropout)
        self.hidden_size = maps * len(widths)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Token ids (B, L) and mask (B, L) of 0/1 -> embeddings (B, hidden_size) in float32."""
        input_ids, mask = with_a_token(input_ids, attention_mask)
        vectors = (self.words(input_ids) * mask.unsqueeze(-1)).transpose(1, 2)
        features = []
        for width, convolution in zip(self.widths, self.convolutions, strict=True):
            wide = nn.functional.pad(vectors, (0, width - 1))
            activations = convolution(wide).float().relu()  # (B, maps, L): windows that begin at each word
            features.append((activations * mask.unsqueeze(1)).amax(dim=2))  # relu: 0 is the least
        return self.dropout(torch.cat(features, dim=1))

    def token_embeddings(self) -> Tensor:
        """The word vectors, shape (vocabulary, dimension)."""
        return self.words.weight.detach()


class CNNEncoder(WordEncoder):
    """`encoder=cnn`: see `TextCNN` and `WordEncoder`. Raises ValueError: widths that are none."""

    def __init__(
        self,
        *args,
        widths: Sequence[int] = (3, 4, 5),
        maps: Annotated[int, ">= 1"] = 100,
        dropout: Annotated[float, ">= 0", "< 1"] = 0.5,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs)
        if not widths or any(not isinstance(width, int) or width < 1 for width in widths):
            raise ValueError(f"encoder.widths: found {list(widths)}; allowed: a list of whole numbers >= 1")
        self.widths, self.maps, self.dropout = tuple(widths), maps, dropout

    def network(self, vectors: Tensor) -> TextCNN:
        return TextCNN(vectors, self.widths, self.maps, self.dropout)
