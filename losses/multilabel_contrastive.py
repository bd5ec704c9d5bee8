"""Contrast between texts with several labels: a pair attracts by the share of labels it has in common."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import torch
from torch import Tensor, nn

from losses.arguments import check_choice, check_tau, full_precision
from losses.log_sum_exp import masked_log_sum_exp

Beta = Literal["dynamic", "binary"]
Reduction = Literal["sum", "mean"]


class MultiLabelContrastiveLoss(nn.Module):
    """Contrast of embeddings (B, D) over Euclidean distances d, weighted by shared labels (B, C).

    L = sum_i sum_{j != i} -beta_ij log( e^{-d_ij/tau} / sum_{k != i} e^{-d_ik/tau} ),
    beta_ij = C_ij / sum_{k != i} C_ik, C_ij = y_i . y_j.
    Source: kNN-MLTC (ACL 2022), eq. 2-3. A row that shares no label with any other has beta = 0: it contributes
    nothing and stays in the other rows' denominators (the paper leaves 0/0 open).

    Args:
        tau: temperature, > 0, in units of distance (paper: 10).
        beta: `dynamic` as above; `binary` is the paper's ablation, C_ij cut off at 1.
        reduction: `sum` over rows, as the paper has it; `mean` over the rows that share a label with another one.

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(
        self,
        tau: Annotated[float, "> 0"] = 10.0,
        beta: Beta = "dynamic",
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        self.tau = check_tau(tau)
        self.beta = check_choice("beta", beta, get_args(Beta))
        self.reduction = check_choice("reduction", reduction, get_args(Reduction))

    @full_precision
    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The loss of a batch; builds tensors of B x B.

        Args:
            embeddings: (B, D), not normalised.
            labels: (B, C) of 0 and 1.

        Returns:
            Scalar; 0 with zero gradient where no two rows share a label.

        Raises:
            ValueError: shapes that do not fit.
        """
        if embeddings.dim() != 2 or labels.dim() != 2 or len(labels) != len(embeddings):
            shapes = f"{tuple(embeddings.shape)} and {tuple(labels.shape)}"
            raise ValueError(f"embeddings must be (B, D) and labels (B, C), got {shapes}")
        itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        labels = labels.to(embeddings.dtype)
        shared = (labels @ labels.T).masked_fill(itself, 0.0)
        if self.beta == "binary":
            shared = shared.clamp_max(1)
        total = shared.sum(1)
        beta = shared / total.clamp_min(1)[:, None]
        # differences, not the product of the rows: exact for near rows, and the gradient of equal rows is 0
        distances = torch.cdist(embeddings, embeddings, compute_mode="donot_use_mm_for_euclid_dist")
        logits = -distances / self.tau
        is_anchor = total > 0
        rows = masked_log_sum_exp(logits, ~itself) - (beta * logits).sum(1)
        loss = rows.masked_fill(~is_anchor, 0.0).sum()
        return loss if self.reduction == "sum" else loss / is_anchor.sum().clamp_min(1)
