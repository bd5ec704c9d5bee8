"""Binary logistic regressions of many labels over embeddings that do not change, all solved at once."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from lightning_modules.heads.linear_solver import LinearSolution

TOLERANCE = 5e-4  # length of a label's gradient, relative to the share of rows with the rarer answer, as in LIBLINEAR
INNER_TOLERANCE = 0.1  # of the residual of a Newton step, relative to the gradient
MAX_STEPS, MAX_INNER_STEPS, MAX_HALVINGS = 50, 100, 20
SUFFICIENT_DECREASE = 1e-4


class LabelRegressions:
    """Minimises, of each label, what `solve_linear` does of its binary cross-entropy, the mean over rows.

    Each label is a problem of its own, which ends by itself: in the gradient of a mean over labels a rare label is lost
    beside common ones. The strength is the same for all, and means what it does for a single label. All take their
    steps at once, by Newton's method with conjugate gradients (Lin, Weng and Keerthi, JMLR 9, 2008). The rows are
    centred, which the bias takes up; the preconditioner of label c is then a_c S + strength * I for the weights and a_c
    for the bias, S the covariance of the embeddings and a_c the mean of p (1 - p), inverted in the eigenvectors of S
    that all labels share.

    Args:
        embeddings: (N, D), N >= 1.
        labels: (N, C) of 0 and 1.
        has_bias: whether the labels have a bias, without a penalty.
    """

    def __init__(self, embeddings: Tensor, labels: Tensor, has_bias: bool = True) -> None:
        embeddings = embeddings.double()
        self.length = float(embeddings.square().sum(1).mean().sqrt()) or 1.0
        rows = embeddings / self.length
        self.centre = rows.mean(0) if has_bias else torch.zeros_like(rows[0])
        rows = rows - self.centre
        self.inputs = torch.cat([rows, torch.full_like(rows[:, :1], float(has_bias))], dim=1)
        self.short_inputs = self.inputs.float()  # for the direction of a step, which need not be exact
        self.labels = labels.double()
        moments, vectors = torch.linalg.eigh(rows.T @ rows / len(rows))
        self.moments, self.vectors = moments.clamp_min(0.0).float()[:, None], vectors.float()
        share = self.labels.mean(0)
        self.enough = TOLERANCE * torch.minimum(share, 1 - share).clamp_min(1 / len(rows))

    def solve(self, strength: float, start: LinearSolution | None = None) -> LinearSolution:
        """The optimum at a strength, from an earlier solution of the same problem or from 0; its `value` is the mean
        over labels.

        Raises:
            ValueError: `strength` is not above 0.
        """
        if not strength > 0:
            raise ValueError(f"strength: found {strength}, allowed: > 0")
        penalty = torch.full((self.inputs.shape[1], 1), strength, dtype=torch.float64)
        penalty[-1] = 0.0
        point = torch.zeros(len(penalty), self.labels.shape[1], dtype=torch.float64)
        if start is not None:
            point[:-1] = start.weight.T * self.length
            point[-1] = start.bias + self.centre @ point[:-1]
        logits = self.inputs @ point
        open_ = torch.arange(point.shape[1])
        for _ in range(MAX_STEPS):
            probabilities = logits[:, open_].sigmoid()
            gradient = self.inputs.T @ (probabilities - self.labels[:, open_]) / len(logits) + penalty * point[:, open_]
            is_open = gradient.norm(dim=0) > self.enough[open_]
            open_ = open_[is_open]
            if not len(open_):
                break
            gradient, probabilities = gradient[:, is_open], probabilities[:, is_open]
            step = self._newton_step(gradient, probabilities * (1 - probabilities), penalty)
            self._move(point, logits, open_, step, gradient, penalty)
        value = float(self._values(logits, self.labels, point, penalty).mean())
        weight, bias = point[:-1].T / self.length, point[-1] - self.centre @ point[:-1]
        return LinearSolution(weight.contiguous(), bias, strength, value, not len(open_))

    def _values(self, logits: Tensor, labels: Tensor, point: Tensor, penalty: Tensor) -> Tensor:
        """The penalised loss of each label, (C,)."""
        loss = functional.softplus(logits) - labels * logits
        return loss.mean(0) + (penalty * point.square()).sum(0) / 2

    def _newton_step(self, gradient: Tensor, curvature: Tensor, penalty: Tensor) -> Tensor:
        """About -H^-1 gradient (D + 1, C) by conjugate gradients, of rows' curvatures (N, C), in float32."""
        curvature, penalty = curvature.float() / len(curvature), penalty.float()
        mean = curvature.sum(0)
        inverse = 1 / (mean * self.moments + penalty[:-1])
        norm = gradient.norm(dim=0)
        residual = (-gradient / norm).float()  # of unit length, for float32 reaches no further down than 1e-38
        step, direction = torch.zeros_like(residual), torch.zeros_like(residual)
        last = torch.ones(residual.shape[1])
        for number in range(MAX_INNER_STEPS):
            is_open = residual.norm(dim=0) > INNER_TOLERANCE
            if not is_open.any():
                break
            scaled = torch.cat([self.vectors @ (inverse * (self.vectors.T @ residual[:-1])), residual[-1:] / mean])
            product = (residual * scaled).sum(0)
            direction = scaled + (product / last if number else 0.0) * direction
            last = product.clamp_min(1e-30)
            curved = self.short_inputs.T @ (curvature * (self.short_inputs @ direction)) + penalty * direction
            length = torch.where(is_open, product / (direction * curved).sum(0), 0.0)
            step += length * direction
            residual -= length * curved
        return step.double() * norm

    def _move(
        self, point: Tensor, logits: Tensor, labels: Tensor, step: Tensor, gradient: Tensor, penalty: Tensor
    ) -> None:
        """Go the step of these labels in `point` and `logits`, half of it and so on where that does not lead down."""
        true, start, first = self.labels[:, labels], point[:, labels], logits[:, labels]
        along, slope = self.inputs @ step, (gradient * step).sum(0)
        before, share = self._values(first, true, start, penalty), torch.ones(len(labels), dtype=torch.float64)
        for _ in range(MAX_HALVINGS):
            after = self._values(first + share * along, true, start + share * step, penalty)
            is_lower = after <= before + SUFFICIENT_DECREASE * share * slope + 1e-15
            if is_lower.all():
                break
            share = torch.where(is_lower, share, share / 2)
        point[:, labels], logits[:, labels] = start + share * step, first + share * along
