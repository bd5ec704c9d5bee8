"""Candidates that need no training: scores of texts from class counts or from embeddings of a frozen encoder.

Each is a path of settings: called with embeddings (N, D) of train rows it gives, for one setting after the other, a
function from embeddings to logits (N, C).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from clustering.kmeans import unit_rows
from datamodules.labels import class_counts

Floats = NDArray[np.floating]
NO_ROW = 10.0  # how far below the others the logit of a class without train rows lies


@dataclass(frozen=True)
class Linear:
    """Logits `rows @ weight.T + bias` of embeddings (N, D), perhaps brought to unit length first."""

    weight: NDArray[np.float64]
    bias: NDArray[np.float64]
    unit_length: bool = False

    def __call__(self, rows: Floats) -> Floats:
        return (unit_rows(rows) if self.unit_length else rows) @ self.weight.T + self.bias


Scorer = Callable[[Any], Floats]
Path = Callable[[Floats, NDArray[np.int64], int], Iterator[tuple[str, Scorer]]]


def majority(rows: Floats, labels: NDArray[np.int64], num_classes: int) -> Iterator[tuple[str, Scorer]]:
    """Always the largest class; of several labels each by its share of the rows."""
    counts = class_counts(labels, num_classes)
    if labels.ndim == 2:
        prior = logit((counts + 0.5) / (len(labels) + 1))
    else:
        prior = np.log((counts + 0.5) / (len(labels) + 0.5 * num_classes))
    yield "", lambda rows: np.tile(prior, (len(rows), 1))


def nearest_name(anchors: Floats) -> Path:
    """The cosine with the name of each class; labels are not read."""

    def path(rows: Floats, labels: NDArray[np.int64], num_classes: int) -> Iterator[tuple[str, Scorer]]:
        yield "", Linear(anchors.astype(np.float64), np.zeros(num_classes), unit_length=True)

    return path


def prototypes(anchors: Floats | None) -> Path:
    """Class means, with the names where there are any, and the linear discriminant from them."""

    def path(rows: Floats, labels: NDArray[np.int64], num_classes: int) -> Iterator[tuple[str, Scorer]]:
        import torch

        from lightning_modules.heads.discriminant import Discriminant, discriminant_em, nearest_prototype

        embeddings = torch.from_numpy(unit_rows(rows).astype(np.float32))
        names = None if anchors is None else torch.from_numpy(anchors.astype(np.float32))
        targets = torch.from_numpy(labels)
        has_rows = class_counts(labels, num_classes) > 0
        if names is None and not has_rows.all():  # a class that no train row shows: nowhere
            weight = torch.zeros(num_classes, embeddings.shape[1])
            weight[torch.from_numpy(has_rows)] = _means(embeddings, targets, num_classes)[torch.from_numpy(has_rows)]
            start = Discriminant(weight, torch.from_numpy(np.where(has_rows, 0.0, -NO_ROW)).float())
        else:
            start = nearest_prototype(embeddings, targets, names, num_classes)
        yield "means", _linear(start)
        for shrinkage in (0.1, 0.5):
            classifier = discriminant_em(embeddings, targets, start, shrinkage, max_steps=1)
            yield f"discriminant, shrinkage {shrinkage:g}", _linear(classifier)

    def _linear(classifier: Any) -> Linear:
        return Linear(classifier.weight.double().numpy(), classifier.bias.double().numpy(), unit_length=True)

    def _means(embeddings: Any, targets: Any, num_classes: int) -> Any:
        import torch

        sums = torch.zeros(num_classes, embeddings.shape[1]).index_add_(0, targets, embeddings)
        return torch.nn.functional.normalize(sums, dim=1)

    return path


def refined(anchors: Floats | None, unlabelled: Floats) -> Path:
    """The linear discriminant by EM over labelled rows and texts without a label, embeddings (M, D) of unit length."""

    def path(rows: Floats, labels: NDArray[np.int64], num_classes: int) -> Iterator[tuple[str, Scorer]]:
        import torch

        from lightning_modules.heads.discriminant import best_discriminant

        embeddings = torch.from_numpy(np.concatenate([unit_rows(rows), unlabelled]).astype(np.float32))
        targets = torch.from_numpy(np.concatenate([labels, np.full(len(unlabelled), -1)]))
        names = None if anchors is None else torch.from_numpy(anchors.astype(np.float32))
        for shrinkage in (0.1, 0.5):
            fitted = best_discriminant(embeddings, targets, names, num_classes, shrinkage=shrinkage)
            scorer = Linear(fitted.weight.double().numpy(), fitted.bias.double().numpy(), unit_length=True)
            yield f"EM, shrinkage {shrinkage:g}", scorer

    return path


PENALTIES = tuple(10.0 ** (-exponent / 2) for exponent in range(4, 12))  # from 1e-2 to 3e-6, strongest first


def logistic(rows: Floats, labels: NDArray[np.int64], num_classes: int) -> Iterator[tuple[str, Scorer]]:
    """Multinomial logistic regression for one strength of the penalty after the other, strongest first.

    The same optimum as `lightning_modules.heads.linear_solver.solve_linear` has, several times sooner on few rows.
    """
    length = _mean_length(rows)
    for strength, weight, bias in _logistic_path(np.asarray(rows, np.float64) / length, labels, num_classes):
        yield f"penalty={strength:.3g}", Linear(weight / length, bias)


def _logistic_path(
    inputs: Any, labels: NDArray[np.int64], num_classes: int
) -> Iterator[tuple[float, NDArray[np.float64], NDArray[np.float64]]]:
    """Strength, weight (C, D) and bias (C,), of inputs (N, D) whose mean length is about 1, sparse or not."""
    from sklearn.linear_model import LogisticRegression

    from lightning_modules.heads.tfidf import fitted, softmax_rows

    model = LogisticRegression(warm_start=True, max_iter=1000)
    for strength in PENALTIES:
        if len(present := np.unique(labels)) == 1:
            bias = np.full(num_classes, -NO_ROW)
            bias[present] = 0.0
            yield strength, np.zeros((num_classes, inputs.shape[1])), bias
        else:
            fitted(model.set_params(C=1 / (strength * inputs.shape[0])), inputs, labels)
            yield strength, *softmax_rows(model, num_classes, -NO_ROW)


@dataclass(frozen=True)
class Words:
    """Logits `tfidf @ weight.T + bias` of token counts (N, V)."""

    weight: NDArray[np.float64]
    bias: NDArray[np.float64]
    inverse_frequency: NDArray[np.float64]

    def __call__(self, counts: Any) -> Floats:
        from lightning_modules.heads.tfidf import weighted

        return weighted(counts, self.inverse_frequency) @ self.weight.T + self.bias


def words(counts: Any, labels: NDArray[np.int64], num_classes: int) -> Iterator[tuple[str, Words]]:
    """Multinomial logistic regression on TF-IDF of token counts (N, V), for one penalty after the other."""
    from lightning_modules.heads.row_space import RowSpace
    from lightning_modules.heads.tfidf import inverse_frequencies, weighted

    frequency = inverse_frequencies(counts)
    inputs = RowSpace(weighted(counts, frequency))
    for strength, weight, bias in _logistic_path(inputs.rows, labels, num_classes):
        yield f"penalty={strength:.3g}", Words(inputs.weights(weight), bias, frequency)


REGRESSIONS = (logistic, words)  # whose logits are those of least cross-entropy


@dataclass(frozen=True)
class TextRows:
    """N texts as embeddings (N, D) of unit length and as token counts (N, V), sparse."""

    embeddings: Floats
    counts: Any

    def __len__(self) -> int:
        return len(self.embeddings)

    def __getitem__(self, rows: NDArray[np.int64]) -> TextRows:
        return TextRows(self.embeddings[rows], self.counts[rows])


@dataclass(frozen=True)
class Added:
    """What each of several paths chooses by itself, at its own temperature, in one sum.

    Attributes:
        members: the part of `TextRows` that a path reads, and the path.
    """

    members: tuple[tuple[str, Callable[..., Iterator[tuple[str, Any]]]], ...]


@dataclass(frozen=True)
class Sum:
    """Logits of `TextRows`: those of the scorers, each of the part that it reads, times its scale."""

    scorers: tuple[tuple[str, Any, float], ...]

    def __call__(self, rows: TextRows) -> Floats:
        return sum(scale * scorer(getattr(rows, part)) for part, scorer, scale in self.scorers)

    def summed(self, part: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weight and bias (C,) of all linear scorers that read this part."""
        own = [(scorer, scale) for name, scorer, scale in self.scorers if name == part]
        return sum(scale * scorer.weight for scorer, scale in own), sum(scale * scorer.bias for scorer, scale in own)


def co_trained_views(anchors: Floats | None, unlabelled: TextRows) -> Path:
    """Embeddings and words that label texts without a label for each other, from the discriminant of `refined`."""

    def path(rows: Any, labels: NDArray[np.int64], num_classes: int) -> Iterator[tuple[str, Scorer]]:
        import torch
        from scipy.sparse import vstack

        from lightning_modules.heads.co_training import co_trained, fitted_views
        from lightning_modules.heads.discriminant import best_discriminant
        from lightning_modules.heads.tfidf import inverse_frequencies, weighted

        embeddings = torch.from_numpy(np.concatenate([rows.embeddings, unlabelled.embeddings]).astype(np.float32))
        counts = vstack([rows.counts, unlabelled.counts]).tocsr()
        targets = torch.from_numpy(np.concatenate([labels, np.full(len(unlabelled), -1)]))
        names = None if anchors is None else torch.from_numpy(anchors.astype(np.float32))
        discriminant = best_discriminant(embeddings, targets, names, num_classes)
        frequency = inverse_frequencies(counts)
        tfidf = weighted(counts, frequency)
        texts = co_trained(embeddings, tfidf, targets, discriminant, anchors=names)
        word_weight = torch.zeros(num_classes, counts.shape[1])
        if texts.is_fitted is not None:
            discriminant, word_weight = fitted_views(embeddings, tfidf, targets, texts, anchors=names)
        on_embeddings = Linear(discriminant.weight.double().numpy(), discriminant.bias.double().numpy())
        on_words = Words(word_weight.double().numpy(), np.zeros(num_classes), frequency)
        yield "co-EM", Sum((("embeddings", on_embeddings, 1.0), ("counts", on_words, 1.0)))

    return path


@dataclass(frozen=True)
class Stacked:
    """Embeddings, words and the names of the labels, where there are any, in one sum: `method=bce_words`.

    It holds out folds itself; what it says of their rows calibrates it.

    Attributes:
        anchors: (C, D) embeddings of the labels' names.
    """

    anchors: Floats | None

    def fitted(
        self, rows: TextRows, labels: NDArray[np.integer], folds: NDArray[np.integer]
    ) -> tuple[Sum, str, Floats]:
        """The sum, what was chosen in words, and logits (N, C) of rows that were held out."""
        from lightning_modules.heads.label_stack import label_stack
        from lightning_modules.heads.tfidf import inverse_frequencies, weighted

        frequency = inverse_frequencies(rows.counts)
        tfidf = weighted(rows.counts, frequency)
        stack = label_stack(rows.embeddings, tfidf, labels, self.anchors, folds)
        weight, bias, of_words, free = (p.astype(np.float64) for p in (*stack.on_embeddings, *stack.on_words))
        setting = ", ".join(f"{name}={value:.3g}" for name, value in stack.figures.items())
        parts = ("embeddings", Linear(weight, bias), 1.0), ("counts", Words(of_words, free, frequency), 1.0)
        return Sum(parts), setting, stack.held_out


AnyPath = Path | Added | Stacked


def label_by_label(rows: Floats, labels: NDArray[np.integer], num_classes: int) -> Iterator[tuple[str, Scorer]]:
    """Logistic regression of each label (N, C) by itself, for one penalty after the other, strongest first."""
    import torch

    from lightning_modules.heads.label_solver import LabelRegressions

    counts = class_counts(labels, num_classes)
    varying = np.flatnonzero((counts > 0) & (counts < len(rows)))
    regressions = LabelRegressions(torch.from_numpy(rows), torch.from_numpy(labels[:, varying]))
    solution = None
    for strength in PENALTIES:
        weight, bias = np.zeros((num_classes, rows.shape[1])), np.where(counts > 0, NO_ROW, -NO_ROW)
        solution = regressions.solve(strength, solution)
        weight[varying], bias[varying] = solution.weight.numpy(), solution.bias.numpy()
        yield f"penalty={strength:.3g}", Linear(weight, bias)


def _mean_length(rows: Floats) -> float:
    return float(np.sqrt(np.square(rows).sum(1).mean())) or 1.0


NEIGHBOURS = (1, 5, 10, 20)
SHARPNESS = (0.1, 0.3, 1.0)  # temperature of the vote, in units of the median distance to the nearest row
LEAST_VOTE = 1e-3  # shared by the classes: of a thousand a vote that is unanimous stays sure
LEAST_LABEL_VOTE = 1e-2  # and what is left to 1: a neighbour alone is not sure


@dataclass(frozen=True)
class Neighbours:
    """Log of the vote of the k nearest rows, each with weight exp(-distance / temperature); of several labels (N, C)
    the logit of each."""

    rows: Floats
    labels: NDArray[np.integer]
    num_classes: int
    k: int
    temperature: float

    def __call__(self, rows: Floats) -> Floats:
        from retrieval import exact_search, neighbour_weights

        squared, positions = exact_search([self.rows], np.asarray(rows, np.float32), min(self.k, len(self.rows)))
        weights = neighbour_weights(np.sqrt(squared), self.temperature)
        if self.labels.ndim == 2:
            votes = np.einsum("nk,nkc->nc", weights, self.labels[positions])
            return logit(np.clip(votes, LEAST_LABEL_VOTE, 1 - LEAST_LABEL_VOTE))
        votes = np.zeros((len(rows), self.num_classes))
        np.add.at(votes, (np.arange(len(rows))[:, None], self.labels[positions]), weights)
        return np.log(votes + LEAST_VOTE / self.num_classes)


def pure_vote(probability: float, num_classes: int) -> float:
    """The vote of which `Neighbours` makes this probability, its scores being brought to a sum of 1."""
    return probability * (1 + LEAST_VOTE) - LEAST_VOTE / num_classes


def neighbours(rows: Floats, labels: NDArray[np.int64], num_classes: int) -> Iterator[tuple[str, Scorer]]:
    """The vote of the nearest train rows, over numbers of neighbours and temperatures."""
    from retrieval import exact_search

    rows = np.ascontiguousarray(rows, np.float32)
    sample = rows[:: max(1, len(rows) // 256)]
    squared, _ = exact_search([rows], sample, min(2, len(rows)))
    unit = float(np.median(np.sqrt(squared[:, -1]))) or 1.0
    for k in NEIGHBOURS:
        for sharpness in SHARPNESS if k > 1 else SHARPNESS[:1]:
            yield (
                f"k={k}, temperature={sharpness * unit:.3g}",
                Neighbours(rows, labels, num_classes, k, sharpness * unit),
            )
