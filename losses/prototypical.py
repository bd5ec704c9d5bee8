"""Contrast of texts with class prototypes: PSC, and SPCL with texts beside the prototypes."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import torch
from torch import Tensor, nn

from losses.arguments import check_choice, check_rows, check_tau, full_precision
from losses.log_sum_exp import masked_log_sum_exp

Denominator = Literal["other_classes", "all_classes"]
SMALL = 1e-8  # added to the similarity in SPCL's published code


class PrototypicalContrastiveLoss(nn.Module):
    """PSC: each text of embeddings (B, D) is drawn to its class's prototype, of (C, D).

    L_i = -log( exp(z_i.p_{y_i} / tau) / sum_c exp(z_i.p_c / tau) ), mean over texts.
    Source: Wang et al. (CVPR 2021), eq. 6, whose sum is over c != y_i, so that the loss can be negative.

    Args:
        tau: temperature, > 0 (published: 0.1).
        denominator: `other_classes` as printed, or `all_classes`, an ordinary softmax.

    Raises:
        ValueError: tau <= 0 or an unknown denominator.
    """

    def __init__(self, tau: Annotated[float, "> 0"] = 0.1, denominator: Denominator = "other_classes") -> None:
        super().__init__()
        self.tau = check_tau(tau)
        self.denominator = check_choice("denominator", denominator, get_args(Denominator))

    @full_precision
    def forward(self, embeddings: Tensor, labels: Tensor, prototypes: Tensor) -> Tensor:
        """The loss of a batch; builds tensors of B x C.

        Args:
            embeddings: (B, D) L2-normalised.
            labels: (B,) in [0, C).
            prototypes: (C, D) L2-normalised.

        Returns:
            Scalar; 0 with zero gradient for an empty batch or a single class.

        Raises:
            ValueError: shapes that do not fit.
        """
        check_rows("embeddings", embeddings, labels)
        _check_prototypes(embeddings, prototypes)
        if len(prototypes) < 2 or not len(embeddings):
            return (embeddings.sum() + prototypes.sum()) * 0.0
        logits = embeddings @ prototypes.T.to(embeddings) / self.tau
        target_logits = logits.gather(1, labels[:, None]).squeeze(1)
        if self.denominator == "other_classes":
            logits = logits.scatter(1, labels[:, None], -torch.inf)
        return (logits.logsumexp(1) - target_logits).mean()


class SupervisedPrototypicalContrastiveLoss(nn.Module):
    """SPCL: the batch (B, D) and class prototypes (M, D) in one contrast, the sum over positives inside the logarithm.

    With s_ij = ((1 + z_i.z_j) / 2 + 1e-8) / tau over the batch and the prototypes without i, P_i those of the class:
    L_i = -log( 1/|P_i| sum_{p in P_i} exp(s_ip) / sum_k exp(s_ik) ), averaged over the texts whose L_i > margin.
    `decoupled`: L_i = log sum_{n not in P_i} exp(s_in) - 1/|P_i| sum_p s_ip, over the texts with L_i > 0.
    Source: Song et al. (EMNLP 2022) and its published code, for the margin and the decoupled form (there "spdcl").

    Args:
        tau: temperature, > 0 (published runs: 0.05).
        margin: texts with a loss up to this count as learned and leave the mean; not used by `decoupled`.
        decoupled: positives are not in the denominator.

    Raises:
        ValueError: tau <= 0.
    """

    def __init__(
        self,
        tau: Annotated[float, "> 0"] = 0.05,
        margin: Annotated[float, ">= 0", "with decoupled=False"] = 0.3,
        decoupled: bool = False,
    ) -> None:
        super().__init__()
        self.tau = check_tau(tau)
        self.margin, self.decoupled = margin, decoupled

    @full_precision
    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        prototypes: Tensor,
        prototype_labels: Tensor,
        admitted: Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch; builds tensors of B x (B + M).

        Args:
            embeddings: (B, D) L2-normalised; the anchors.
            labels: (B,) integers.
            prototypes: (M, D) L2-normalised, never anchors.
            prototype_labels: (M,) integers.
            admitted: (B,) true for the anchors that the curriculum lets in; None is all.

        Returns:
            Scalar >= 0; 0 with zero gradient where no anchor has a positive and a loss above the margin.

        Raises:
            ValueError: shapes that do not fit.
        """
        check_rows("embeddings", embeddings, labels)
        check_rows("prototypes", prototypes, prototype_labels)
        _check_prototypes(embeddings, prototypes)
        scores = ((1 + embeddings @ torch.cat([embeddings, prototypes.to(embeddings)]).T) / 2 + SMALL) / self.tau
        not_self = ~torch.eye(*scores.shape, dtype=torch.bool, device=scores.device)
        same_class = labels[:, None] == torch.cat([labels, prototype_labels])
        positive = same_class & not_self
        number = positive.sum(1)
        if self.decoupled:
            # without any negative there is nothing to push away, and no loss
            is_anchor = (number > 0) & ~same_class.all(1)
            attraction = scores.masked_fill(~positive, 0.0).sum(1) / number.clamp_min(1)
            rows = masked_log_sum_exp(scores, ~same_class) - attraction
        else:
            is_anchor = number > 0
            attraction = masked_log_sum_exp(scores, positive)
            rows = masked_log_sum_exp(scores, not_self) - attraction + number.clamp_min(1).to(scores).log()
        rows = rows.masked_fill(~is_anchor, 0.0)
        counts = is_anchor & (rows > (0.0 if self.decoupled else self.margin))
        if admitted is not None:
            counts = counts & admitted
        return rows.masked_fill(~counts, 0.0).sum() / counts.sum().clamp_min(1)


def _check_prototypes(embeddings: Tensor, prototypes: Tensor) -> None:
    if prototypes.dim() != 2 or prototypes.shape[1] != embeddings.shape[1]:
        raise ValueError(f"prototypes must be (C, {embeddings.shape[1]}), got {tuple(prototypes.shape)}")
