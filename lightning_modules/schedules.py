"""Learning-rate schedules as multipliers of the base rate."""

from __future__ import annotations

from typing import Annotated

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR


def linear_warmup(
    optimizer: Optimizer, total_steps: int, warmup_ratio: Annotated[float, ">= 0", "< 1"] = 0.1
) -> LambdaLR:
    """Linear from 0 to the base rate over the first `warmup_ratio` of the steps, then linear to 0 at `total_steps`."""
    warmup_steps = int(warmup_ratio * total_steps)

    def multiplier(step: int) -> float:
        if step < warmup_steps:
            return (step + 1) / warmup_steps
        return max(0.0, (total_steps - step) / max(1, total_steps - warmup_steps))

    return LambdaLR(optimizer, multiplier)


def constant(optimizer: Optimizer, total_steps: int) -> LambdaLR:
    """The base rate throughout (as SharpReCL's published code)."""
    return LambdaLR(optimizer, lambda step: 1.0)
