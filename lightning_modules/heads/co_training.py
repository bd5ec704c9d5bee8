"""Words as a second view of texts with few labels: embeddings and words label the texts for each other.

Two views: Blum and Mitchell, COLT 1998; co-EM: Nigam and Ghani, CIKM 2000. For clusters, of which no text is
known: `clustering.two_views`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from clustering.two_views import held_out_words, spread, surest, word_regression
from lightning_modules.heads.discriminant import (
    LABEL_ROWS,
    NAME_ROWS,
    SHRINKAGE,
    Discriminant,
    at_least,
    evenness,
    fitted_gaussians,
)
from lightning_modules.heads.stacking import comparable

STEPS = 3
EVEN = 0.85  # of the classes, as many as their sizes must be worth
WORDS_FROM = 200  # texts a class on the mean from which on words count as much as embeddings, below in proportion less


class CoTrained(NamedTuple):
    """What both views say of the texts.

    Attributes:
        scores: (N, C) of all texts, each view's brought to the same spread; `start`'s own where words are left out.
        is_fitted: (N,) whether the next step would fit both views to the text; None where words are left out.
    """

    scores: Tensor
    is_fitted: Tensor | None


def co_trained(
    embeddings: Tensor,
    words: csr_matrix,
    labels: Tensor,
    start: Discriminant,
    shrinkage: float = SHRINKAGE,
    label_rows: float = LABEL_ROWS,
    steps: int = STEPS,
    seed: int = 0,
    anchors: Tensor | None = None,
    name_rows: float = NAME_ROWS,
) -> CoTrained:
    """Scores of all texts by the embeddings and the words together.

    Each step fits a linear discriminant to the embeddings and a regression to the words, and assigns each text without
    a label to the class for which the sum of both is largest; what words say of a text comes of folds without it.
    From the second step on both are fitted to the labelled rows and to the N / C surest texts of a class alone: texts
    that neither view can tell gather in one class, which would become theirs.

    Words are many more than the dimensions of an embedding, and few texts say little of them: below 200 texts a class
    their scores count in proportion less (`word_share`).

    That takes classes to be of about one size. Where `start` gives them others, of an `evenness` below 0.85, the words
    are left out.

    Args:
        embeddings: (N, D) of unit length.
        words: TF-IDF rows (N, V).
        labels: (N,) class indices, -1 for a text without label; at least one is without.
        start: gives the first assignment.
        shrinkage: of the covariance, see `heads.discriminant.at_least`.
        label_rows: a labelled row counts as so many texts without a label, >= 1.
        steps: >= 1.
        seed: of the folds and of the regression's steps.
        anchors, name_rows: see `heads.discriminant.fitted_gaussians`.
    """
    scores, num_classes, rows = start.scores(embeddings), len(start.weight), embeddings.double()
    known = labels >= 0
    assigned = torch.where(known, labels, scores.argmax(1))
    if evenness(assigned, num_classes) < EVEN:
        return CoTrained(scores, None)
    weights, is_fitted = torch.where(known, label_rows, 1.0).double(), torch.ones_like(known)
    share, shrinkage = -(-len(rows) // num_classes), at_least(shrinkage, rows)
    for _ in range(steps):
        of_fitted = rows[is_fitted], weights[is_fitted], assigned[is_fitted]
        directions, offsets, _ = fitted_gaussians(*of_fitted, num_classes, shrinkage, None, anchors, name_rows)
        of_words = held_out_words(words, assigned.numpy(), is_fitted.numpy(), num_classes, seed, weights.numpy())
        of_both = comparable(rows @ directions.T + offsets), comparable(torch.from_numpy(of_words))
        scores = of_both[0] + word_share(len(rows), num_classes) * of_both[1]
        assigned = torch.where(known, labels, scores.argmax(1))
        is_fitted = known | torch.from_numpy(surest(scores.numpy(), assigned.numpy(), share))
    return CoTrained(scores, is_fitted)


def word_share(num_texts: int, num_classes: int) -> float:
    """What the scores of the words count beside those of the embeddings, in (0, 1]."""
    return min(num_texts / num_classes / WORDS_FROM, 1.0)


def fitted_views(
    embeddings: Tensor,
    words: csr_matrix,
    labels: Tensor,
    texts: CoTrained,
    shrinkage: float = SHRINKAGE,
    label_rows: float = LABEL_ROWS,
    seed: int = 0,
    anchors: Tensor | None = None,
    name_rows: float = NAME_ROWS,
) -> tuple[Discriminant, Tensor]:
    """Both views once more, now of all folds, so that new texts have scores: `discriminant.scores(x) + w @ words`.

    The scores of each view are brought to spread 1 over all texts, and those of the words take their share. As logits
    they are less sure of themselves than the discriminant's own, which texts that were assigned, not labelled, make too
    sure.

    Args:
        embeddings, words, labels, shrinkage, label_rows, seed, anchors, name_rows: those of `co_trained`.
        texts: its result, with words.

    Returns:
        The discriminant, whose bias is that of both views, and w (C, V).
    """
    known, num_classes, rows, fitted = labels >= 0, texts.scores.shape[1], embeddings.double(), texts.is_fitted
    assert fitted is not None
    assigned = torch.where(known, labels, texts.scores.argmax(1))[fitted]
    weights = torch.where(known, label_rows, 1.0).double()[fitted]
    of_fitted = rows[fitted], weights, assigned
    shrinkage = at_least(shrinkage, rows)
    directions, offsets, _ = fitted_gaussians(*of_fitted, num_classes, shrinkage, None, anchors, name_rows)
    word_weight, word_bias = word_regression(
        words[fitted.numpy()], assigned.numpy(), num_classes, seed, weights.numpy()
    )
    of_embeddings = 1 / spread((rows @ directions.T + offsets).numpy())
    of_words = word_share(len(rows), num_classes) / spread(words @ word_weight.T + word_bias)
    bias = of_embeddings * offsets + of_words * torch.from_numpy(word_bias)
    discriminant = Discriminant((of_embeddings * directions).to(embeddings), bias.to(embeddings))
    return discriminant, of_words * torch.from_numpy(word_weight)
