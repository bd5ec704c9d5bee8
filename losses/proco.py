"""ProCo: contrast with infinitely many samples of each class, a von Mises-Fisher distribution, in closed form."""

from __future__ import annotations

import math
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from losses.arguments import check_rows, check_tau, full_precision
from losses.class_prior import log_prior
from losses.logit_compensated import logit_compensated_cross_entropy

EXPANDED_FROM = 60.0  # order of the Bessel function from which the expansion is exact to about 1e-11
MAX_CONCENTRATION = 1e5  # of the published code: one row alone would have an infinite one


def log_scaled_bessel(squared: Tensor, order: float) -> Tensor:
    """log( I_v(x) / x^v ) of the modified Bessel function, as a function of x^2 (any shape), float64.

    Smooth at 0, without over- or underflow at any x; first derivative only. From two high orders, by the uniform
    asymptotic expansion, down to v by I_{v-1} = (2v/x) I_v + I_{v+1}, whose terms are all positive.
    Source: Abramowitz and Stegun, 9.7.7 and 9.6.26.

    Args:
        squared: x^2 >= 0.
        order: v >= 0.
    """
    return _LogScaledBessel.apply(squared.double(), order)


class _LogScaledBessel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, squared: Tensor, order: float) -> Tensor:
        steps = max(0, math.ceil(EXPANDED_FROM - order))
        higher, value = (_expansion(squared, order + steps + more) for more in (1, 0))
        for step in range(steps, 0, -1):
            lower = value + (2 * (order + step) + squared * (higher - value).exp()).log()
            higher, value = value, lower
        ctx.save_for_backward((higher - value).exp() / 2)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor):
        # d/dx (I_v / x^v) = I_{v+1} / x^v, and d/d(x^2) = 1/(2x) d/dx
        return grad_output * ctx.saved_tensors[0], None


def _expansion(squared: Tensor, order: float) -> Tensor:
    """log( I_v(x) / x^v ) for a large order v."""
    root = (1 + squared / order**2).sqrt()
    p = 1 / root
    p2 = p * p
    terms = (
        1
        + p * (3 - 5 * p2) / (24 * order)
        + p2 * (81 - 462 * p2 + 385 * p2**2) / (1152 * order**2)
        + p * p2 * (30375 - 369603 * p2 + 765765 * p2**2 - 425425 * p2**3) / (414720 * order**3)
        + p2**2
        * (4465125 - 94121676 * p2 + 349922430 * p2**2 - 446185740 * p2**3 + 185910725 * p2**4)
        / (39813120 * order**4)
    )
    exponent = order * (root - (1 + root).log() - math.log(order))
    return exponent - 0.5 * (math.log(2 * math.pi * order) + root.log()) + terms.log()


def expected_logits(embeddings: Tensor, means: Tensor, tau: float) -> Tensor:
    """log E e^{z.v / tau} over v of each class's von Mises-Fisher distribution, (B, D) and (C, D) -> (B, C), float64.

    log( C_D(k_c) / C_D(|k_c m_c + z / tau|) ), m_c the direction and k_c = D R / (1 - R^2) the concentration of a class
    whose mean has the length R. Source: Du et al. (TPAMI 2024).

    Args:
        embeddings: (B, D) L2-normalised, D >= 2.
        means: (C, D) of L2-normalised rows; 0 stands for the uniform distribution.
        tau: temperature, > 0.

    Raises:
        ValueError: shapes that do not fit.
    """
    size = embeddings.shape[1]
    if means.dim() != 2 or means.shape[1] != size or size < 2:
        raise ValueError(f"means must be (C, {size}) with {size} >= 2, got {tuple(means.shape)}")
    z, means = embeddings.double() / tau, means.double()
    length = means.norm(dim=1)
    concentration = (size * length / (1 - length.square()).clamp_min(1e-12)).clamp_max(MAX_CONCENTRATION)
    centres = concentration[:, None] * F.normalize(means, dim=1)
    squared = z.square().sum(1, keepdim=True) + 2 * z @ centres.T + concentration.square()
    order = size / 2 - 1
    return log_scaled_bessel(squared.clamp_min(0), order) - log_scaled_bessel(concentration.square(), order)


class ProCoLoss(nn.Module):
    """Cross-entropy of :func:`expected_logits` + log prior.

    Source: Du et al. (TPAMI 2024). Shapes: see `forward`.

    Args:
        tau: temperature, > 0.

    Raises:
        ValueError: tau <= 0.
    """

    def __init__(self, tau: Annotated[float, "> 0"] = 0.1) -> None:
        super().__init__()
        self.tau = check_tau(tau)

    @full_precision
    def forward(self, embeddings: Tensor, labels: Tensor, means: Tensor, class_counts: Tensor) -> Tensor:
        """Embeddings (B, D) L2-normalised, labels (B,), means (C, D), class_counts (C,) each >= 1 -> scalar loss.

        The means have no gradient. 0 with zero gradient for an empty batch.

        Raises:
            ValueError: shapes that do not fit.
        """
        check_rows("embeddings", embeddings, labels)
        logits = expected_logits(embeddings, means.detach(), self.tau).to(embeddings)
        return logit_compensated_cross_entropy(logits, labels, log_prior(class_counts))
