"""Class priors and the class weights made of them."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from losses.arguments import check_choice, check_share

ClassWeight = Literal["effective_number", "negative_log_prior", "none"]


def effective_number_weights(class_counts: Tensor, beta: float = 0.9999) -> Tensor:
    """Weights w_c = mean(E) / E_c from the effective number of samples E_c = (1 - beta^n_c) / (1 - beta).

    Source: Cui et al. (CVPR 2019), eq. 2, as normalised in SharpReCL's published code.

    Args:
        class_counts: (C,) training samples of each class, each >= 1.
        beta: in [0, 1); 0 weighs all classes alike, towards 1 the weight tends to mean(n) / n_c.

    Returns:
        (C,) float64, positive, larger for rarer classes.

    Raises:
        ValueError: beta outside [0, 1), or a class without samples.
    """
    check_share("beta", beta, may_be_1=False)
    counts = checked_counts(class_counts)
    # -expm1(n log beta) is 1 - beta^n without the cancellation; the constant 1 - beta drops out of the ratio.
    effective = -torch.expm1(counts * torch.tensor(beta, dtype=counts.dtype).log())
    return effective.mean() / effective


def inverse_frequency_weights(class_counts: Tensor) -> Tensor:
    """Weights w_c = n / (C n_c): weighted rows count as if all classes were sampled alike, in expectation.

    Source: the class-balanced sampling of Kang et al. (ICLR 2020), section 3, as weights.

    Args:
        class_counts: (C,) training samples of each class, some > 0; C in the formula is the number of those.

    Returns:
        (C,) float64, 0 for a class without samples, else positive; their mean over the rows of training is 1.
    """
    counts = class_counts.double()
    return torch.where(counts > 0, counts.sum() / (counts.count_nonzero() * counts), 0.0)


def log_prior(class_counts: Tensor) -> Tensor:
    """log P_c = log(n_c / sum n): (C,) counts, each >= 1, to (C,) float64 values <= 0.

    Source: SharpReCL, delta_y of eq. 6.
    """
    counts = checked_counts(class_counts)
    return counts.log() - counts.sum().log()


def negative_log_prior_weights(class_counts: Tensor) -> Tensor:
    """-log P_c: (C,) counts, each >= 1, to (C,) float64 weights >= 0, larger for rarer classes.

    Source: SharpReCL, delta_y of eq. 11 with its sign turned: as printed, delta_y = log P_y < 0 makes the loss
    reward positives for moving apart.
    """
    return -log_prior(class_counts)


def class_weights(class_counts: Tensor, kind: ClassWeight, beta: float = 0.9999) -> Tensor:
    """The weights of the named kind, (C,) float64; ``none`` gives ones.

    Source: ``effective_number`` Cui et al. (CVPR 2019); ``negative_log_prior`` SharpReCL, eq. 11, its sign turned.

    Args:
        class_counts: (C,) training samples of each class, each >= 1.
        kind: ``effective_number``, ``negative_log_prior`` or ``none``.
        beta: of the effective number, in [0, 1).

    Raises:
        ValueError: unknown kind, beta out of range, or a class without samples.
    """
    check_choice("class_weight", kind, get_args(ClassWeight))
    if kind == "effective_number":
        return effective_number_weights(class_counts, beta)
    if kind == "negative_log_prior":
        return negative_log_prior_weights(class_counts)
    return torch.ones_like(checked_counts(class_counts))


def checked_counts(class_counts: Tensor) -> Tensor:
    """Counts (C,) as float64; ``ValueError`` where there are none or one is below 1. Source: this house."""
    if class_counts.dim() != 1 or not len(class_counts):
        raise ValueError(f"class_counts must be (C,) with C >= 1, got {tuple(class_counts.shape)}")
    if (class_counts < 1).any():
        index = int((class_counts < 1).nonzero()[0])
        raise ValueError(
            f"class_counts must be >= 1 for every class, got {class_counts[index].item()} for class {index}"
        )
    return class_counts.double()
