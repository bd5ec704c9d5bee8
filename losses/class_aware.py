"""Class-aware contrast of CCSSL: supervised contrast weighted by the confidence of pseudo-labels."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional

from losses.aecl import AECLLoss
from losses.arguments import check_share, check_tau, full_precision


class ClassAwareContrastiveLoss(nn.Module):
    """L = 1/(2N) sum_i -( sum_{k != i} w_ik log softmax_k(z_i.z_k / tau) ) / sum_{k != i} w_ik over the 2N views.

    w_ik = p_i p_k where the texts of i and k have one pseudo-label, else 0, p the confidence; 1 for the two views of a
    text. A text less confident than the threshold attracts its own other view alone.
    Source: CCSSL (Yang et al., CVPR 2022); the unit diagonal from its published code. `forward` takes embeddings
    (2N, D), view-major, pseudo-labels (N,) and their confidence (N,).

    Args:
        tau: temperature, > 0 (published: 0.07).
        threshold: of the confidence, in [0, 1] (published: 0.6 to 0.9).

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(
        self, tau: Annotated[float, "> 0"] = 0.07, threshold: Annotated[float, ">= 0", "<= 1"] = 0.9
    ) -> None:
        super().__init__()
        check_share("threshold", threshold)
        self.tau, self.threshold = check_tau(tau), threshold

    @full_precision
    def forward(self, embeddings: Tensor, pseudo_labels: Tensor, confidence: Tensor) -> Tensor:
        """The loss of a batch; its largest tensor is 2N x 2N.

        Args:
            embeddings: (2N, D), view-major, L2-normalised.
            pseudo_labels: (N,).
            confidence: (N,) in [0, 1].

        Returns:
            Scalar >= 0; 0 with zero gradient for fewer than two texts.

        Raises:
            ValueError: shapes that do not fit.
        """
        size = len(pseudo_labels)
        if embeddings.dim() != 2 or len(embeddings) != 2 * size or confidence.shape != (size,):
            shapes = f"{tuple(embeddings.shape)} and {tuple(confidence.shape)}"
            raise ValueError(f"embeddings must be ({2 * size}, D) and confidence ({size},), got {shapes}")
        if size < 2:
            return embeddings.sum() * 0.0
        diagonal = torch.eye(2 * size, dtype=torch.bool, device=embeddings.device)
        log_p = (embeddings @ embeddings.T / self.tau).masked_fill(diagonal, -torch.inf).log_softmax(1)
        weights = self._weights(pseudo_labels, confidence.to(embeddings)).repeat(2, 2).masked_fill(diagonal, 0.0)
        return -((weights * log_p.masked_fill(diagonal, 0.0)).sum(1) / weights.sum(1)).mean()

    def _weights(self, pseudo_labels: Tensor, confidence: Tensor) -> Tensor:
        """(N, N) over texts, with 1 on the diagonal."""
        counted = confidence.detach() * (confidence > self.threshold)
        weights = counted[:, None] * counted * (pseudo_labels[:, None] == pseudo_labels)
        return weights.fill_diagonal_(1.0)


class ClassAwareClusteringLoss(AECLLoss):
    """AECL's stages with :class:`ClassAwareContrastiveLoss` in the place of L_I.

    CCSSL is semi-supervised; here its pseudo-labels are the cluster assignments of the first views.
    Source: CCSSL (Yang et al., CVPR 2022), as AECL (Yao and Li, Neural Networks 2025) compares it in Fig. 5. Shapes as
    in `AECLLoss`: z (2, N, D) and logits (2, N, M) count, h and S do not.

    Args:
        instance_tau: temperature of the class-aware contrast, > 0.
        contrast_threshold: of its confidence, in [0, 1]; a text below it attracts its own other view alone.
        cluster_tau: temperature of L_C, > 0. This and the next ones: as in `AECLLoss`.
        positive_in_denominator: of L_C.
        threshold: of a confident assignment, in [0, 1].
        instance_weight: of the class-aware contrast, in the place of L_I, >= 0.
        pseudo_weight: of L_P, >= 0.
        row_entropy_weight: of L_E1, >= 0.
        balance_weight: of L_E2, >= 0.
    """

    def __init__(
        self,
        instance_tau: Annotated[float, "> 0", "with instance_weight>0"] = 0.5,
        contrast_threshold: Annotated[float, ">= 0", "<= 1", "with instance_weight>0"] = 0.9,
        cluster_tau: Annotated[float, "> 0"] = 1.0,
        positive_in_denominator: bool = False,
        threshold: Annotated[float, ">= 0", "<= 1", "with pseudo_weight>0"] = 0.95,
        instance_weight: Annotated[float, ">= 0"] = 10.0,
        pseudo_weight: Annotated[float, ">= 0"] = 5.0,
        row_entropy_weight: Annotated[float, ">= 0"] = 0.01,
        balance_weight: Annotated[float, ">= 0"] = 0.18,
    ) -> None:
        super().__init__(
            instance_tau=instance_tau,
            cluster_tau=cluster_tau,
            positive_in_denominator=positive_in_denominator,
            threshold=threshold,
            instance_weight=instance_weight,
            pseudo_weight=pseudo_weight,
            row_entropy_weight=row_entropy_weight,
            balance_weight=balance_weight,
        )
        self.class_aware = ClassAwareContrastiveLoss(instance_tau, contrast_threshold)

    def contrast(self, embeddings: Tensor, consistent: Tensor, attention: Tensor, logits: Tensor) -> Tensor:
        """The class-aware contrast of z; attention and h have no part in it."""
        confidence, clusters = logits.softmax(1).max(1)
        return self.class_aware(functional.normalize(embeddings, dim=2).flatten(0, 1), clusters, confidence)
