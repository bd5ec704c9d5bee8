"""An encoder of words with a vector for every label, and two graphs of labels over them."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lightning_modules.encoders.words import WordEncoder, with_a_token


class DualGraphNetwork(nn.Module):
    """Words -> BiLSTM -> a component for every label -> graph of co-occurrence -> graph made from the text itself.

    After Ma et al., Label-Specific Dual Graph Neural Network for Multi-Label Text Classification (ACL 2021); its code
    was never published, so this is a re-implementation from what is written about it, and cannot be checked against it:

        H = BiLSTM(words)                                  (B, L, 2h)
        U = softmax_L(E H^T) H, E one vector a label       (B, C, 2h)
        X = leaky(A U W_1), A = D^-1/2 P D^-1/2            P_ij = P(j | i) in the train rows
        G = sigma((X W_a)(X W_b)^T), Z = leaky(D_G^-1/2 G D_G^-1/2 X W_2)

    The embedding is the largest value over labels of [X; Z]. Here the method's linear classifier reads it; the paper
    scores every label from its own vector.

    Args:
        vectors: (V, E), row 0 is padding; they train.
        graph: P (C, C), 1 on the diagonal.
        hidden: h, in each direction, and of each graph.
        dropout: on word vectors and on H.
    """

    frozen, top_layers = False, None

    def __init__(self, vectors: Tensor, graph: Tensor, hidden: int, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding.from_pretrained(vectors, freeze=False, padding_idx=0)
        self.lstm = nn.LSTM(vectors.shape[1], hidden, batch_first=True, bidirectional=True)
        self.labels = nn.Parameter(torch.randn(len(graph), 2 * hidden) / (2 * hidden) ** 0.5)
        self.register_buffer("graph", normalised(graph), persistent=False)
        self.first, self.second = nn.Linear(2 * hidden, hidden), nn.Linear(hidden, hidden)
        self.left, self.right = nn.Linear(hidden, hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.hidden_size = 2 * hidden

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Token ids (B, L) and mask (B, L) of 0/1 -> embeddings (B, hidden_size) in float32."""
        return self.label_vectors(input_ids, attention_mask).amax(dim=1)

    def label_vectors(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """[X; Z], a vector for every label: (B, C, hidden_size)."""
        input_ids, mask = with_a_token(input_ids, attention_mask)
        with torch.autocast(input_ids.device.type, enabled=False):  # recurrence and square roots in float32
            packed = pack_padded_sequence(
                self.dropout(self.words(input_ids)), mask.sum(1).cpu(), batch_first=True, enforce_sorted=False
            )
            hidden, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
            hidden, mask = self.dropout(hidden), mask[:, : hidden.shape[1]]
            scores = (self.labels @ hidden.transpose(1, 2)).masked_fill(~mask.unsqueeze(1), -torch.inf)
            components = scores.softmax(dim=2) @ hidden
            static = nn.functional.leaky_relu(self.graph @ self.first(components))
            adaptive = normalised(torch.sigmoid(self.left(static) @ self.right(static).transpose(1, 2)))
            dynamic = nn.functional.leaky_relu(adaptive @ self.second(static))
        return torch.cat([static, dynamic], dim=2)

    def token_embeddings(self) -> Tensor:
        """The word vectors, shape (vocabulary, dimension)."""
        return self.words.weight.detach()


def normalised(graph: Tensor) -> Tensor:
    """D^-1/2 G D^-1/2 of graphs (..., C, C) without negative weights, D the sums of the rows."""
    scale = graph.sum(dim=-1).clamp_min(1e-12).rsqrt()
    return scale.unsqueeze(-1) * graph * scale.unsqueeze(-2)


class LDGNEncoder(WordEncoder):
    """`encoder=ldgn`: see `DualGraphNetwork` and `WordEncoder`; the label graph comes from the train rows, too."""

    def __init__(
        self,
        *args,
        hidden: Annotated[int, ">= 1"] = 300,
        dropout: Annotated[float, ">= 0", "< 1"] = 0.5,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.hidden, self.dropout = hidden, dropout

    def network(self, vectors: Tensor) -> DualGraphNetwork:
        """Raises ValueError: no labels to build the graph of."""
        if self.label_graph is None or not len(self.label_graph):
            raise ValueError(f"encoder={self.name}: found no labels in train; allowed without: cnn, or a transformer")
        return DualGraphNetwork(vectors, torch.from_numpy(self.label_graph), self.hidden, self.dropout)
