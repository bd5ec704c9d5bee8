"""Targeted supervised contrastive learning (Li et al., CVPR 2022)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR

from lightning_modules.base import Batch, derived_seed
from lightning_modules.methods.supervised.momentum import QueueModule, gathered, view_of
from losses import (
    TargetedContrastiveLoss,
    gather,
    inverse_frequency_weights,
    uniform_targets,
    updated_centres,
)


class TSCModule(QueueModule):
    """Two stages: a representation drawn to even targets, then a classifier on it: `method=tsc`.

    Targets are made once, from the run's seed. Class centres move towards the batch's mean queries, and classes get
    the targets that lie nearest in sum (Hungarian assignment over cosines). In the second stage the encoder rests, in
    eval mode, and a linear classifier is trained on its embeddings. Until then the classifier is 0, all classes score
    the same, and no epoch is chosen (with `representation_share=1` the last one is).
    Each stage has a learning-rate schedule of its own. `train/stage` (1 or 2) says of which the logged loss is; in the
    first it rises while the queue fills, for the denominator grows.

    Args:
        representation_share: share of the steps that the first stage takes, in [0, 1] (published: 400 of 440 epochs).
        assignment_interval: steps between two assignments (published: 1).
        centre_momentum: of the class centres (published: 0.9).
        classifier_weighting: `inverse_frequency` weighs rows as sampling all classes alike would do in expectation
            (published: a class-balanced sampler), `none` all the same.
        momentum: of the momentum encoder, as in `QueueModule`.

    The remaining arguments are those of `QueueModule`; `num_views` is 2.
    """

    losses = (TargetedContrastiveLoss,)
    targets: Tensor
    assignment: Tensor
    centres: Tensor
    is_seen: Tensor

    def __init__(
        self,
        *args,
        representation_share: Annotated[float, ">= 0", "<= 1"] = 0.7,
        assignment_interval: Annotated[int, ">= 1"] = 1,
        centre_momentum: Annotated[float, ">= 0", "< 1"] = 0.9,
        classifier_weighting: Literal["inverse_frequency", "none"] = "inverse_frequency",
        momentum: Annotated[float, ">= 0", "< 1"] = 0.999,
        num_views: Literal[2] = 2,
        **kwargs,
    ) -> None:
        super().__init__(*args, momentum=momentum, num_views=num_views, **kwargs)
        self.representation_share, self.assignment_interval = representation_share, assignment_interval
        self.centre_momentum, self.classifier_weighting = centre_momentum, classifier_weighting
        size = self.queue.shape[1]
        generator = torch.Generator().manual_seed(derived_seed(self.seed, "targets"))
        self.register_buffer("targets", uniform_targets(self.num_classes, size, generator))
        self.register_buffer("assignment", torch.arange(self.num_classes))
        self.register_buffer("centres", torch.zeros(self.num_classes, size))
        self.register_buffer("is_seen", torch.zeros(self.num_classes, dtype=torch.bool))
        for parameter in self.classifier.parameters():
            nn.init.zeros_(parameter)

    @property
    def representation_steps(self) -> int:
        """Steps of the first stage."""
        return int(self.representation_share * self.total_steps)

    @property
    def is_selectable(self) -> bool:
        return self.global_step > self.representation_steps or self.global_step >= self.total_steps

    def assign(self, queries: Tensor, labels: Tensor) -> None:
        """Move the centres by the queries (B, D) of the global batch; at each interval give classes their targets."""
        self.centres, self.is_seen = updated_centres(
            self.centres, self.is_seen, queries, labels, self.centre_momentum
        )
        if self.global_step % self.assignment_interval == 0:
            cosines = self.centres @ self.targets.T
            _, columns = linear_sum_assignment(cosines.double().cpu().numpy(), maximize=True)
            self.assignment = torch.as_tensor(columns, device=self.assignment.device)

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        if self.global_step >= self.representation_steps:
            return self._classifier_losses(batch)
        self.move_key_modules()
        queries = self.project(self.embed(view_of(batch, 0)))
        queries, keys, labels = gathered(queries, self.keys(view_of(batch, 1)), batch["labels"])
        self.assign(queries.detach(), labels)
        targets = self.targets[self.assignment]
        loss = self.loss(queries, labels, keys, *self.queued(), targets, self.step_generator())
        self.enqueue(keys, labels)
        return {"loss": loss, "stage": loss.new_tensor(1.0)}

    def _classifier_losses(self, batch: Batch) -> dict[str, Tensor]:
        self.encoder.eval()
        with torch.no_grad():
            embeddings = self.embed(view_of(batch, 0))
        rows = functional.cross_entropy(self.logits(embeddings), batch["labels"], reduction="none")
        if self.classifier_weighting == "inverse_frequency":
            rows = rows * inverse_frequency_weights(self.class_counts).to(rows)[batch["labels"]]
        loss = gather(rows).mean()
        return {"loss": loss, "stage": loss.new_tensor(2.0)}

    def configure_optimizers(self) -> Any:
        """Warm-up and decay of the scheduler once for each stage."""
        configured = super().configure_optimizers()
        first = self.representation_steps
        stages = [self._multiplier(first), self._multiplier(self.total_steps - first)]

        def multiplier(step: int) -> float:
            return stages[0](step) if step < first else stages[1](step - first)

        configured["lr_scheduler"]["scheduler"] = LambdaLR(configured["optimizer"], multiplier)
        return configured

    def _multiplier(self, steps: int) -> Any:
        """The configured schedule over that many steps, as a function of the step."""
        return self.scheduler(SGD([torch.zeros(1)], lr=1.0), total_steps=steps).lr_lambdas[0]
