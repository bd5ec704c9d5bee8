"""Scores of several classifiers as one sum, weighted by what each says of rows that it has not learned from.

Source: Wolpert, Stacked Generalization (Neural Networks 1992), with weights >= 0 as in Breiman, Stacked Regressions
(Machine Learning 1996).
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.nn import functional

PENALTY = 0.01  # on the squared weights: scores that are right for every held-out row would have none finite


def fold_numbers(labels: Tensor, first: Tensor, num_folds: int, generator: torch.Generator) -> Tensor:
    """A fold (N,) for each row of labels (N,): the rows of a class are dealt out in turn, in an order drawn anew.

    Copies of a text are in one fold, dealt out as the first of them, whose place (N,) is `first` of each.
    """
    different, number = first.unique(return_inverse=True)
    classes = labels[different]
    order = torch.randperm(len(classes), generator=generator)
    order = order[classes[order].sort(stable=True).indices]
    folds = torch.empty_like(classes)
    folds[order] = torch.arange(len(classes)) % num_folds
    return folds[number]


def spread(scores: Tensor) -> Tensor:
    """Standard deviation of scores (N, C), of float64, once each row has mean 0 over its classes; a scalar > 0."""
    centred = scores.double() - scores.double().mean(1, keepdim=True)
    return centred.std().clamp_min(torch.finfo(centred.dtype).tiny)


def comparable(scores: Tensor) -> Tensor:
    """Scores (N, C) as float64 with mean 0 over the classes of a row and spread 1 over all."""
    return (scores.double() - scores.double().mean(1, keepdim=True)) / spread(scores)


def scale_as_sure_as(said: Tensor, scores: Tensor) -> float:
    """What brings the mean probability of the likeliest class of scores (N, C) to that of `said` (N, C).

    By bisection, between a thousandth and a thousand.
    """
    aim = said.double().softmax(1).amax(1).mean()
    low, high = -3.0, 3.0  # powers of ten
    for _ in range(50):
        middle = (low + high) / 2
        is_less_sure = bool((10**middle * scores.double()).softmax(1).amax(1).mean() < aim)
        low, high = (middle, high) if is_less_sure else (low, middle)
    return 10**low


def lowest_present(scores: Tensor, is_present: Tensor) -> Tensor:
    """Of each row of scores (N, C) the lowest (N, 1) among the classes that are present (C,).

    It stands for the score of a class without a row to learn from: the bias of a regression runs away from that.
    """
    return scores[:, is_present].amin(1, keepdim=True)


def stacking_weights(held_out: Tensor, labels: Tensor, penalty: float = PENALTY) -> Tensor:
    """Weights w (M,) >= 0 that minimise cross-entropy of `sum_m w_m held_out[m]`, plus `penalty * sum_m w_m^2`.

    Equal ones where that is 0 of each, for then the labels cannot tell which to believe.

    Args:
        held_out: (M, N, C), of each classifier `comparable` scores of rows that it has not learned from.
        labels: (N,) class indices.
        penalty: > 0.
    """

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        weights = torch.tensor(point, requires_grad=True)
        logits = torch.einsum("m,mnc->nc", weights, held_out.double())
        value = functional.cross_entropy(logits, labels) + penalty * weights.square().sum()
        value.backward()
        return float(value.detach()), np.asarray(weights.grad)

    start, bounds = np.ones(len(held_out)), [(0, None)] * len(held_out)
    result = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return torch.from_numpy(result.x if result.x.any() else start)
