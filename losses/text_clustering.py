"""Totals of the clustering baselines SCCL and RSTC: contrast of two views beside a term that clusters."""

from __future__ import annotations

from typing import Annotated

from torch import Tensor, nn
from torch.nn import functional

from losses.arguments import check_not_negative, check_tau, full_precision
from losses.info_nce import info_nce
from losses.student_t import StudentTClusteringLoss


class SCCLLoss(nn.Module):
    """eta NT-Xent of the two views (N, P) + KL(p || q) of Student-t assignments of the originals (N, D).

    Source: SCCL (Zhang et al., NAACL 2021); its published code for eta.

    Args:
        tau: temperature of the contrast, > 0 (published: 0.5).
        alpha: degrees of freedom, > 0 (published: 1; 10 for StackOverflow and Biomedical).
        contrastive_weight: eta, >= 0 (published: 10).

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(
        self,
        tau: Annotated[float, "> 0", "with contrastive_weight>0"] = 0.5,
        alpha: Annotated[float, "> 0"] = 1.0,
        contrastive_weight: Annotated[float, ">= 0"] = 10.0,
    ) -> None:
        super().__init__()
        self.tau, self.clustering = check_tau(tau), StudentTClusteringLoss(alpha)
        self.contrastive_weight = check_not_negative("contrastive_weight", contrastive_weight)

    def forward(self, views_a: Tensor, views_b: Tensor, embeddings: Tensor, centres: Tensor) -> dict[str, Tensor]:
        """"loss", "contrastive" and "clustering" of a batch.

        Args:
            views_a: (N, P) L2-normalised projections of the first views.
            views_b: (N, P) of the second views.
            embeddings: (N, D) of the original texts.
            centres: (M, D).
        """
        contrastive = info_nce(views_a, views_b, self.tau)
        clustering = self.clustering(embeddings, centres)
        total = self.contrastive_weight * contrastive + clustering
        return {"loss": total, "contrastive": contrastive, "clustering": clustering}


class RSTCLoss(nn.Module):
    """eta NT-Xent of the two views (N, P) + cross-entropy of both views' logits (2, N, M) with pseudo-labels.

    Source: RSTC (Zheng et al., ACL 2023).

    Args:
        tau: temperature of the contrast, > 0 (published: 1).
        contrastive_weight: eta, >= 0 (published: 10).

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(
        self,
        tau: Annotated[float, "> 0", "with contrastive_weight>0"] = 1.0,
        contrastive_weight: Annotated[float, ">= 0"] = 10.0,
    ) -> None:
        super().__init__()
        self.tau, self.contrastive_weight = check_tau(tau), check_not_negative("contrastive_weight", contrastive_weight)

    @full_precision
    def forward(self, views_a: Tensor, views_b: Tensor, logits: Tensor, pseudo_labels: Tensor) -> dict[str, Tensor]:
        """"loss", "contrastive" and "pseudo" of a batch.

        Args:
            views_a: (N, P) L2-normalised projections of the first views.
            views_b: (N, P) of the second views.
            logits: (2, N, M) of the cluster head.
            pseudo_labels: (N,) in [0, M).
        """
        contrastive = info_nce(views_a, views_b, self.tau)
        cross_entropy = functional.cross_entropy(logits.flatten(0, 1), pseudo_labels.repeat(2), reduction="sum")
        pseudo = cross_entropy / max(1, len(pseudo_labels))
        return {"loss": self.contrastive_weight * contrastive + pseudo, "contrastive": contrastive, "pseudo": pseudo}
