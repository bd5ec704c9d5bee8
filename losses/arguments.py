"""Checks and casts that every loss shares."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor, nn

P = ParamSpec("P")
T = TypeVar("T")
Number = TypeVar("Number", int, float)


class ClassificationLoss(nn.Module):
    """A loss of logits (N, C), labels (N,) and train rows a class (C,), which `method=ce` and its like take.

    Source: this house.
    """

    needs_every_class = False  # whether `class_counts` must be >= 1 throughout; of other losses too


def check_tau(tau: float) -> float:
    """The temperature, a number without shape, as it is; ``ValueError`` where it is not above 0. Source: this house."""
    return check_positive("tau", tau)


def check_positive(name: str, value: float) -> float:
    """A number without shape as it is; ``ValueError`` where it is not above 0. Source: this house."""
    if not value > 0:
        raise ValueError(f"{name} must be > 0, got {value}")
    return value


def check_not_negative(name: str, value: Number) -> Number:
    """A number without shape as it is; ``ValueError`` where it is below 0. Source: this house."""
    if not value >= 0:
        raise ValueError(f"{name} must be >= 0, got {value}")
    return value


def check_share(name: str, value: float, may_be_1: bool = True) -> float:
    """A number without shape as it is; ``ValueError`` where it is not in [0, 1], or in [0, 1). Source: this house."""
    if not (0 <= value <= 1 and (may_be_1 or value < 1)):
        raise ValueError(f"{name} must be in [0, 1{']' if may_be_1 else ')'}, got {value}")
    return value


def check_choice(name: str, value: T, allowed: Collection[T]) -> T:
    """The value, of any shape, as it is; ``ValueError`` where it is not one of ``allowed``. Source: this house."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(str, allowed))}, got {value!r}")
    return value


def check_rows(name: str, rows: Tensor, labels: Tensor) -> None:
    """Raises ``ValueError`` unless ``rows`` is (B, D), for any D, and ``labels`` is (B,). Source: this house."""
    if rows.dim() != 2 or labels.shape != rows.shape[:1]:
        raise ValueError(f"{name} must be (B, D) and labels (B,), got {tuple(rows.shape)} and {tuple(labels.shape)}")


def full_precision(function: Callable[P, T]) -> Callable[P, T]:
    """Runs a loss in float32 under autocast and on half-precision tensors of any shape; float64 stays float64.

    Sums of exponentials over a batch lose the small differences that drive the gradient in bfloat16,
    which keeps 8 bits. Source: this house.
    """

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        device = next(value.device for value in (*args, *kwargs.values()) if isinstance(value, Tensor))
        with torch.autocast(device.type, enabled=False):
            wide = {key: _widen(value) for key, value in kwargs.items()}
            return function(*map(_widen, args), **wide)

    return wrapper


def _widen(value: Any) -> Any:
    is_half = isinstance(value, Tensor) and value.dtype in (torch.float16, torch.bfloat16)
    return value.float() if is_half else value
