"""AECL: similarity-guided contrast, contrast of clusters, pseudo-labels and two entropies, by stages."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from torch import Tensor, nn

from losses.arguments import check_choice, check_not_negative, check_share
from losses.clusters import (
    ClusterContrastiveLoss,
    assignment_entropy,
    balance_entropy,
    confident_clusters,
    divergence_from_uniform,
    pseudo_label_cross_entropy,
)
from losses.similarity_guided import AttentionWeights, Directions, GuidedPairs, Positives, Rows, SimilarityGuidedLoss

Stage = Literal[1, 2, 3]
Entropies = Literal["raised", "as_printed"]
Balance = Literal["entropy", "divergence_from_uniform"]


class AECLLoss(nn.Module):
    """The totals of AECL's three stages, eq. 14 and 15.

    1: instance_weight L_I; 2: + pseudo_weight L_P, the labels from k-means; 3: L_C + instance_weight L_I +
    pseudo_weight L_P - row_entropy_weight L_E1 - balance_weight L_E2, the labels from confident assignments.

    Both entropies are raised: the rows, so that no label is confident too early, and the mean, so that no cluster takes
    all. Eq. 15 prints plus signs, which would do the opposite of what its text says.
    Source: AECL (Yao and Li, Neural Networks 2025). Shapes: see `forward`.

    Args:
        instance_tau: temperature of L_I, > 0. This and the next seven: see :class:`SimilarityGuidedLoss`.
        guided: whether a text also attracts what it attends to in its cluster (eq. 7).
        directions: `one_log` as printed, or `log_each`.
        guided_pairs: `across` as printed, or `all`.
        weight_floor: added to the attention inside a cluster, >= 0.
        positives: `same_cluster` as printed, `others_of_cluster` or `all`.
        attention_weights: `trained`, or `constant`: no gradient through the weights of eq. 7.
        rows: `own` as printed, or `every`: what the published code computes by a broadcast.
        cluster_tau: temperature of L_C, > 0. This and the next: see :class:`ClusterContrastiveLoss`.
        positive_in_denominator: of L_C, as in the published code.
        threshold: of a confident assignment, in [0, 1].
        entropies: `raised`, or `as_printed`.
        balance: `entropy` is L_E2 as in eq. 13; `divergence_from_uniform` is 2 log M - 2 L_E2 (published code), the
            same gradient twice as large, and 0 at balance.
        instance_weight: of L_I, lambda_1 of the paper, >= 0.
        pseudo_weight: of L_P, lambda_2, >= 0.
        row_entropy_weight: of L_E1, lambda_3, >= 0.
        balance_weight: of L_E2, lambda_4, >= 0 (the paper: 0.09 for heavily imbalanced sets, 0.18 for slightly
            imbalanced ones, 10 for balanced).

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(
        self,
        instance_tau: Annotated[float, "> 0", "with instance_weight>0"] = 0.5,
        cluster_tau: Annotated[float, "> 0"] = 1.0,
        guided: Annotated[bool, "with instance_weight>0"] = True,
        directions: Annotated[Directions, "with instance_weight>0"] = "one_log",
        guided_pairs: Annotated[GuidedPairs, "with guided=True", "with instance_weight>0"] = "across",
        weight_floor: Annotated[float, ">= 0", "with guided=True", "with instance_weight>0"] = 0.0,
        positives: Annotated[Positives, "with guided=True", "with instance_weight>0"] = "same_cluster",
        attention_weights: Annotated[AttentionWeights, "with guided=True", "with instance_weight>0"] = "trained",
        rows: Annotated[Rows, "with instance_weight>0"] = "own",
        positive_in_denominator: bool = False,
        threshold: Annotated[float, ">= 0", "<= 1", "with pseudo_weight>0"] = 0.95,
        entropies: Annotated[Entropies, "with row_entropy_weight>0 or balance_weight>0"] = "raised",
        balance: Annotated[Balance, "with balance_weight>0"] = "entropy",
        instance_weight: Annotated[float, ">= 0"] = 10.0,
        pseudo_weight: Annotated[float, ">= 0"] = 5.0,
        row_entropy_weight: Annotated[float, ">= 0"] = 0.01,
        balance_weight: Annotated[float, ">= 0"] = 0.18,
    ) -> None:
        super().__init__()
        weights = {
            "instance_weight": instance_weight,
            "pseudo_weight": pseudo_weight,
            "row_entropy_weight": row_entropy_weight,
            "balance_weight": balance_weight,
        }
        for name, value in weights.items():
            check_not_negative(name, value)
        check_share("threshold", threshold)
        self.weights, self.threshold = weights, threshold
        self.entropies = check_choice("entropies", entropies, get_args(Entropies))
        self.balance = check_choice("balance", balance, get_args(Balance))
        self.instance = SimilarityGuidedLoss(
            instance_tau, guided, directions, guided_pairs, weight_floor, positives, attention_weights, rows
        )
        self.cluster = ClusterContrastiveLoss(cluster_tau, positive_in_denominator)

    def forward(
        self,
        stage: Stage,
        embeddings: Tensor,
        consistent: Tensor,
        attention: Tensor,
        logits: Tensor,
        pseudo_labels: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """The stage's total as "loss", and the parts that it has, unweighted.

        Args:
            stage: 1, 2 or 3.
            embeddings: z, (2, N, D), views first.
            consistent: h, (2, N, D).
            attention: S, (2, N, N).
            logits: (2, N, M) of the cluster assignments.
            pseudo_labels: (N,), those of k-means; for stage 2 alone.

        Raises:
            ValueError: shapes that do not fit, or no pseudo-labels in stage 2.
        """
        check_choice("stage", stage, get_args(Stage))
        instance = self.contrast(embeddings, consistent, attention, logits[0])
        parts = {"instance": instance}
        total = self.weights["instance_weight"] * instance
        if stage == 1:
            return {"loss": total, **parts}
        if stage == 3:
            pseudo_labels = confident_clusters(logits[0], self.threshold)
        elif pseudo_labels is None:
            raise ValueError("pseudo_labels must be given in stage 2")
        parts["pseudo"] = pseudo_label_cross_entropy(logits[1], pseudo_labels)
        total = total + self.weights["pseudo_weight"] * parts["pseudo"]
        if stage == 2:
            return {"loss": total, **parts}
        parts |= {
            "cluster": self.cluster(logits[0], logits[1]),
            "row_entropy": assignment_entropy(logits[0]),
            "balance_entropy": balance_entropy(logits[0], logits[1]),
        }
        return {"loss": total + parts["cluster"] + self._entropies(logits, parts), **parts}

    def contrast(self, embeddings: Tensor, consistent: Tensor, attention: Tensor, logits: Tensor) -> Tensor:
        """L_I; logits (N, M) are those of the first views."""
        return self.instance(embeddings, consistent, attention, logits.argmax(1))

    def _entropies(self, logits: Tensor, parts: dict[str, Tensor]) -> Tensor:
        sign = -1.0 if self.entropies == "raised" else 1.0
        balance = sign * parts["balance_entropy"]
        if self.balance == "divergence_from_uniform":
            balance = -sign * divergence_from_uniform(logits[0], logits[1])
        weights = self.weights
        return sign * weights["row_entropy_weight"] * parts["row_entropy"] + weights["balance_weight"] * balance
