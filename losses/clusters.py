"""Losses of soft cluster assignments: contrast of clusters, entropies, pseudo-labels."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional

from losses.arguments import check_tau, full_precision
from losses.log_sum_exp import masked_log_sum_exp


class ClusterContrastiveLoss(nn.Module):
    """AECL, eq. 10 and 11: a cluster's columns in the two views attract, the columns of other clusters repel.

    L = 1/(2M) sum_i sum_v -log( e^{s(P^v_:i, P^{1-v}_:i)/tau} / sum_{k != i, u} e^{s(P^v_:i, P^u_:k)/tau} ),
    with s the cosine of two columns of the (N, M) assignments.

    The columns are normalised in logarithms, so that the cosine of a cluster that no text is in keeps its digits.

    Args:
        tau: temperature, > 0 (published code 1, paper 0.5).
        positive_in_denominator: as in the published code; as printed it is not, and the loss can be negative.

    Raises:
        ValueError: tau <= 0.
    """

    def __init__(self, tau: Annotated[float, "> 0"] = 1.0, positive_in_denominator: bool = False) -> None:
        super().__init__()
        self.tau, self.positive_in_denominator = check_tau(tau), positive_in_denominator

    @full_precision
    def forward(self, logits_a: Tensor, logits_b: Tensor) -> Tensor:
        """The loss of a batch; its largest tensor is 2M x max(N, 2M).

        Args:
            logits_a: (N, M) cluster logits of the first views.
            logits_b: (N, M) of the second views.

        Returns:
            Scalar; 0 with zero gradient for one cluster or no text.

        Raises:
            ValueError: shapes that do not fit.
        """
        _check_views(logits_a, logits_b)
        size, clusters = logits_a.shape
        if size == 0 or clusters < 2:
            return (logits_a.sum() + logits_b.sum()) * 0.0
        log_columns = torch.cat([logits_a.log_softmax(1), logits_b.log_softmax(1)], dim=1)
        columns = (log_columns - 0.5 * (2 * log_columns).logsumexp(0)).exp()
        similarity = columns.T @ columns / self.tau
        positive = torch.cat([similarity.diagonal(clusters), similarity.diagonal(-clusters)])
        others = ~torch.eye(clusters, dtype=torch.bool, device=similarity.device).repeat(2, 2)
        total = masked_log_sum_exp(similarity, others)
        if self.positive_in_denominator:
            total = torch.logaddexp(total, positive)
        return (total - positive).mean()


@full_precision
def assignment_entropy(logits: Tensor) -> Tensor:
    """AECL, eq. 5: -1/N sum_ij P_ij log P_ij of the softmax P of (N, M); in [0, log M], 0 for an empty batch."""
    log_p = logits.log_softmax(1)
    return -(log_p.exp() * log_p).sum() / max(1, len(logits))


@full_precision
def balance_entropy(logits_a: Tensor, logits_b: Tensor) -> Tensor:
    """AECL, eq. 13: -1/2 sum_v sum_j q^v_j log q^v_j of the mean assignment q^v of each view; in [0, log M].

    Args:
        logits_a: (N, M) of the first views.
        logits_b: (N, M) of the second views.

    Raises:
        ValueError: shapes that do not fit.
    """
    _check_views(logits_a, logits_b)
    if len(logits_a) == 0:
        return (logits_a.sum() + logits_b.sum()) * 0.0
    log_q = torch.stack([_log_mean_assignment(logits_a), _log_mean_assignment(logits_b)])
    return -(log_q.exp() * log_q).sum() / 2


@full_precision
def divergence_from_uniform(logits_a: Tensor, logits_b: Tensor) -> Tensor:
    """sum_v KL(q^v || uniform) = 2 log M - 2 :func:`balance_entropy`, >= 0, of logits (N, M) each -> scalar.

    Source: AECL's published code.
    """
    return 2 * math.log(max(1, logits_a.shape[1])) - 2 * balance_entropy(logits_a, logits_b)


def confident_clusters(logits: Tensor, threshold: float = 0.95) -> Tensor:
    """AECL, eq. 4: the largest column of each row (N, M) -> (N,), -1 where its probability is not above threshold."""
    largest, clusters = logits.detach().softmax(1).max(1)
    return clusters.masked_fill(largest <= threshold, -1)


@full_precision
def pseudo_label_cross_entropy(logits: Tensor, pseudo_labels: Tensor) -> Tensor:
    """AECL, eq. 12: -1/N sum_i log p_i[y_i]; rows with label -1 add 0 and count in N.

    Args:
        logits: (N, M).
        pseudo_labels: (N,) in [-1, M).
    """
    summed = functional.cross_entropy(logits, pseudo_labels, ignore_index=-1, reduction="sum")
    return summed / max(1, len(logits))


def _log_mean_assignment(logits: Tensor) -> Tensor:
    """log of the mean over rows of the softmax, (N, M) -> (M,)."""
    return logits.log_softmax(1).logsumexp(0) - math.log(len(logits))


def _check_views(logits_a: Tensor, logits_b: Tensor) -> None:
    if logits_a.dim() != 2 or logits_a.shape != logits_b.shape:
        raise ValueError(f"both views must be (N, M), got {tuple(logits_a.shape)} and {tuple(logits_b.shape)}")
