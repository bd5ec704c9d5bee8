"""Targeted supervised contrastive learning (Li et al., CVPR 2022)."""

from __future__ import annotations

from typing import Annotated

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from lightning_modules.base import derived_seed
from lightning_modules.methods.supervised.momentum import QueueModule
from lightning_modules.methods.supervised.queue_contrast import QueueContrastModule
from losses import TargetedContrastiveLoss, uniform_targets, updated_centres


class TSCModule(QueueContrastModule):
    """Two stages: a representation drawn to even targets, then a classifier on it: `method=tsc`.

    Targets are made once, from the run's seed. Class centres move towards the batch's mean queries, and classes get
    the targets that lie nearest in sum (Hungarian assignment over cosines). Published: stages of 400 and 40 epochs, the
    second under a class-balanced sampler.

    Args:
        assignment_interval: steps between two assignments (published: 1).
        centre_momentum: of the class centres (published: 0.9).

    The remaining arguments are those of `QueueContrastModule`.
    """

    losses = (TargetedContrastiveLoss,)
    state_of_rows = (*QueueModule.state_of_rows, "centres", "is_seen", "assignment")
    targets: Tensor
    assignment: Tensor
    centres: Tensor
    is_seen: Tensor

    def __init__(
        self,
        *args,
        assignment_interval: Annotated[int, ">= 1"] = 1,
        centre_momentum: Annotated[float, ">= 0", "< 1"] = 0.9,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.assignment_interval, self.centre_momentum = assignment_interval, centre_momentum
        size = self.queue.shape[1]
        generator = torch.Generator().manual_seed(derived_seed(self.seed, "targets"))
        self.register_buffer("targets", uniform_targets(self.num_classes, size, generator))
        self.register_buffer("assignment", torch.arange(self.num_classes))
        self.register_buffer("centres", torch.zeros(self.num_classes, size))
        self.register_buffer("is_seen", torch.zeros(self.num_classes, dtype=torch.bool))

    def assign(self, queries: Tensor, labels: Tensor) -> None:
        """Move the centres by the queries (B, D) of the global batch; at each interval give classes their targets."""
        self.centres, self.is_seen = updated_centres(self.centres, self.is_seen, queries, labels, self.centre_momentum)
        if self.global_step % self.assignment_interval == 0:
            cosines = self.centres @ self.targets.T
            _, columns = linear_sum_assignment(cosines.double().cpu().numpy(), maximize=True)
            self.assignment = torch.as_tensor(columns, device=self.assignment.device)

    def contrast(self, queries: Tensor, labels: Tensor, keys: Tensor) -> Tensor:
        self.assign(queries.detach(), labels)
        targets = self.targets[self.assignment]
        return self.loss(queries, labels, keys, *self.queued(), targets, self.step_generator())
