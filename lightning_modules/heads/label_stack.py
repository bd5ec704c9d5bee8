"""Three scores of each label in one sum: of a text's embedding, of its words, and of the label's name.

Source: Wolpert, Stacked Generalization (Neural Networks 1992), with weights >= 0 as in Breiman, Stacked Regressions
(Machine Learning 1996).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from scipy.special import expit, logit

from clustering.two_views import first_copies
from lightning_modules.heads.label_solver import LabelRegressions

FOLDS = 4
STRENGTHS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)  # of `LabelRegressions`, strongest first
INVERSE_PENALTIES = (10.0, 100.0, 1000.0)  # C of scikit-learn, likewise
PENALTY = 1e-4  # on the squared weights of the sum: scores right for every held-out row would have none finite

Floats = NDArray[np.floating]


class Linear(NamedTuple):
    """Logits `rows @ weight.T + bias` of rows (N, D), sparse or not: weight (C, D), bias (C,)."""

    weight: Floats
    bias: Floats

    def __call__(self, rows: Any) -> Floats:
        return np.asarray(rows @ self.weight.T) + self.bias


class LabelStack(NamedTuple):
    """The sum: over embeddings of unit length, over TF-IDF of words, what was chosen and the weights of its parts, and
    what it says (N, C) of each row where its fold was held out."""

    on_embeddings: Linear
    on_words: Linear
    figures: dict[str, float]
    held_out: Floats


def random_folds(texts: Sequence[NDArray[np.integer]], generator: np.random.Generator) -> NDArray[np.integer]:
    """The fold (N,) of each text, token ids: as many different texts in each, and copies in one."""
    different, number = np.unique(first_copies(ids.tobytes() for ids in texts), return_inverse=True)
    return generator.permutation(np.arange(len(different)) % min(FOLDS, len(different)))[number]


def label_stack(
    embeddings: Floats,
    words: csr_matrix,
    labels: NDArray[np.integer],
    names: Floats | None,
    folds: NDArray[np.integer],
) -> LabelStack:
    """Both regressions of each label and the names' scores, weighted by what they say of held-out rows, fitted on all.

    Args:
        embeddings: (N, D) of unit length, N >= 2.
        words: TF-IDF (N, V).
        labels: (N, C) of 0 and 1.
        names: (C, D) of unit length, embeddings of the labels' names; None leaves them out.
        folds: (N,), the fold of each row.

    Raises:
        ValueError: a row alone, or all rows in one fold, as copies of one text are.
    """
    if len(labels) < 2:
        raise ValueError(f"train split: found {len(labels)} rows, allowed: two at least")
    if len(np.unique(folds)) < 2:
        raise ValueError("train split: found copies of one text, allowed: two different texts at least")
    true = labels.astype(float)
    strength, of_embeddings = _chosen(_on_embeddings, embeddings, true, folds, STRENGTHS)
    inverse_penalty, of_words = _chosen(_on_words, words, true, folds, INVERSE_PENALTIES)
    parts, of_names = [of_embeddings, of_words], None
    if names is not None:
        of_names = _name_scores(embeddings, names)
        parts.append(of_names(embeddings))  # which no label has had a say in
    *shares, constant = _weights(np.stack(parts), true)
    first = _scaled(_on_embeddings(embeddings, true)(strength), shares[0])
    if of_names is not None:
        first = Linear(first.weight + shares[2] * of_names.weight, first.bias + shares[2] * of_names.bias)
    kinds = ("embeddings", "words", "names")
    figures = {"penalty": strength, "C": inverse_penalty}
    figures |= {f"weight_{kind}": float(share) for kind, share in zip(kinds, shares, strict=False)}
    on_words = _scaled(_on_words(words, true)(inverse_penalty), shares[1])
    held_out = np.tensordot(shares, np.stack(parts), 1) + constant
    return LabelStack(Linear(first.weight, first.bias + constant), on_words, figures, held_out)


def _scaled(scores: Linear, share: float) -> Linear:
    return Linear(share * scores.weight, share * scores.bias)


def _loss(scores: Floats, true: Floats) -> float:
    """Binary cross-entropy, the mean over rows and labels."""
    return float(np.mean(np.logaddexp(0, scores) - true * scores))


Fits = Callable[[float], Linear]  # of rows and labels, by setting


def _chosen(
    fits: Callable[[Any, Floats], Fits], rows: Any, true: Floats, folds: NDArray[np.integer], settings: Sequence[float]
) -> tuple[float, Floats]:
    """The setting with the lowest loss on held-out folds, and its scores of them (N, C); the first rise ends it."""
    best, least, scores = settings[0], np.inf, np.zeros_like(true)
    inside = [folds == fold for fold in np.unique(folds)]
    of_fold = [fits(rows[~held], true[~held]) for held in inside]
    for setting in settings:
        held_out = np.zeros_like(true)
        for held, fit in zip(inside, of_fold, strict=True):
            held_out[held] = fit(setting)(rows[held])
        if (value := _loss(held_out, true)) >= least:
            break
        best, least, scores = setting, value, held_out
    return best, scores


def _start(true: Floats, dimensions: int) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Weight and bias of labels that say the same of every row, at half a row more; and which ones do not."""
    counts = true.sum(0)
    weight, bias = np.zeros((true.shape[1], dimensions)), logit((counts + 0.5) / (len(true) + 1))
    return weight, bias, np.flatnonzero((counts > 0) & (counts < len(true)))


def _on_embeddings(rows: Floats, true: Floats) -> Fits:
    """By strength."""
    weight, bias, varying = _start(true, rows.shape[1])
    if not len(varying):
        return lambda strength: Linear(weight, bias)
    regressions = LabelRegressions(torch.from_numpy(rows), torch.from_numpy(true[:, varying]))

    def fit(strength: float) -> Linear:
        own, free = weight.copy(), bias.copy()
        solution = regressions.solve(strength)
        own[varying], free[varying] = solution.weight.numpy(), solution.bias.numpy()
        return Linear(own, free)

    return fit


def _on_words(rows: csr_matrix, true: Floats) -> Fits:
    """By inverse penalty."""
    from sklearn.linear_model import LogisticRegression

    weight, bias, varying = _start(true, rows.shape[1])
    present = np.unique(rows.indices)  # most of a vocabulary is not
    inputs = rows[:, present]

    def fit(inverse_penalty: float) -> Linear:
        own, free = weight.copy(), bias.copy()
        for label in varying:  # LIBLINEAR has a penalty on the bias too: a constant of 10 makes it small
            model = LogisticRegression(C=inverse_penalty, solver="liblinear", intercept_scaling=10)
            model.fit(inputs, true[:, label])
            own[label, present], free[label] = model.coef_[0], model.intercept_[0]
        return Linear(own, free)

    return fit


def _name_scores(embeddings: Floats, names: Floats) -> Linear:
    """Product of a text's and a name's distance from the mean of their kind, the name's of unit length; spread 1."""
    directions = names - names.mean(0)
    directions /= np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-12)
    centre = embeddings.mean(0, dtype=float)
    spread = max(float(((embeddings - centre) @ directions.T).std()), 1e-12)
    return Linear(directions / spread, -(directions @ centre) / spread)


def _weights(parts: Floats, true: Floats) -> Floats:
    """Of the parts (M, N, C), >= 0, and a constant, (M + 1,): least binary cross-entropy of their sum."""
    number = len(parts)

    def objective(point: Floats) -> tuple[float, Floats]:
        scores = np.tensordot(point[:number], parts, 1) + point[number]
        error = expit(scores) - true
        slopes = [np.mean(error * part) + 2 * PENALTY * share for part, share in zip(parts, point, strict=False)]
        value = _loss(scores, true) + PENALTY * float(np.square(point[:number]).sum())
        return value, np.array([*slopes, error.mean()])

    start, bounds = np.append(np.ones(number), 0.0), [(0, None)] * number + [(None, None)]
    return np.asarray(minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds).x)
