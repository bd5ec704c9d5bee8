"""Few labels of each class alike, and texts of which some classes have many and others hardly any.

What is learned from such labels takes the classes to be of one size. Three sources are weighed by held-out labels, as
in `heads.stacking`, and the texts without labels then say how large the classes are (Saerens, Latinne and Decaestecker,
Adjusting the Outputs of a Classifier to New a Priori Probabilities, Neural Computation 2002).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from scipy.sparse import csr_matrix
from torch import Tensor
from torch.nn import functional

from lightning_modules.heads.co_training import EVEN, evenness
from lightning_modules.heads.discriminant import Discriminant
from lightning_modules.heads.linear_solver import solve_linear
from lightning_modules.heads.stacking import comparable, fold_numbers, spread, stacking_weights
from lightning_modules.heads.tfidf import ABSENT, logistic_regression

FOLDS = 4
LEAST_ROWS = 32  # labelled: of 16, chance alone decides which source is right more often
INVERSE_PENALTIES = 10.0, 30.0  # scikit-learn's C over embeddings and over words, where no row is there to choose it
STEPS = 50
FLOOR = 0.02  # of the texts, shared by all classes alike: none may vanish


class Sources(NamedTuple):
    """Three linear classifiers.

    Attributes:
        discriminant: of all texts, over their embeddings.
        regression: logistic, of the labelled rows, over embeddings.
        word_weight, word_bias: the same over words, (C, V) and (C,) float64.
    """

    discriminant: Discriminant
    regression: Discriminant
    word_weight: Tensor
    word_bias: Tensor

    def scores(self, embeddings: Tensor, words: csr_matrix) -> list[Tensor]:
        """(N, C) of each, of unit-length embeddings (N, D) and TF-IDF rows (N, V)."""
        of_words = torch.from_numpy(words @ self.word_weight.numpy().T) + self.word_bias
        return [self.discriminant.scores(embeddings), self.regression.scores(embeddings), of_words]


def labels_suffice(labels: Tensor, num_classes: int) -> bool:
    """Whether labels (N,), -1 for none, are 32 and one a class for each fold at least, and as many of every class, so
    that how many there are says nothing of the sizes of the classes."""
    known = labels[labels >= 0]
    return len(known) >= max(LEAST_ROWS, FOLDS * num_classes) and evenness(known, num_classes) >= EVEN


def class_shares(logits: Tensor, steps: int = STEPS, floor: float = FLOOR) -> Tensor:
    """Shares pi (C,) > 0 of the classes in texts of logits (N, C) that take all classes to be equally likely.

    EM: pi_c becomes the mean over the texts of softmax(logits + log pi)_c, a part `floor` of it 1 / C.
    """
    shares = logits.new_full((logits.shape[1],), 1 / logits.shape[1])
    for _ in range(steps):
        means = torch.softmax(logits + shares.log(), 1).mean(0)
        shares = (1 - floor) * means + floor / len(shares)
    return shares


def fitted_sources(
    embeddings: Tensor, words: csr_matrix, labels: Tensor, num_classes: int, discriminant: Discriminant
) -> Sources:
    """`discriminant`, and both regressions of the labelled rows among embeddings (N, D) and words (N, V)."""
    known = labels >= 0
    rows, classes = embeddings[known], labels[known]
    of_embeddings, of_words = INVERSE_PENALTIES
    with torch.enable_grad():
        solution = solve_linear(
            lambda logits: functional.cross_entropy(logits, classes), rows, num_classes, 1 / (of_embeddings * len(rows))
        )
    solved = logistic_regression(words[known.numpy()], classes.numpy(), num_classes, of_words)
    weight, bias = map(torch.from_numpy, solved)
    bias = torch.where(bias == ABSENT, bias[bias != ABSENT].min(), bias)  # withheld, not impossible
    regression = Discriminant(solution.weight.to(embeddings), solution.bias.to(embeddings))
    return Sources(discriminant, regression, weight, bias)


def held_out_scores(
    embeddings: Tensor,
    words: csr_matrix,
    labels: Tensor,
    num_classes: int,
    discriminant: Callable[[Tensor], Discriminant],
    generator: torch.Generator,
) -> Tensor:
    """`comparable` scores (3, L, C) of the labelled rows, each from a fit without the labels of its fold."""
    places = (labels >= 0).nonzero().flatten()
    folds = fold_numbers(labels[places], FOLDS, generator)
    scores = torch.zeros(3, len(places), num_classes, dtype=torch.float64)
    for fold in range(FOLDS):
        withheld, held_out = labels.clone(), folds == fold
        withheld[places[held_out]] = -1
        sources = fitted_sources(embeddings, words, withheld, num_classes, discriminant(withheld))
        for number, values in enumerate(sources.scores(embeddings, words)):
            scores[number, held_out] = values[places[held_out]].double()
    return torch.stack([comparable(values) for values in scores])


def weighed_sources(
    embeddings: Tensor,
    words: csr_matrix,
    labels: Tensor,
    num_classes: int,
    discriminant: Callable[[Tensor], Discriminant],
    generator: torch.Generator,
) -> tuple[Discriminant, Tensor, Tensor]:
    """The sum of three sources, each for what it is worth on held-out labels, with the class sizes that texts tell.

    Args:
        embeddings: (N, D) of unit length.
        words: TF-IDF rows (N, V).
        labels: (N,) class indices, -1 for a text without label; those there are `labels_suffice`.
        num_classes: C.
        discriminant: fitted to such labels and to the embeddings.
        generator: of the folds.

    Returns:
        The discriminant, whose bias is that of the sum, w (C, V) over the words, and the weights (3,).
    """
    held_out = held_out_scores(embeddings, words, labels, num_classes, discriminant, generator)
    with torch.enable_grad():
        weights = stacking_weights(held_out, labels[labels >= 0])
    sources = fitted_sources(embeddings, words, labels, num_classes, discriminant(labels))
    scores = sources.scores(embeddings, words)
    parts = [weight / spread(values) for weight, values in zip(weights, scores, strict=True)]
    shares = class_shares(sum(part * values.double() for part, values in zip(parts, scores, strict=True)))
    linear = sources.discriminant, sources.regression
    weight = sum(part * source.weight.double() for part, source in zip(parts, linear, strict=False))
    bias = sum(part * source.bias.double() for part, source in zip(parts, linear, strict=False))
    bias = bias + parts[2] * sources.word_bias + shares.log()
    return Discriminant(weight.to(embeddings), bias.to(embeddings)), parts[2] * sources.word_weight, weights
