"""Similarity-guided contrast of AECL: rows that attend to each other inside a cluster are no negatives."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from losses.arguments import check_choice, check_not_negative, check_tau, full_precision
from losses.log_sum_exp import weighted_log_sum_exp

Directions = Literal["one_log", "log_each"]
GuidedPairs = Literal["across", "all"]
Rows = Literal["own", "every"]
Positives = Literal["same_cluster", "others_of_cluster", "all"]
AttentionWeights = Literal["trained", "constant"]


class SimilarityGuidedLoss(nn.Module):
    """AECL, eq. 6, 7 and 9: the two views of a text attract, and a text attracts what it attends to in its cluster.

    With z (2, N, D) of the texts, h (2, N, D) of the attention over the batch (view v in {0, 1}), s the cosine,
    S^v (N, N) the attention, Lambda_i the rows with i's cluster, i included, and every denominator without i itself:

    l1_i   = e^{s(z0_i, z1_i)/tau} / sum_{k != i} [e^{s(z0_i, z0_k)/tau} + e^{s(z0_i, z1_k)/tau}] + the same with 0, 1
    swapped,
    l2_i^v = sum_{j in Lambda_i} S^v_ij e^{s(z_i, h_j)/tau} / sum_{k != i} [e^{s(z_i, z_k)/tau} + e^{s(z_i, h_k)/tau}]
    + the same with z, h swapped,
    L      = 1/(2N) sum_i sum_v -log(l1_i + l2_i^v).

    No positive is in its denominator, so that L can be negative.

    Args:
        tau: temperature, > 0 (published code 0.5, paper 1).
        guided: whether l2 is there at all; without it the loss is plain contrast of two views.
        directions: `one_log` as printed; `log_each` takes a logarithm for each direction, 2N of them (published code).
        guided_pairs: `across` pairs a z with an h, as printed; `all` takes z-z and h-h pairs too, each text with its
            own row left out (published code).
        weight_floor: added to every S_ij inside a cluster, >= 0 (published code 1e-5).
        positives: `same_cluster` is Lambda_i; `others_of_cluster` leaves i out of it, whose weight S_ii alone could
            otherwise make l2 as large as it gets; `all` lets the attention alone decide.
        attention_weights: with `trained` the gradient flows through the S_ij of l2 too, and enlarges them where z_i
            and h_j agree anyway, at j = i; with `constant` it does not, only through h.
        rows: `own` adds l2 of a row to l1 of the same row. `every` combines the denominators and the guided term of
            each row with the positive of each other one, what the published code computes by a broadcast of
            (2N, 1) against (2N,); only with `log_each`.

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(
        self,
        tau: Annotated[float, "> 0"] = 0.5,
        guided: bool = True,
        directions: Directions = "one_log",
        guided_pairs: GuidedPairs = "across",
        weight_floor: Annotated[float, ">= 0"] = 0.0,
        positives: Positives = "same_cluster",
        attention_weights: AttentionWeights = "trained",
        rows: Rows = "own",
    ) -> None:
        super().__init__()
        self.tau, self.guided = check_tau(tau), guided
        self.weight_floor = check_not_negative("weight_floor", weight_floor)
        self.directions = check_choice("directions", directions, get_args(Directions))
        self.guided_pairs = check_choice("guided_pairs", guided_pairs, get_args(GuidedPairs))
        self.positives = check_choice("positives", positives, get_args(Positives))
        self.attention_weights = check_choice("attention_weights", attention_weights, get_args(AttentionWeights))
        self.rows = check_choice("rows", rows, get_args(Rows))
        if rows == "every" and directions != "log_each":
            raise ValueError(f"directions must be log_each with rows=every, got {directions!r}")

    @full_precision
    def forward(self, embeddings: Tensor, consistent: Tensor, attention: Tensor, clusters: Tensor) -> Tensor:
        """The loss of a batch; its largest tensor is 2N x 2N.

        Args:
            embeddings: z, (2, N, D), views first; normalised here.
            consistent: h, (2, N, D).
            attention: S, (2, N, N), entries >= 0.
            clusters: (N,) of the first view.

        Returns:
            Scalar; 0 with zero gradient for fewer than two texts.

        Raises:
            ValueError: shapes that do not fit.
        """
        size = clusters.shape[0]
        if embeddings.shape[:2] != (2, size) or consistent.shape != embeddings.shape:
            shapes = f"{tuple(embeddings.shape)} and {tuple(consistent.shape)}"
            raise ValueError(f"embeddings and consistent must be (2, {size}, D), got {shapes}")
        if attention.shape != (2, size, size):
            raise ValueError(f"attention must be (2, {size}, {size}), got {tuple(attention.shape)}")
        if size < 2:
            return (embeddings.sum() + consistent.sum()) * 0.0
        z, h = functional.normalize(embeddings, dim=2), functional.normalize(consistent, dim=2)
        logits, log_others = self._contrast(z[0], z[1])
        positive = torch.cat([logits.diagonal(size), logits.diagonal(-size)])
        if not self.guided:
            return -self._log_sums(positive, log_others, None).mean()
        weights = self._weights(attention, clusters)
        views = [self._guided(z[v], h[v], weights[v]) for v in (0, 1)]
        return -torch.stack([self._log_sums(positive, log_others, guided).mean() for guided in views]).mean()

    def _contrast(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (2N, 2N) of both together, and the log denominator of each row, without the row's own text."""
        views = torch.cat([first, second])
        logits = views @ views.T / self.tau
        same_text = torch.eye(len(first), dtype=torch.bool, device=views.device).repeat(2, 2)
        return logits, logits.masked_fill(same_text, -torch.inf).logsumexp(1)

    def _weights(self, attention: Tensor, clusters: Tensor) -> Tensor:
        """(2, 2N, N) for pairs of z and h, (2, 2N, 2N) for all: S inside clusters, 0 elsewhere."""
        columns = 1 if self.guided_pairs == "across" else 2
        weights = (attention.detach() if self.attention_weights == "constant" else attention).repeat(1, 2, columns)
        if self.guided_pairs == "all":
            weights = weights * ~torch.eye(weights.shape[1], dtype=torch.bool, device=weights.device)
        weights = weights + self.weight_floor
        if self.positives == "all":
            return weights
        allowed = clusters[:, None] == clusters
        if self.positives == "others_of_cluster":
            allowed = allowed.fill_diagonal_(False)
        return weights * allowed.repeat(2, columns)

    def _guided(self, z: Tensor, h: Tensor, weights: Tensor) -> Tensor:
        """log of each direction's guided term, (2N,); -inf where a row attends to nothing in its cluster."""
        logits, log_others = self._contrast(z, h)
        if self.guided_pairs == "across":
            size = len(z)
            logits = torch.cat([logits[:size, size:], logits[size:, :size]])
        return weighted_log_sum_exp(logits, weights) - log_others

    def _log_sums(self, positive: Tensor, log_others: Tensor, guided: Tensor | None) -> Tensor:
        """log(l1 + l2): (N,) for `one_log`, (2N,) for `log_each`, (2N, 2N) over `every` pair of rows."""
        log_ratios = positive - log_others
        if self.rows == "every":
            log_ratios = positive[:, None] - log_others
        terms = log_ratios[None] if guided is None else torch.stack([log_ratios, guided.expand_as(log_ratios)])
        if self.directions == "one_log":
            terms = terms.unflatten(1, (2, -1)).flatten(0, 1)
        return terms.logsumexp(0)
