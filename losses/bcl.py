"""Balanced contrastive learning: every class weighs the same in the denominator, and is never absent."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from losses.arguments import check_rows, check_tau, full_precision
from losses.log_sum_exp import masked_log_sum_exp


class BalancedContrastiveLoss(nn.Module):
    """Supervised contrast of a batch (B, D) with class averaging and, by prototypes (C, D), class complement.

    L_i = -1/|P_i| sum_{p in P_i} log( e^{s_ip} / sum_k 1/(|B_k| - [k = y_i]) sum_{j in B_k, j != i} e^{s_ij} ),
    s = z.z/tau, B_k the rows of class k and its prototype, P_i = B_{y_i} without i; averaged over the anchors that have
    a positive. Prototypes are never anchors; gradient flows into them.
    Source: Zhu et al. (CVPR 2022), section 3; its published code for the counts, from which the anchor is left out.

    Args:
        tau: temperature, > 0.
        class_averaging: each class enters the denominator by its mean; without, by its sum.
        class_complement: prototypes take part, so that no class is absent; without, the batch alone. Without either
            it is supervised contrast.

    Raises:
        ValueError: tau <= 0.
    """

    def __init__(
        self,
        tau: Annotated[float, "> 0"] = 0.07,
        class_averaging: bool = True,
        class_complement: bool = True,
    ) -> None:
        super().__init__()
        self.tau = check_tau(tau)
        self.class_averaging, self.class_complement = class_averaging, class_complement

    @full_precision
    def forward(self, embeddings: Tensor, labels: Tensor, prototypes: Tensor) -> Tensor:
        """The loss of a batch; builds tensors of B x (B + C).

        Args:
            embeddings: (B, D) L2-normalised, all views.
            labels: (B,) in [0, C).
            prototypes: (C, D) L2-normalised.

        Returns:
            Scalar >= 0 up to rounding; 0 with zero gradient where no anchor has a positive.

        Raises:
            ValueError: shapes that do not fit.
        """
        check_rows("embeddings", embeddings, labels)
        if prototypes.dim() != 2 or prototypes.shape[1] != embeddings.shape[1]:
            raise ValueError(f"prototypes must be (C, {embeddings.shape[1]}), got {tuple(prototypes.shape)}")
        keys, key_labels = embeddings, labels
        if self.class_complement:
            classes = torch.arange(len(prototypes), device=labels.device)
            keys, key_labels = torch.cat([embeddings, prototypes.to(embeddings)]), torch.cat([labels, classes])
        logits = embeddings @ keys.T / self.tau
        not_self = ~torch.eye(*logits.shape, dtype=torch.bool, device=logits.device)
        same_class = labels[:, None] == key_labels
        positive = same_class & not_self
        number = positive.sum(1)
        weighted = logits
        if self.class_averaging:
            size = key_labels.bincount(minlength=len(prototypes))[key_labels]
            weighted = logits - (size - same_class.long()).clamp_min(1).to(logits).log()
        log_denominator = masked_log_sum_exp(weighted, not_self).masked_fill(number == 0, 0.0)
        mean_positive = logits.masked_fill(~positive, 0.0).sum(1) / number.clamp_min(1)
        return (log_denominator - mean_positive).sum() / (number > 0).sum().clamp_min(1)
