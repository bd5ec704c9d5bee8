"""Learning-rate schedules as multipliers of the base rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
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


def cosine(
    optimizer: Optimizer, total_steps: int, warmup_ratio: Annotated[float, ">= 0", "< 1"] = 0.0
) -> LambdaLR:
    """Linear from 0 to the base rate over the first `warmup_ratio` of the steps, then half a cosine down to 0."""
    warmup_steps = int(warmup_ratio * total_steps)

    def multiplier(step: int) -> float:
        if step < warmup_steps:
            return (step + 1) / warmup_steps
        share = min(1.0, (step - warmup_steps) / max(1, total_steps - warmup_steps))
        return (1 + math.cos(math.pi * share)) / 2

    return LambdaLR(optimizer, multiplier)


def multi_step(
    optimizer: Optimizer,
    total_steps: int,
    warmup_ratio: Annotated[float, ">= 0", "< 1"] = 0.025,
    milestones: Sequence[Annotated[float, "> 0", "< 1"]] = (0.8, 0.9),
    factor: Annotated[float, "> 0", "<= 1"] = 0.1,
) -> LambdaLR:
    """Linear from 0 to the base rate over the first `warmup_ratio` of the steps, then times `factor` at each milestone,
    a share of the steps."""
    warmup_steps, falls = int(warmup_ratio * total_steps), [int(share * total_steps) for share in milestones]

    def multiplier(step: int) -> float:
        if step < warmup_steps:
            return (step + 1) / warmup_steps
        return factor ** sum(step >= fall for fall in falls)

    return LambdaLR(optimizer, multiplier)


def falling_share(done: int, whole: int) -> float:
    """1 - (t / T)^2 (Zhou et al., CVPR 2020): a share that is 1 at the start of training and 0 at its end."""
    return 1 - (done / whole) ** 2
