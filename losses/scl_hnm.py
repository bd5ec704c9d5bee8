"""SCL-HNM: supervised contrast against each anchor's hardest negatives alone."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import torch
from torch import Tensor, nn

from losses.arguments import check_choice, check_tau, full_precision
from losses.log_sum_exp import masked_log_sum_exp
from losses.shared_labels import Positives, check_labelled_rows, check_positives, same_label

Anchors = Literal["with_positives", "all"]


class HardNegativeContrastiveLoss(nn.Module):
    """Supervised contrast of a batch (B, D) whose denominator holds the positives and the most similar negatives.

    L_i = -1/|P_i| sum_{p in P_i} log( e^{s_ip} / (sum_{p' in P_i} e^{s_ip'} + sum_{h in H_i} e^{s_ih}) ), s = z.z/tau,
    H_i the num_hard_negatives rows of other classes that are most similar to i (all, where there are fewer).
    Source: SCL-HNM (LREC 2026), eq. 2. With as many hard negatives as rows it is supervised contrast.

    Args:
        tau: temperature, > 0 (paper: 0.05).
        num_hard_negatives: the paper's k, >= 1 (paper: 5).
        positives: of texts with several labels, see `losses.shared_labels.same_label`.
        anchors: the mean is over those `with_positives`, or over `all`, the others counting 0, as in published code.

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(
        self,
        tau: Annotated[float, "> 0"] = 0.05,
        num_hard_negatives: Annotated[int, ">= 1"] = 5,
        anchors: Anchors = "with_positives",
        positives: Positives = "any_label",
    ) -> None:
        super().__init__()
        self.tau = check_tau(tau)
        if num_hard_negatives < 1:
            raise ValueError(f"num_hard_negatives must be >= 1, got {num_hard_negatives}")
        self.num_hard_negatives = num_hard_negatives
        self.positives = check_positives(positives)
        self.anchors = check_choice("anchors", anchors, get_args(Anchors))

    @full_precision
    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The loss of a batch; builds tensors of B x B.

        Args:
            embeddings: (B, D) L2-normalised.
            labels: (B,) integers of any value, or (B, C) of 0 and 1 where texts have several labels.

        Returns:
            Scalar >= 0; 0 with zero gradient where no anchor has a positive.

        Raises:
            ValueError: shapes that do not fit.
        """
        check_labelled_rows(embeddings, labels)
        logits = embeddings @ embeddings.T / self.tau
        same_class = same_label(labels, self.positives)
        itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        positive = same_class & ~itself
        number = positive.sum(1)
        is_anchor = number > 0
        negative = ~same_class & ~itself
        log_total = masked_log_sum_exp(logits, positive | self._hardest(logits.detach(), negative))
        mean_positive = logits.masked_fill(~positive, 0.0).sum(1) / number.clamp_min(1)
        rows = (log_total - mean_positive).masked_fill(~is_anchor, 0.0)
        counted = is_anchor if self.anchors == "with_positives" else torch.ones_like(is_anchor)
        return rows.sum() / counted.sum().clamp_min(1)

    def _hardest(self, logits: Tensor, negative: Tensor) -> Tensor:
        """Mask (B, B) of each row's most similar negatives."""
        number = min(self.num_hard_negatives, len(logits))
        places = logits.masked_fill(~negative, -torch.inf).topk(number, dim=1).indices
        return torch.zeros_like(negative).scatter(1, places, True) & negative
