"""Cosines of pairs drawn to 1 within a class and to 0 between classes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from losses.arguments import check_rows, full_precision
from losses.distributed import gather


class CosinePairLoss(nn.Module):
    """Squared error of the cosine of every two rows of a batch, as 1 within a class and 0 between classes.

    Source: SetFit (Tunstall et al., 2022), whose pairs are drawn so that both kinds come equally often; here every pair
    of the batch counts, and the means over both kinds are averaged. Over the global batch of all processes.
    Shapes: see `forward`.
    """

    @full_precision
    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Embeddings (B, D) of any length, labels (B,) -> scalar; a kind without a pair is left out."""
        check_rows("embeddings", embeddings, labels)
        return cosine_pairs(gather(embeddings), gather(labels))


def cosine_pairs(embeddings: Tensor, labels: Tensor) -> Tensor:
    """`CosinePairLoss` of the rows of this process alone: embeddings (B, D), labels (B,) -> scalar.

    Source: SetFit (Tunstall et al., 2022), every pair of the batch in place of drawn ones.
    """
    rows = functional.normalize(embeddings, dim=1)
    above = torch.triu(torch.ones(len(rows), len(rows), dtype=torch.bool, device=rows.device), diagonal=1)
    same = labels[:, None] == labels[None]
    errors = (rows @ rows.T - same.to(rows)).square()
    kinds = [errors[above & same], errors[above & ~same]]
    means = [kind.mean() for kind in kinds if len(kind)]
    return torch.stack(means).mean() if means else rows.sum() * 0.0
