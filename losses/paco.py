"""Parametric contrastive learning: class centres and samples in one softmax."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from losses.arguments import check_not_negative, check_positive, check_rows, check_share, check_tau, full_precision
from losses.class_prior import log_prior
from losses.log_sum_exp import masked_log_sum_exp


class ParametricContrastiveLoss(nn.Module):
    """PaCo and GPaCo: one softmax over class logits (A, C), the other anchors (A, D) and further keys.

    With f' = (f + adjustment_strength log P) / logit_temperature, s = z.z/tau and q the softmax over f' (all classes)
    and contrast_weight e^s (all other anchors and all keys),
    L_i = -( b sum_c t_ic log q_ic + a sum_{p in P_i} log q_ip ) / (b + a |P_i|), t_i the smoothed label,
    P_i the rows of i's class; averaged over anchors. An anchor whose weights add up to 0 is left out.
    Source: Cui et al. (ICCV 2021), eqs. 5 and 6; smoothing: Cui et al. (TPAMI 2023), as published in code.

    Args:
        tau: temperature of similarities, > 0.
        positive_weight: a (alpha of the paper) of each positive, >= 0; the larger the queue, the smaller it should be.
        centre_weight: b (beta of the code) of the class centres, >= 0.
        contrast_weight: gamma of the code, >= 0: of similarities in the denominator.
        logit_temperature: "supt" of the code, > 0.
        adjustment_strength: factor of the log prior, >= 0; 0 leaves it out.
        label_smoothing: share of a centre's target that the other classes divide among them, in [0, 1).

    Raises:
        ValueError: an argument out of range.
    """

    needs_every_class = True

    def __init__(
        self,
        tau: Annotated[float, "> 0"] = 0.2,
        positive_weight: Annotated[float, ">= 0"] = 0.05,
        centre_weight: Annotated[float, ">= 0"] = 1.0,
        contrast_weight: Annotated[float, ">= 0"] = 1.0,
        logit_temperature: Annotated[float, "> 0"] = 1.0,
        adjustment_strength: Annotated[float, ">= 0"] = 1.0,
        label_smoothing: Annotated[float, ">= 0", "< 1"] = 0.0,
    ) -> None:
        super().__init__()
        self.tau = check_tau(tau)
        check_share("label_smoothing", label_smoothing, may_be_1=False)
        self.positive_weight = check_not_negative("positive_weight", positive_weight)
        self.centre_weight = check_not_negative("centre_weight", centre_weight)
        self.contrast_weight = check_not_negative("contrast_weight", contrast_weight)
        self.logit_temperature = check_positive("logit_temperature", logit_temperature)
        self.adjustment_strength = check_not_negative("adjustment_strength", adjustment_strength)
        self.label_smoothing = label_smoothing

    @full_precision
    def forward(
        self, anchors: Tensor, logits: Tensor, labels: Tensor, keys: Tensor, key_labels: Tensor, class_counts: Tensor
    ) -> Tensor:
        """The loss of a batch; its largest tensors are A x (A + M).

        Args:
            anchors: (A, D) L2-normalised; each contrasts with the others too.
            logits: (A, C) of the anchors, without the prior.
            labels: (A,) in [0, C).
            keys: (M, D) L2-normalised: key views and queue; M may be 0.
            key_labels: (M,).
            class_counts: (C,) training rows of each class, each >= 1.

        Returns:
            Scalar; 0 with zero gradient without anchors.

        Raises:
            ValueError: shapes that do not fit.
        """
        check_rows("anchors", anchors, labels)
        check_rows("keys", keys, key_labels)
        if logits.shape != (len(anchors), len(class_counts)):
            raise ValueError(f"logits must be ({len(anchors)}, {len(class_counts)}), got {tuple(logits.shape)}")
        prior = self.adjustment_strength * log_prior(class_counts).to(logits)
        centres = (logits + prior) / self.logit_temperature
        similarity = anchors @ torch.cat([anchors, keys.to(anchors)]).T / self.tau
        not_self = ~torch.eye(*similarity.shape, dtype=torch.bool, device=labels.device)
        positive = (labels[:, None] == torch.cat([labels, key_labels])) & not_self

        contrast = masked_log_sum_exp(similarity, not_self) + similarity.new_tensor(self.contrast_weight).log()
        log_total = torch.logaddexp(centres.logsumexp(1), contrast)
        centre_terms = self.centre_weight * (self._smoothed(centres, labels) - log_total)
        number = positive.sum(1).to(similarity)  # a whole number times a float would be float32
        positive_terms = similarity.masked_fill(~positive, 0.0).sum(1) - number * log_total
        weight = self.centre_weight + self.positive_weight * number
        takes_part = weight > 0
        values = (centre_terms + self.positive_weight * positive_terms) / torch.where(takes_part, weight, 1.0)
        return -values.sum() / takes_part.sum().clamp_min(1)

    def _smoothed(self, centres: Tensor, labels: Tensor) -> Tensor:
        """sum_c t_ic f'_ic: all on the label, or a share spread over the other classes where there are any."""
        target_logits = centres.gather(1, labels[:, None]).squeeze(1)
        others = centres.shape[1] - 1
        if not others or not self.label_smoothing:
            return target_logits
        share = self.label_smoothing
        return (1 - share) * target_logits + share / others * (centres.sum(1) - target_logits)
