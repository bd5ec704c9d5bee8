"""DualCL: texts against the label representations of other texts, and the reverse."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import torch
from torch import Tensor, nn

from losses.arguments import check_choice, check_rows, check_tau, full_precision

Denominator = Literal["others", "others_and_one"]
Anchors = Literal["with_positives", "all"]


class DualContrastiveLoss(nn.Module):
    """Half the contrast of label representations with texts, and half that of texts with label representations.

    With s_ij = theta_i.z_j / tau and P_i the other texts of the class of i, for the first half
    L_i = -1/|P_i| sum_{p in P_i} log( exp(s_ip) / sum_{j != i} exp(s_ij) ); the second half has s transposed.
    Source: Chen et al. (2022), eqs. 7 and 8; readings that its published code takes are options.
    Shapes: see `forward`.

    Args:
        tau: temperature, > 0 (published: 0.1).
        denominator: `others`, as printed; `others_and_one` has 1 more in it, as in code, where the similarity of a text
            with itself is set to 0 before the exponential.
        anchors: the mean is over those `with_positives`, or over `all`, the others counting 0, as in code.

    Raises:
        ValueError: tau <= 0 or an unknown reading.
    """

    def __init__(
        self,
        tau: Annotated[float, "> 0"] = 0.1,
        denominator: Denominator = "others",
        anchors: Anchors = "with_positives",
    ) -> None:
        super().__init__()
        self.tau = check_tau(tau)
        self.denominator = check_choice("denominator", denominator, get_args(Denominator))
        self.anchors = check_choice("anchors", anchors, get_args(Anchors))

    @full_precision
    def forward(self, embeddings: Tensor, label_embeddings: Tensor, labels: Tensor) -> Tensor:
        """The loss of a batch; builds tensors of B x B.

        Args:
            embeddings: z, (B, D) of the texts, L2-normalised.
            label_embeddings: theta, (B, D): in each text, the representation of its own class, L2-normalised.
            labels: (B,) integers of any value.

        Returns:
            Scalar; 0 with zero gradient where no class has two texts.

        Raises:
            ValueError: shapes that do not fit.
        """
        check_rows("embeddings", embeddings, labels)
        if label_embeddings.shape != embeddings.shape:
            raise ValueError(
                f"label_embeddings must be {tuple(embeddings.shape)}, got {tuple(label_embeddings.shape)}"
            )
        similarity = label_embeddings @ embeddings.T / self.tau
        self_pair = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        positive = (labels[:, None] == labels) & ~self_pair
        return (self._contrast(similarity, positive, self_pair) + self._contrast(similarity.T, positive, self_pair)) / 2

    def _contrast(self, logits: Tensor, positive: Tensor, self_pair: Tensor) -> Tensor:
        number = positive.sum(1)
        is_anchor = number > 0
        in_place_of_self = -torch.inf if self.denominator == "others" else 0.0
        # a row that is no anchor may have no denominator, and has no loss
        total = logits.masked_fill(self_pair, in_place_of_self).masked_fill(~is_anchor[:, None], 0.0).logsumexp(1)
        mean_positive = logits.masked_fill(~positive, 0.0).sum(1) / number.clamp_min(1)
        rows = (total - mean_positive).masked_fill(~is_anchor, 0.0)
        counted = is_anchor if self.anchors == "with_positives" else torch.ones_like(is_anchor)
        return rows.sum() / counted.sum().clamp_min(1)
