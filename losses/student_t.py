"""Soft assignments by Student's t to cluster centres, and the divergence from their sharpened targets (DEC, SCCL)."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from losses.arguments import check_positive, full_precision


@full_precision
def student_t_log_assignments(embeddings: Tensor, centres: Tensor, alpha: float = 1.0) -> Tensor:
    """log q_ij, q_ij proportional to (1 + |e_i - c_j|^2 / alpha)^(-(alpha + 1) / 2), (N, D) and (M, D) -> (N, M).

    Source: Xie et al. (ICML 2016), eq. 1; SCCL (Zhang et al., NAACL 2021).

    Raises:
        ValueError: alpha <= 0, or shapes that do not fit.
    """
    check_positive("alpha", alpha)
    if embeddings.dim() != 2 or centres.dim() != 2 or embeddings.shape[1] != centres.shape[1]:
        shapes = f"{tuple(embeddings.shape)} and {tuple(centres.shape)}"
        raise ValueError(f"embeddings must be (N, D) and centres (M, D), got {shapes}")
    squares = embeddings.square().sum(1, keepdim=True) + centres.square().sum(1)
    distances = (squares - 2 * embeddings @ centres.T).clamp_min(0.0)
    return (-(alpha + 1) / 2 * (distances / alpha).log1p()).log_softmax(1)


@full_precision
def sharpened_targets(log_assignments: Tensor, log_frequencies: Tensor | None = None) -> Tensor:
    """Targets p_ij proportional to q_ij^2 / f_j, rows of 1, without gradient, (N, M) -> (N, M).

    Source: Xie et al. (ICML 2016), eq. 3; SCCL.

    Args:
        log_assignments: log q.
        log_frequencies: log f, (M,): by default f_j = sum_i q_ij of these rows, as SCCL does within a batch. DEC takes
            the sum over all texts.
    """
    log_q = log_assignments.detach()
    if log_frequencies is None:
        log_frequencies = log_q.logsumexp(0)
    return (2 * log_q - log_frequencies).softmax(1)


class StudentTClusteringLoss(nn.Module):
    """KL(p || q), mean over texts, q (N, M) by Student's t and p (N, M) its sharpened targets.

    Source: Xie et al. (ICML 2016), eq. 2; SCCL (Zhang et al., NAACL 2021).

    Args:
        alpha: degrees of freedom, > 0 (SCCL: 1, and 10 for StackOverflow and Biomedical).

    Raises:
        ValueError: alpha <= 0.
    """

    def __init__(self, alpha: Annotated[float, "> 0"] = 1.0) -> None:
        super().__init__()
        self.alpha = check_positive("alpha", alpha)

    @full_precision
    def forward(self, embeddings: Tensor, centres: Tensor, targets: Tensor | None = None) -> Tensor:
        """The loss of a batch.

        Args:
            embeddings: (N, D), not normalised.
            centres: (M, D).
            targets: p, (N, M); by default :func:`sharpened_targets` of this batch.

        Returns:
            Scalar >= 0; 0 for no text or one cluster.
        """
        log_q = student_t_log_assignments(embeddings, centres, self.alpha)
        p = sharpened_targets(log_q) if targets is None else targets.detach()
        return (torch.xlogy(p, p) - p * log_q).sum() / max(1, len(log_q))
