"""Heads on top of an encoder."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn import functional


class ProjectionHead(nn.Module):
    """Two-layer MLP with ReLU, L2-normalised output.

    SharpReCL §3.2 ("MLP with one hidden layer and ReLU"); `norm=batch_norm` is the addition of its published code.
    (N, in_features) -> (N, out_features), rows of unit length.
    """

    def __init__(self, in_features: int, out_features: int, norm: Literal["none", "batch_norm"] = "none") -> None:
        super().__init__()
        layers = [nn.Linear(in_features, in_features), nn.ReLU(), nn.Linear(in_features, out_features)]
        if norm == "batch_norm":
            layers.insert(1, nn.BatchNorm1d(in_features))
        self.layers = nn.Sequential(*layers)

    def forward(self, features: Tensor) -> Tensor:
        return functional.normalize(self.layers(features).float(), dim=-1)


class ClusterHead(nn.Sequential):
    """Cluster logits by two hidden layers with dropout before each: (N, in_features) -> (N, num_clusters).

    The clustering network of AECL's and RSTC's published code.
    """

    def __init__(self, in_features: int, hidden_size: int, num_clusters: int, dropout: float = 0.5) -> None:
        super().__init__(
            nn.Dropout(dropout),
            nn.Linear(in_features, hidden_size),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden_size, hidden_size),
            nn.ReLU(),
            nn.Linear(hidden_size, num_clusters),
        )
