"""Attention between the texts of a batch (AECL)."""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn import functional


class BareAttention(nn.Module):
    """AECL, eq. 1 to 3: S = softmax over rows of K1 K2^T / sqrt(D), h = S T, with K1, K2, T linear in z.

    `forward` takes z (N, D) and returns h (N, D) and S (N, N), whose rows sum to 1.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.first, self.second, self.value = (nn.Linear(size, size, bias=False) for _ in range(3))

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        similarity = (self.first(z) @ self.second(z).T / math.sqrt(z.shape[1])).softmax(1)
        return similarity @ self.value(z), similarity


class EncoderLayerAttention(nn.Module):
    """What AECL's published code has in the place of eq. 1 to 3: a transformer encoder layer over the batch.

    One head, biases, residual connections, layer norm after each, a feed-forward layer. `forward` is that of
    `BareAttention`; in training S is what dropout leaves of it, so that its rows do not sum to 1.
    """

    def __init__(self, size: int, feedforward_size: int = 256, dropout: float = 0.1) -> None:
        super().__init__()
        self.first, self.second, self.value, self.out = (nn.Linear(size, size) for _ in range(4))
        self.feedforward = nn.Sequential(
            nn.Linear(size, feedforward_size), nn.ReLU(), nn.Dropout(dropout), nn.Linear(feedforward_size, size)
        )
        self.norm, self.last_norm = nn.LayerNorm(size), nn.LayerNorm(size)
        self.dropout = dropout

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        similarity = (self.first(z) @ self.second(z).T / math.sqrt(z.shape[1])).softmax(1)
        similarity = self._dropped(similarity)
        attended = self.norm(z + self._dropped(self.out(similarity @ self.value(z))))
        return self.last_norm(attended + self._dropped(self.feedforward(attended))), similarity

    def _dropped(self, rows: Tensor) -> Tensor:
        return functional.dropout(rows, self.dropout, self.training)
