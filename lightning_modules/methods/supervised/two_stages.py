"""What methods of two stages share: a representation, then a classifier on the encoder at rest."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR

from lightning_modules.base import Batch, ClassifierModule
from lightning_modules.methods.supervised.momentum import view_of
from losses import gather, inverse_frequency_weights

Weighting = Annotated[Literal["inverse_frequency", "class_balanced", "none"], "with representation_share<1"]


class TwoStageModule(ClassifierModule):
    """Decoupled training (Kang et al., ICLR 2020): a method says `representation_losses`, and what else differs.

    In the second stage the encoder rests, in eval mode, and a linear classifier is trained on its embeddings of the
    first view; it begins at 0. No epoch is chosen before (with `representation_share=1` the last one is). Each stage
    has a learning-rate schedule of its own. `train/stage` (1 or 2) says of which the logged loss is.

    Args:
        representation_share: share of the steps that the first stage takes, in [0, 1].
        classifier_weighting: of the second stage: `inverse_frequency` weighs rows as sampling all classes alike would
            do in expectation, `class_balanced` samples them so, `none` takes rows as they come.

    The remaining arguments are those of the class that stands beside this one, or of `ClassifierModule`.

    Raises:
        ValueError: as training begins, a scheduler whose schedule is no function of the step.
    """

    def __init__(
        self,
        *args,
        representation_share: Annotated[float, ">= 0", "<= 1"] = 0.7,
        classifier_weighting: Weighting = "inverse_frequency",
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.representation_share, self.classifier_weighting = representation_share, classifier_weighting
        self.rows_afterwards = "class_balanced" if classifier_weighting == "class_balanced" else None

    @property
    def representation_steps(self) -> int:
        """Steps of the first stage."""
        return int(self.representation_share * self.total_steps)

    @property
    def batches_before(self) -> int:
        """Batches of the first stage, over all epochs."""
        batches, of_step = int(self.trainer.num_training_batches), self.trainer.accumulate_grad_batches
        epochs, steps = divmod(self.representation_steps, -(-batches // of_step))
        return epochs * batches + steps * of_step

    @property
    def is_selectable(self) -> bool:
        return self.global_step > self.representation_steps or self.global_step >= self.total_steps

    def representation_losses(self, batch: Batch) -> dict[str, Tensor]:
        """Losses of a step of the first stage, as `training_losses` gives them."""
        raise NotImplementedError

    def begin_second_stage(self) -> None:
        """Before the first step of the second stage: the classifier starts anew, from 0 and without momentum."""
        for parameter in self.classifier.parameters():
            nn.init.zeros_(parameter)
            for optimizer in self.trainer.optimizers:
                optimizer.state.pop(parameter, None)

    def classifier_losses(self, batch: Batch) -> dict[str, Tensor]:
        """Losses of a step of the second stage: cross-entropy of the classifier on embeddings without gradient."""
        rows = functional.cross_entropy(self.logits(self.resting_embeddings(batch)), batch["labels"], reduction="none")
        if self.classifier_weighting == "inverse_frequency":
            rows = rows * inverse_frequency_weights(self.class_counts).to(rows)[batch["labels"]]
        return {"loss": gather(rows).mean()}

    @torch.no_grad()
    def resting_embeddings(self, batch: Batch) -> Tensor:
        """Embeddings (B, D) of the first view by the encoder in eval mode, without gradient."""
        self.encoder.eval()
        return self.embed(view_of(batch, 0))

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        stage = 2 if self.global_step >= self.representation_steps else 1
        if self.global_step == self.representation_steps and not self.micro_batch:
            self.begin_second_stage()
        losses = self.representation_losses(batch) if stage == 1 else self.classifier_losses(batch)
        return losses | {"stage": losses["loss"].new_tensor(float(stage))}

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
        schedule = self.scheduler(SGD([torch.zeros(1)], lr=1.0), total_steps=steps)
        if not isinstance(schedule, LambdaLR):
            allowed = "a LambdaLR, which each stage has anew: constant, cosine, linear_warmup, multi_step"
            raise ValueError(f"scheduler: found {type(schedule).__name__}, allowed with method={self.name}: {allowed}")
        return schedule.lr_lambdas[0]
