"""SharpReCL: rebalanced sets by simple sampling and hard mixup, and the contrastive loss over them."""

from __future__ import annotations

import math
from typing import Annotated, Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from losses.arguments import check_choice, check_positive, check_rows, check_share, check_tau, full_precision
from losses.class_prior import ClassWeight, class_weights

Denominator = Literal["with_synthetic_positives", "without_synthetic_positives"]
Normaliser = Literal["mean", "printed"]
AnchorWeight = Literal["label", "class_0"]


def hard_ratio_schedule(step: int, total_steps: int) -> float:
    """Share of mixed samples in the rebalanced sets: 0.5 + 0.5 step / total_steps, from 0.5 to 1.

    Numbers, without shape. Source: SharpReCL, section 3.3 (t is the iteration; the published code counts epochs).

    Raises:
        ValueError: total_steps < 1 or step outside [0, total_steps].
    """
    if total_steps < 1 or not 0 <= step <= total_steps:
        raise ValueError(f"step must be in [0, total_steps] with total_steps >= 1, got {step} of {total_steps}")
    return 0.5 + 0.5 * step / total_steps


class RebalancedSamples(NamedTuple):
    """Target sets of every class, each sample written as a pair of rows and the share of the first.

    Sample m of class c is normalise(alpha z_i + (1 - alpha) z_j); a simple sample has i = j and alpha = 1.
    Indices are (C, n) int64 into the rows of the embeddings that were drawn from, shares (C, n) in [0, 1].
    Source: SharpReCL, eq. 10.
    """

    pos_i: Tensor
    pos_j: Tensor
    pos_alpha: Tensor
    neg_i: Tensor
    neg_j: Tensor
    neg_alpha: Tensor

    @full_precision
    def sets(self, embeddings: Tensor) -> tuple[Tensor, Tensor]:
        """The samples as vectors: embeddings (M, D) -> positives (C, n_pos, D), negatives (C, n_neg, D).

        Gradient flows to the embeddings. Source: SharpReCL, eq. 10.
        """
        return (
            _mix(embeddings, self.pos_i, self.pos_j, self.pos_alpha),
            _mix(embeddings, self.neg_i, self.neg_j, self.neg_alpha),
        )


@full_precision
def draw_samples(
    embeddings: Tensor,
    labels: Tensor,
    num_classes: int,
    K: int = 20,
    n_pos: int = 10,
    n_neg: int = 500,
    hard_ratio: float = 0.5,
    beta: float = 0.5,
    generator: torch.Generator | None = None,
) -> RebalancedSamples:
    """Draws the rebalanced sets of all classes as indices and mixing shares.

    Of n samples, int(hard_ratio n) are mixed from two members, drawn with replacement, of the class's hard set
    (eq. 9: the K members least similar to the prototype; the K non-members most similar to it) with a share
    ~ Beta(beta, beta) (eq. 10); the others are drawn with replacement from all members or non-members (eq. 8).
    Where a class has fewer than K candidates, they are its hard set. A class absent from the batch has its
    prototype as its only member. With one class there are no non-members, and the negatives are empty.

    Source: SharpReCL, eqs. 8-10. As in the published code, an anchor may be drawn as its own positive.

    Args:
        embeddings: (M, D) L2-normalised; views first, then the C prototypes in the order of the classes.
        labels: (M,) in [0, C); the last C are 0 .. C-1.
        num_classes: C >= 1.
        K: size of a hard set, >= 1.
        n_pos: positives of each class, >= 0.
        n_neg: negatives of each class, >= 0.
        hard_ratio: share of mixed samples, in [0, 1]; see :func:`hard_ratio_schedule`.
        beta: parameter of the Beta distribution, > 0.
        generator: source of every draw, on the device of the embeddings. The same state gives the same samples;
            processes that share a batch must hold equal states.

    Raises:
        ValueError: an argument out of range, or the last C labels are not 0 .. C-1.
    """
    _check_draw(embeddings, labels, num_classes, K, n_pos, n_neg, hard_ratio, beta)
    embeddings = embeddings.detach()
    similarity = embeddings[-num_classes:] @ embeddings.T
    is_member = labels == torch.arange(num_classes, device=labels.device)[:, None]
    num_members = is_member.sum(1, keepdim=True)
    num_others = len(labels) - num_members
    # Rows sorted by class: the members of a class lie side by side from `first`, its non-members around them.
    order = labels.argsort(stable=True)
    first = num_members.cumsum(0) - num_members

    def below(size: Tensor, count: int) -> Tensor:
        """(C, count) uniform integers in [0, size), size (C, 1)."""
        uniform = torch.rand(num_classes, count, dtype=torch.float64, device=labels.device, generator=generator)
        return torch.minimum((uniform * size).long(), size - 1)

    def draw(simple, hard_score: Tensor, candidates: Tensor, size: Tensor, count: int) -> tuple[Tensor, ...]:
        num_hard = int(hard_ratio * count)
        single = order[simple(below(size, count - num_hard))]
        hardest = hard_score.masked_fill(~candidates, -torch.inf).topk(min(K, len(labels)), dim=1).indices
        pair = hardest.gather(1, below(size.clamp_max(K), 2 * num_hard))
        share = _symmetric_beta(beta, num_classes, num_hard, embeddings, generator)
        return (
            torch.cat((single, pair[:, :num_hard]), 1),
            torch.cat((single, pair[:, num_hard:]), 1),
            torch.cat((torch.ones_like(single, dtype=share.dtype), share), 1),
        )

    positives = draw(lambda k: first + k, -similarity, is_member, num_members, n_pos)
    negatives = draw(
        lambda k: torch.where(k < first, k, k + num_members),
        similarity,
        ~is_member,
        num_others,
        n_neg if num_classes > 1 else 0,
    )
    return RebalancedSamples(*positives, *negatives)


class SharpReCLLoss(nn.Module):
    """Contrastive loss over batch and prototypes (M, D) and each class's rebalanced sets (C, n, D).

    For anchor i of class y in D (views and prototypes), with the rebalanced sets P_y and N_y:
    L_i = w_y mean_{p in P_y u D_y \\ i} -log( exp(z_i.z_p / tau) / sum_{k in N_y u P_y u D \\ i} exp(z_i.z_k / tau) ).
    Each anchor meets the rebalanced sets of its own class only. Source: SharpReCL, eq. 11, read as its gradient
    (eq. 13) and published code do: a mean over positives, which the denominator contains, then a mean over anchors.

    Args:
        tau: temperature, > 0.
        class_weight: w_y: ``effective_number`` (published code's intent), ``negative_log_prior`` (delta_y of the
            paper, sign turned so that positives attract) or ``none``.
        denominator: whether it contains P_y (published code) or not (as printed).
        normaliser: ``mean`` over positives and over anchors, or ``printed``: 1/|D| times the sum over positives,
            summed over anchors.
        effective_number_beta: in [0, 1).
        anchor_weight: ``label`` gives each anchor the weight of its class; ``class_0`` gives all anchors the weight
            of class 0, as the published code does through an indexing slip.

    Raises:
        ValueError: an argument out of range.
    """

    needs_every_class = True

    def __init__(
        self,
        tau: Annotated[float, "> 0"] = 0.3,
        class_weight: ClassWeight = "effective_number",
        denominator: Denominator = "with_synthetic_positives",
        normaliser: Normaliser = "mean",
        effective_number_beta: Annotated[float, ">= 0", "< 1", "with class_weight=effective_number"] = 0.9999,
        anchor_weight: AnchorWeight = "label",
    ) -> None:
        super().__init__()
        self.tau = check_tau(tau)
        self.class_weight = check_choice("class_weight", class_weight, get_args(ClassWeight))
        self.denominator = check_choice("denominator", denominator, get_args(Denominator))
        self.normaliser = check_choice("normaliser", normaliser, get_args(Normaliser))
        self.effective_number_beta = check_share("effective_number_beta", effective_number_beta, may_be_1=False)
        self.anchor_weight = check_choice("anchor_weight", anchor_weight, get_args(AnchorWeight))

    @full_precision
    def forward(
        self, embeddings: Tensor, labels: Tensor, positives: Tensor, negatives: Tensor, class_counts: Tensor
    ) -> Tensor:
        """The loss over explicit sets.

        Args:
            embeddings: (M, D) L2-normalised anchors, views and prototypes.
            labels: (M,) in [0, C).
            positives: (C, n_pos, D) L2-normalised.
            negatives: (C, n_neg, D) L2-normalised.
            class_counts: (C,) training samples of each class, each >= 1.

        Returns:
            Scalar; anchors without any positive are left out, 0 with zero gradient where no anchor has one.
        """
        check_rows("embeddings", embeddings, labels)
        pos = _own_class_similarities(embeddings, labels, positives)
        neg = _own_class_similarities(embeddings, labels, negatives)
        return self._reduce(embeddings @ embeddings.T, pos, neg, labels, class_counts)

    @full_precision
    def from_samples(
        self, embeddings: Tensor, labels: Tensor, samples: RebalancedSamples, class_counts: Tensor
    ) -> Tensor:
        """The same loss from indices and shares, without making the samples' vectors.

        The similarity of an anchor to a sample is (alpha S_i + (1 - alpha) S_j) / norm, where S is the anchor's row
        of the Gram matrix and norm^2 = alpha^2 G_ii + (1 - alpha)^2 G_jj + 2 alpha (1 - alpha) G_ij: all of it is
        picked from one (M, M) matrix, so cost does not grow with D beyond that matrix.

        Args:
            embeddings: (M, D) L2-normalised, the rows that the samples were drawn from.
            labels: (M,) in [0, C).
            samples: of :func:`draw_samples`.
            class_counts: (C,) training samples of each class, each >= 1.

        Returns:
            Scalar, equal to ``forward`` on ``samples.sets(embeddings)`` in value and gradient.
        """
        check_rows("embeddings", embeddings, labels)
        gram = embeddings @ embeddings.T
        pos = _sample_similarities(gram, labels, samples.pos_i, samples.pos_j, samples.pos_alpha)
        neg = _sample_similarities(gram, labels, samples.neg_i, samples.neg_j, samples.neg_alpha)
        return self._reduce(gram, pos, neg, labels, class_counts)

    def _reduce(self, gram: Tensor, pos: Tensor, neg: Tensor, labels: Tensor, class_counts: Tensor) -> Tensor:
        """Eq. 11 from similarities: gram (M, M), pos (M, n_pos) and neg (M, n_neg) of each anchor's own class."""
        if len(gram) < 2:
            return gram.sum() * 0.0
        itself = torch.eye(len(gram), dtype=torch.bool, device=gram.device)
        same_class = (labels[:, None] == labels) & ~itself
        columns = [gram.masked_fill(itself, -torch.inf), neg]
        if self.denominator == "with_synthetic_positives":
            columns.append(pos)
        log_denominator = (torch.cat(columns, 1) / self.tau).logsumexp(1)
        num_positives = same_class.sum(1) + pos.shape[1]
        positive_sum = ((gram * same_class).sum(1) + pos.sum(1)) / self.tau

        weights = class_weights(class_counts, self.class_weight, self.effective_number_beta).to(gram)
        weights = weights[labels] if self.anchor_weight == "label" else weights[0]
        sums = weights * (num_positives * log_denominator - positive_sum)
        if self.normaliser == "printed":
            return sums.sum() / len(gram)
        return (sums / num_positives.clamp_min(1)).sum() / (num_positives > 0).sum().clamp_min(1)


def _own_class_similarities(embeddings: Tensor, labels: Tensor, sets: Tensor) -> Tensor:
    """Similarities (M, n) of anchors (M, D) to the samples of their own class in sets (C, n, D).

    Anchors are laid out by class, padded to the largest, so that one batched product serves and no anchor meets
    another class's samples.
    """
    counts = labels.bincount(minlength=len(sets))
    order = labels.argsort(stable=True)
    sorted_labels = labels[order]
    rank = torch.arange(len(labels), device=labels.device) - (counts.cumsum(0) - counts)[sorted_labels]
    slot = torch.empty_like(rank).scatter(0, order, sorted_labels * counts.max() + rank)
    padded = embeddings.new_zeros(len(sets) * int(counts.max()), embeddings.shape[1]).index_add(0, slot, embeddings)
    similarities = padded.view(len(sets), -1, embeddings.shape[1]) @ sets.transpose(1, 2)
    return similarities.flatten(0, 1).index_select(0, slot)


def _sample_similarities(gram: Tensor, labels: Tensor, i: Tensor, j: Tensor, alpha: Tensor) -> Tensor:
    """Similarities (M, n) of anchors to the samples of their own class (C, n), picked from the Gram matrix (M, M)."""
    alpha = alpha.to(gram)
    square = gram.diagonal()
    norm = (
        (alpha**2 * square[i] + (1 - alpha) ** 2 * square[j] + 2 * alpha * (1 - alpha) * gram[i, j])
        .clamp_min(_smallest_norm(gram) ** 2)
        .sqrt()
    )
    first = (alpha / norm).index_select(0, labels)
    second = ((1 - alpha) / norm).index_select(0, labels)
    return first * gram.gather(1, i[labels]) + second * gram.gather(1, j[labels])


def _mix(embeddings: Tensor, i: Tensor, j: Tensor, alpha: Tensor) -> Tensor:
    alpha = alpha.to(embeddings)[..., None]
    mixed = alpha * embeddings[i] + (1 - alpha) * embeddings[j]
    return F.normalize(mixed, dim=-1, eps=_smallest_norm(embeddings))


def _smallest_norm(like: Tensor) -> float:
    """Floor for the norm of a mixed sample: two opposite vectors may cancel, and below this only rounding is left."""
    return math.sqrt(torch.finfo(like.dtype).eps)


def _symmetric_beta(beta: float, num_classes: int, count: int, like: Tensor, generator) -> Tensor:
    """(C, count) draws from Beta(beta, beta) by two uniforms each, without rejection.

    With w = U^(1 / beta) and c = cos(2 pi V), (1 + c sqrt(1 - w) / sqrt(w + (1 - w) c^2)) / 2 is Beta(beta, beta):
    Bailey's polar method for Student's t with 2 beta degrees of freedom (Math. Comp. 62, 1994), mapped to the unit
    interval. Exact for every beta > 0; for beta = 1/2 it is the arcsine law. torch.distributions takes no generator.
    """
    shape = (2, num_classes, count)
    u, v = torch.rand(shape, dtype=like.dtype, device=like.device, generator=generator)
    w, c = u ** (1 / beta), torch.cos(2 * math.pi * v)
    return (0.5 + 0.5 * c * torch.sqrt((1 - w) / (w + (1 - w) * c * c))).clamp(0, 1)


def _check_draw(embeddings, labels, num_classes, K, n_pos, n_neg, hard_ratio, beta) -> None:
    check_rows("embeddings", embeddings, labels)
    if num_classes < 1:
        raise ValueError(f"num_classes must be >= 1, got {num_classes}")
    if K < 1:
        raise ValueError(f"K must be >= 1, got {K}")
    if n_pos < 0 or n_neg < 0:
        raise ValueError(f"n_pos and n_neg must be >= 0, got {n_pos} and {n_neg}")
    check_share("hard_ratio", hard_ratio)
    check_positive("beta", beta)
    if not torch.equal(labels[-num_classes:], torch.arange(num_classes, device=labels.device)):
        raise ValueError(f"the last {num_classes} rows must be the prototypes, labelled 0 .. {num_classes - 1}")
