"""GML: classes as mixtures of Gaussians around their keys, by maximum likelihood."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor, nn

from losses.arguments import check_rows, check_tau, full_precision
from losses.class_prior import log_prior


@full_precision
def class_log_mean_exp(logits: Tensor, key_labels: Tensor, num_classes: int, mask: Tensor | None = None) -> Tensor:
    """log of the mean over the keys of each class of e^{x_k}; -inf where a class has none. Shapes: (A, M) -> (A, C).

    Source: Suh and Seo (ICML 2023), the likelihood of a Gaussian mixture with a component for each key.

    Args:
        logits: (A, M).
        key_labels: (M,) in [0, C).
        num_classes: C.
        mask: (A, M), which keys count for which row; all, where it is None.
    """
    counted = torch.ones_like(logits, dtype=torch.bool) if mask is None else mask
    shown = logits.masked_fill(~counted, -torch.inf)
    columns = key_labels.expand(len(logits), -1)
    empty = logits.new_full((len(logits), num_classes), -torch.inf)
    largest = empty.scatter_reduce(1, columns, shown.detach(), "amax").nan_to_num(neginf=0.0)
    terms = (shown - largest.gather(1, columns)).exp()
    total = torch.zeros_like(largest).index_add(1, key_labels, terms)
    number = torch.zeros_like(largest).index_add(1, key_labels, counted.to(terms))
    none = number == 0
    mean = total.masked_fill(none, 1.0) / number.clamp_min(1)
    return (mean.log() + largest).masked_fill(none, -torch.inf)


class GaussianMixtureLoss(nn.Module):
    """Cross-entropy of S + log P, S (A, C) with S_c(z_i) = log 1/|K_c| sum_{k in K_c} e^{z_i.z_k / tau}, twice.

    First over all keys with tau fixed, which moves the anchors; then over all keys but the anchor's own, with the
    anchors fixed, which moves tau. A class without keys takes no part, nor does an anchor whose class has none.
    Source: Suh and Seo (ICML 2023), with the temperature of its published code.
    Shapes: see `forward`.

    Args:
        tau: temperature at the start, > 0; its logarithm is learned.

    Raises:
        ValueError: tau <= 0.
    """

    needs_every_class = True

    def __init__(self, tau: Annotated[float, "> 0"] = 0.07) -> None:
        super().__init__()
        self.log_tau = nn.Parameter(torch.tensor(math.log(check_tau(tau))))

    @full_precision
    def forward(
        self, anchors: Tensor, labels: Tensor, keys: Tensor, key_labels: Tensor, class_counts: Tensor
    ) -> Tensor:
        """The sum of both terms, each a mean over anchors; its largest tensor is A x (M + C).

        Args:
            anchors: (A, D) L2-normalised.
            labels: (A,) in [0, C).
            keys: (M, D) L2-normalised, M >= A; the first A are the anchors' own, in their order.
            key_labels: (M,) in [0, C).
            class_counts: (C,) training rows of each class, each >= 1.

        Returns:
            Scalar; 0 with zero gradient without anchors.

        Raises:
            ValueError: shapes that do not fit.
        """
        check_rows("anchors", anchors, labels)
        check_rows("keys", keys, key_labels)
        if len(keys) < len(anchors):
            raise ValueError(f"keys must begin with those of the {len(anchors)} anchors, got {len(keys)} of them")
        tau = self.log_tau.exp()
        keys = keys.detach().to(anchors)
        is_own = torch.eye(len(anchors), len(keys), dtype=torch.bool, device=anchors.device)
        scores = class_log_mean_exp(anchors @ keys.T / tau.detach(), key_labels, len(class_counts))
        fixed = class_log_mean_exp(anchors.detach() @ keys.T / tau, key_labels, len(class_counts), ~is_own)
        prior = log_prior(class_counts).to(anchors)
        return _present_cross_entropy(scores + prior, labels) + _present_cross_entropy(fixed + prior, labels)


def _present_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Over the rows (A, C) whose own class is not -inf; 0 where there are none."""
    own = logits.gather(1, labels[:, None]).squeeze(1)
    present = own > -torch.inf
    values = (logits.logsumexp(1) - own)[present]
    return values.sum() / present.sum().clamp_min(1)
