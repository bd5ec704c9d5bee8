"""The mixture of two branches that learn from two draws of the data."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from losses.arguments import check_rows, check_share, full_precision
from losses.distributed import gather


class BilateralLoss(nn.Module):
    """a CE(h, y) + (1 - a) CE(h, y') of the mixed logits h = 2 (a f + (1 - a) f'), over the global batch.

    Row i of one draw meets row i of the other. Source: Zhou et al. (CVPR 2020), cumulative learning; the factor 2, by
    which the logits at a = 1/2 are the sum of both, is that of the authors' code. Shapes: see `forward`.
    """

    @full_precision
    def forward(
        self, logits: Tensor, labels: Tensor, other_logits: Tensor, other_labels: Tensor, share: float
    ) -> Tensor:
        """Scalar loss; 0 with zero gradient for an empty batch.

        Args:
            logits, labels: f (N, C) and y (N,) of the rows drawn as they come.
            other_logits, other_labels: f' (N, C) and y' (N,) of those drawn against the class sizes.
            share: a, in [0, 1].

        Raises:
            ValueError: a share out of range, or shapes that do not fit.
        """
        check_share("share", share)
        check_rows("logits", logits, labels)
        check_rows("other_logits", other_logits, other_labels)
        if other_logits.shape != logits.shape:
            raise ValueError(f"other_logits must be {tuple(logits.shape)}, got {tuple(other_logits.shape)}")
        mixed, labels = gather(2 * (share * logits + (1 - share) * other_logits)), gather(labels)
        if not len(labels):
            return mixed.sum() * 0.0
        drawn = F.cross_entropy(mixed, labels)
        return share * drawn + (1 - share) * F.cross_entropy(mixed, gather(other_labels))
