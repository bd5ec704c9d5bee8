"""Linear discriminants from class names, few labels and texts without any: prototypes, and EM from them.

The classes are Gaussians with one covariance over embeddings of unit length, so that the decision is linear and fits
any classifier head. Without unlabelled texts this is the nearest prototype; with them, the semi-supervised linear
discriminant (EM for mixtures with partial labels: McLachlan and Peel, Finite Mixture Models, 2000, ch. 2; hard
assignments: Celeux and Govaert, 1992).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

SHRINKAGE = 0.1  # of the covariance towards a multiple of the identity
ANCHOR_ROWS = 5.0  # a class name counts as so many labelled rows in the first prototypes
LABEL_ROWS = 5.0  # a labelled row counts as so many unlabelled ones in EM
NAME_ROWS = 10.0  # and a class name as so many, of a class without any text
NAMED_BELOW = 100.0  # rows of a class from which on its name counts no more, and between in proportion less
UNEVEN = 0.5  # of the classes, as many as their sizes must be worth for the mean of all texts to be an origin
LARGEST = 0.6  # of the texts, what one class may have for it: of two classes their sizes are never worth less than half
MAX_STEPS = 10
CENTRES_A_CLASS = 4
CENTRES_FROM = 25_000  # texts drawn to look for them in
TINY = 1e-6  # the least length of texts that names are given, and the least weight of a class
SETTLED = 1e-4  # share of texts that change their class in a step at which EM ends


@dataclass(frozen=True)
class Discriminant:
    """Class scores `embeddings @ weight.T + bias` of unit-length embeddings (N, D).

    Attributes:
        weight: (C, D).
        bias: (C,).
        steps: of EM that were made; 0 for prototypes alone.
        log_likelihood: mean over the texts, of the fitted mixture; -inf for prototypes alone.
    """

    weight: Tensor
    bias: Tensor
    steps: int = 0
    log_likelihood: float = -math.inf

    def scores(self, embeddings: Tensor) -> Tensor:
        """(N, D) -> (N, C)."""
        return embeddings @ self.weight.T + self.bias


def nearest_prototype(
    embeddings: Tensor,
    labels: Tensor,
    anchors: Tensor | None,
    num_classes: int,
    anchor_rows: float = ANCHOR_ROWS,
    origin: Tensor | None = None,
) -> Discriminant:
    """Cosine with a class's prototype: the sum of its labelled rows and of its name, which counts as `anchor_rows`.

    Args:
        embeddings: (N, D) of all texts there are, of unit length.
        labels: (N,) class indices, -1 for a text without label.
        anchors: (C, D) embeddings of the class names, of unit length; None where there are none.
        num_classes: C.
        anchor_rows: >= 0.
        origin: (D,), subtracted from the texts; the names then have an origin of their own, their mean, for short
            phrases lie together, away from texts. None: nothing is subtracted.

    A class with neither a name nor a labelled row starts where no other class is: at the one of 4 C k-means centres of
    the texts that is farthest from the prototypes there are.

    Raises:
        ValueError: there is neither a name nor a labelled row, or too few texts for a class that has neither.
    """
    moved = embeddings if origin is None else embeddings - origin
    is_labelled = labels >= 0
    prototypes = embeddings.new_zeros(num_classes, embeddings.shape[1])
    prototypes.index_add_(0, labels[is_labelled], moved[is_labelled])
    if anchors is not None:
        length = moved.norm(dim=1).mean().clamp_min(TINY) if len(moved) else 1.0  # a single text is its own origin
        names = anchors if origin is None else functional.normalize(anchors - anchors.mean(0), dim=1)
        prototypes += anchor_rows * length * names
    weight = functional.normalize(prototypes, dim=1)
    if missing := (weight.norm(dim=1) == 0).nonzero().flatten().tolist():
        _place_far(weight, missing, moved)
    bias = weight.new_zeros(num_classes) if origin is None else -(weight @ origin)
    return Discriminant(weight, bias)


def best_discriminant(
    embeddings: Tensor,
    labels: Tensor,
    anchors: Tensor | None,
    num_classes: int,
    anchor_rows: float = ANCHOR_ROWS,
    shrinkage: float = SHRINKAGE,
    label_rows: float = LABEL_ROWS,
    max_steps: int = MAX_STEPS,
    name_rows: float = NAME_ROWS,
) -> Discriminant:
    """EM from three starts, the one with the highest likelihood; no label decides between them.

    The starts are prototypes with three origins: none, the mean of the texts, and the mean of the class means that the
    first start gives. The mean of the texts is right where classes are about equally large and wrong where one class
    makes up most of them: where the first start ends at classes of an `evenness` below `UNEVEN`, or one of which has
    more than `LARGEST` of the texts, it is the only one.

    Args:
        embeddings, labels, anchors, num_classes, anchor_rows: see `nearest_prototype`.
        shrinkage: see `at_least`.
        label_rows, max_steps, name_rows: see `discriminant_em`.
    """
    options = (at_least(shrinkage, embeddings), label_rows, max_steps, anchors, name_rows)
    plain = nearest_prototype(embeddings, labels, anchors, num_classes, anchor_rows)
    solutions = [discriminant_em(embeddings, labels, plain, *options)]
    assigned = torch.where(labels >= 0, labels, solutions[0].scores(embeddings).argmax(1))
    if evenness(assigned, num_classes) < UNEVEN or float(assigned.bincount().max()) > LARGEST * len(assigned):
        return solutions[0]
    nearest = plain.scores(embeddings).argmax(1)
    class_means = torch.stack([embeddings[nearest == c].mean(0) for c in nearest.unique()])
    for origin in (embeddings.mean(0), class_means.mean(0)):
        start = nearest_prototype(embeddings, labels, anchors, num_classes, anchor_rows, origin)
        solutions.append(discriminant_em(embeddings, labels, start, *options))
    return max(solutions, key=lambda solution: solution.log_likelihood)


def evenness(assigned: Tensor, num_classes: int) -> float:
    """How many classes of one size the sizes of these (N,) are worth, as a share of C: exp of their entropy, over C.

    The entropy of few texts is too small on the mean, by what is added here (Miller 1955): three texts a class of 77
    classes of one size would be worth 0.83.
    """
    shares = assigned.bincount(minlength=num_classes).double() / len(assigned)
    bias = (int((shares > 0).sum()) - 1) / (2 * len(assigned))
    return min(float((torch.special.entr(shares).sum() + bias).exp()) / num_classes, 1.0)


def at_least(shrinkage: float, embeddings: Tensor) -> float:
    """The shrinkage, or D / (D + N) where that is more: the covariance of few texts (N, D) is mostly chance."""
    texts, dimension = embeddings.shape
    return max(shrinkage, dimension / (dimension + texts))


def _place_far(prototypes: Tensor, missing: list[int], centred: Tensor) -> None:
    """Fill the rows `missing` of the unit-length prototypes (C, D) from the texts."""
    from sklearn.cluster import KMeans

    number = CENTRES_A_CLASS * len(prototypes)
    if len(missing) == len(prototypes):
        raise ValueError(
            "no class has a name or a labelled row; allowed: some labels (dataset.labels), or names "
            "(dataset.class_descriptions=FILE)"
        )
    if len(centred) < number:
        raise ValueError(
            f"{len(missing)} of {len(prototypes)} classes have neither a name nor a labelled row, and {len(centred)} "
            f"texts are too few to look for them; allowed: a label of each class, names, or {number} texts"
        )
    if len(centred) > CENTRES_FROM:
        drawn = torch.randperm(len(centred), generator=torch.Generator().manual_seed(0))[:CENTRES_FROM]
        centred = centred[drawn]
    model = KMeans(number, n_init=3, random_state=0).fit(centred.double().numpy())
    centres = functional.normalize(torch.from_numpy(model.cluster_centers_).to(prototypes), dim=1)
    placed = [c for c in range(len(prototypes)) if c not in missing]
    for c in missing:
        prototypes[c] = centres[(centres @ prototypes[placed].T).max(1).values.argmin()]
        placed.append(c)


def discriminant_em(
    embeddings: Tensor,
    labels: Tensor,
    start: Discriminant,
    shrinkage: float = SHRINKAGE,
    label_rows: float = LABEL_ROWS,
    max_steps: int = MAX_STEPS,
    anchors: Tensor | None = None,
    name_rows: float = NAME_ROWS,
) -> Discriminant:
    """The discriminant of labelled and unlabelled texts, by EM with hard assignments from `start`.

    Each step fits means, shared covariance W (shrunk: (1 - s) W + s tr(W)/D I) and class priors to the present
    assignment, and assigns each unlabelled text to its best class. Labelled rows keep theirs.

    Args:
        embeddings: (N, D) of unit length.
        labels: (N,) class indices, -1 for a text without label.
        start: gives the first assignment.
        shrinkage: s, 0 < s <= 1.
        label_rows: >= 1.
        max_steps: >= 1.
        anchors, name_rows: see `fitted_gaussians`.
    """
    rows = embeddings.double()
    is_labelled = labels >= 0
    weights = torch.where(is_labelled, label_rows, 1.0).double()
    assigned = torch.where(is_labelled, labels, start.scores(embeddings).argmax(1))
    second_moment = (rows * weights[:, None]).T @ rows
    steps, is_settled = 0, False
    while steps < max_steps and not is_settled:
        steps += 1
        directions, offsets, root = fitted_gaussians(
            rows, weights, assigned, len(start.weight), shrinkage, second_moment, anchors, name_rows
        )
        scores = rows @ directions.T + offsets
        before, assigned = assigned, torch.where(is_labelled, labels, scores.argmax(1))
        is_settled = bool((before != assigned).double().mean() < SETTLED)
    squares = torch.linalg.solve_triangular(root, rows.T, upper=False).square().sum(0)  # x' W^-1 x
    constant = root.diagonal().log().sum() + rows.shape[1] / 2 * math.log(2 * math.pi)
    log_likelihood = float((scores.logsumexp(1) - squares / 2).mean() - constant)
    return Discriminant(directions.to(embeddings), offsets.to(embeddings), steps, log_likelihood)


def fitted_gaussians(
    rows: Tensor,
    weights: Tensor,
    assigned: Tensor,
    num_classes: int,
    shrinkage: float,
    second_moment: Tensor | None = None,
    anchors: Tensor | None = None,
    name_rows: float = NAME_ROWS,
) -> tuple[Tensor, Tensor, Tensor]:
    """Directions (C, D) and offsets (C,) of the discriminant, and the root (D, D) of the covariance: W = L L'.

    With anchors each class has one row more, where its name says that its texts lie: from the mean of all texts as far
    in the direction of the name, of which the mean of all names is taken, as texts lie in that of their class's on the
    mean. It weighs (1 - n / `NAMED_BELOW`) `name_rows`, n the weight of the class's rows, and from `NAMED_BELOW` on
    nothing; for the size of the class it is one row at the most. So a class of few texts stays near its name (a prior
    from names: Basu, Banerjee and Mooney, ICML 2002). A class with neither rows nor a name scores no more than another
    one on each of the rows.

    Args:
        rows: (N, D) float64.
        weights: (N,) > 0.
        assigned: (N,) class indices.
        num_classes: C.
        shrinkage: of the covariance, 0 < s <= 1.
        second_moment: (D, D) weighted sum of x x', where it is known already.
        anchors: (C, D) embeddings of the class names, of unit length; None where they are not to count.
        name_rows: >= 0.
    """
    if second_moment is None:
        second_moment = (rows * weights[:, None]).T @ rows
    indicator = functional.one_hot(assigned, num_classes).double() * weights[:, None]
    sums, counts = indicator.T @ rows, indicator.sum(0)
    sizes = counts + TINY
    if anchors is not None and (share := (1 - counts / NAMED_BELOW).clamp_min(0)).any():
        names, name_weights = _rows_of_names(sums, counts, anchors), name_rows * share
        sums, second_moment = sums + name_weights[:, None] * names, second_moment + (names.T * name_weights) @ names
        counts, sizes = counts + name_weights, sizes + share * min(name_rows, 1.0)
    counts = counts + TINY
    means = sums / counts[:, None]
    covariance = (second_moment - (means.T * counts) @ means) / counts.sum()
    spread = covariance.diagonal().mean()
    covariance = (1 - shrinkage) * covariance + shrinkage * spread * torch.eye(rows.shape[1], dtype=rows.dtype)
    root = torch.linalg.cholesky(covariance)
    directions = torch.cholesky_solve(means.T, root).T
    offsets = (sizes / sizes.sum()).log() - (means * directions).sum(1) / 2
    if (is_empty := counts <= TINY).any():
        offsets[is_empty] = (rows @ directions[~is_empty].T + offsets[~is_empty]).amax(1).min()
    return directions, offsets, root


def _rows_of_names(sums: Tensor, counts: Tensor, anchors: Tensor) -> Tensor:
    """Where the names (C, D) say that the texts of their classes lie, by the sums (C, D) and weights (C,) of those."""
    directions = functional.normalize((anchors - anchors.mean(0)).double(), dim=1)
    centre = sums.sum(0) / counts.sum()
    reach = ((sums - counts[:, None] * centre) * directions).sum() / counts.sum()
    return centre + reach.clamp_min(0) * directions
