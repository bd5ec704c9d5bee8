"""A linear classifier over embeddings that do not change, solved to its optimum instead of trained by steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

STRENGTHS = tuple(10.0 ** (-exponent / 2) for exponent in range(2, 15))  # from 0.1 to 1e-7, strongest first
PATIENCE = 2  # weaker penalties in a row that bring nothing end the search
MAX_ITERATIONS = 500
GRADIENT_TOLERANCE = 1e-5


@dataclass(frozen=True)
class LinearSolution:
    """A solved classifier.

    Attributes:
        weight: (C, D).
        bias: (C,), zeros where the classifier has none.
        strength: of the penalty that was chosen, > 0.
        value: the penalised loss.
        converged: whether the gradient fell below the tolerance before the iterations ran out.
    """

    weight: Tensor
    bias: Tensor
    strength: float
    value: float
    converged: bool

    def logits(self, embeddings: Tensor) -> Tensor:
        """(N, C) in float64, of embeddings (N, D)."""
        return embeddings.double() @ self.weight.T + self.bias


def solve_linear(
    loss: Callable[[Tensor], Tensor],
    embeddings: Tensor,
    num_classes: int,
    strength: float,
    has_bias: bool = True,
    start: LinearSolution | None = None,
) -> LinearSolution:
    """Minimise `loss(logits) + strength / 2 * s^2 * ||weight||^2` over weight and bias by L-BFGS, in float64.

    s is the root mean square length of the embeddings, so that a strength means the same for every encoder. With
    cross-entropy and rows of unit length this is the logistic regression of scikit-learn with C = 1 / (strength * N).

    Args:
        loss: logits (N, C) -> scalar; the mean over rows, differentiable.
        embeddings: (N, D).
        num_classes: C.
        strength: > 0, of the penalty; the bias is free.
        has_bias: whether there is a bias.
        start: an earlier solution of the same problem, for instance with a stronger penalty.

    Raises:
        ValueError: `strength` is not above 0.
    """
    if not strength > 0:
        raise ValueError(f"strength: found {strength}, allowed: > 0")
    embeddings = embeddings.double()
    length = float(embeddings.square().sum(1).mean().sqrt()) or 1.0
    inputs = embeddings / length
    size = num_classes * inputs.shape[1]

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        parameters = torch.tensor(point, requires_grad=True)
        weight, bias = parameters[:size].view(num_classes, -1), parameters[size:]
        logits = inputs @ weight.T
        value = loss(logits + bias if has_bias else logits) + strength / 2 * weight.square().sum()
        value.backward()
        return float(value.detach()), np.asarray(parameters.grad)

    first = np.zeros(size + (num_classes if has_bias else 0))
    if start is not None:
        first[:size] = (start.weight * length).flatten().numpy()
        first[size:] = start.bias.numpy()[: len(first) - size]
    options = {"maxiter": MAX_ITERATIONS, "maxfun": 2 * MAX_ITERATIONS, "gtol": GRADIENT_TOLERANCE, "ftol": 0.0}
    result = minimize(objective, first, jac=True, method="L-BFGS-B", options=options)
    solved = torch.from_numpy(result.x)
    bias = solved[size:].clone() if has_bias else torch.zeros(num_classes, dtype=torch.float64)
    weight = solved[:size].view(num_classes, -1) / length
    return LinearSolution(weight, bias, strength, float(result.fun), bool(result.success))


Solver = Callable[[float, LinearSolution | None], LinearSolution]


@dataclass(frozen=True)
class ChosenSolution:
    """The solution with the lowest validation loss, and the loss of every strength that was tried."""

    best: LinearSolution
    validation_losses: dict[float, float]


def solve_and_choose(
    loss: Callable[[Tensor, Tensor], Tensor],
    train: tuple[Tensor, Tensor],
    validation: tuple[Tensor, Tensor],
    num_classes: int,
    has_bias: bool = True,
    strengths: Sequence[float] = STRENGTHS,
    solve: Solver | None = None,
) -> ChosenSolution:
    """Solve for each strength, the strongest first, each from the one before; choose by the loss of validation rows.

    The loss itself chooses, not accuracy or F1: on few validation rows those are steps of several points.

    Args:
        loss: logits (N, C) and labels (N,) or (N, C) -> scalar.
        train, validation: embeddings (N, D) and labels of each.
        num_classes, has_bias: see `solve_linear`.
        strengths: to try, falling; the search ends after `PATIENCE` in a row without a lower loss.
        solve: for a strength, from the solution before; by default `solve_linear` of the loss.
    """
    embeddings, labels = train
    tried: dict[float, float] = {}
    best = last = None
    for strength in strengths:
        if solve is None:
            last = solve_linear(lambda logits: loss(logits, labels), embeddings, num_classes, strength, has_bias, last)
        else:
            last = solve(strength, last)
        tried[strength] = float(loss(last.logits(validation[0]), validation[1]))
        if best is None or tried[strength] < tried[best.strength]:
            best = last
        elif len([s for s in tried if s < best.strength]) >= PATIENCE:
            break
    assert best is not None, "no strength was given"
    return ChosenSolution(best, tried)
