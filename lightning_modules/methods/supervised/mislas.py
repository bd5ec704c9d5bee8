"""Mixup shifted label-aware smoothing (Zhong et al., CVPR 2021)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from lightning_modules.base import Batch, derived_seed
from lightning_modules.methods.supervised.momentum import view_of
from lightning_modules.methods.supervised.two_stages import TwoStageModule, Weighting
from losses import CrossEntropy, LabelAwareSmoothingLoss, gather


class MiSLASModule(TwoStageModule):
    """Mixup, then classifier and class scales on balanced draws under label-aware smoothing: `method=mislas`.

    Inputs that are numbers, pixels and cached features, are mixed themselves; tokens cannot be, so that their
    embeddings are. In the second stage weights of the encoder rest, while statistics of its batch normalisation, where
    it has any, move to the balanced draws. The classifier goes on from the first stage. Published: 200 and 10 epochs.

    Args:
        mixup_alpha: of Beta(alpha, alpha), from which the share of the other row is drawn at each step (published: 1 on
            CIFAR, 0.2 on larger sets); 0 mixes nothing.
        class_lr: learning rate of the class scales, which have a way of order 1 to go.
        classifier_weighting: see `TwoStageModule` (published: `class_balanced`).
        num_views: 1.

    The remaining arguments are those of `TwoStageModule`.
    """

    losses = (LabelAwareSmoothingLoss,)

    def __init__(
        self,
        *args,
        mixup_alpha: Annotated[float, ">= 0", "with representation_share>0"] = 1.0,
        class_lr: Annotated[float, "> 0", "with representation_share<1"] = 1e-2,
        classifier_weighting: Weighting = "class_balanced",
        num_views: Literal[1] = 1,
        **kwargs,
    ) -> None:
        super().__init__(*args, classifier_weighting=classifier_weighting, num_views=num_views, **kwargs)
        self.mixup_alpha = mixup_alpha
        self.scale = nn.Parameter(torch.ones(self.num_classes))
        self.rates = {"scale": class_lr}
        self.first_loss = CrossEntropy()

    def logits(self, embeddings: Tensor) -> Tensor:
        return self.scale * super().logits(embeddings)

    def prediction_head(self) -> dict[str, Tensor]:
        scale, head = self.scale.detach(), super().prediction_head()
        scaled = {"weight": scale[:, None] * head["weight"]}
        return scaled | ({"bias": scale * head["bias"]} if "bias" in head else {})

    def representation_losses(self, batch: Batch) -> dict[str, Tensor]:
        rng = np.random.default_rng(derived_seed(self.seed, "mixup", *self._step()))
        share = float(rng.beta(self.mixup_alpha, self.mixup_alpha)) if self.mixup_alpha else 1.0
        partners = Partners(batch["labels"], rng)
        inputs = {key: value.float() for key, value in batch.items() if _is_mixable(value)}
        if inputs:
            mixed = {key: torch.lerp(partners.of(value), value, share) for key, value in inputs.items()}
            embeddings = self.embed({**batch, **mixed})
        else:
            embeddings = self.embed(batch)
            embeddings = torch.lerp(partners.of(embeddings), embeddings, share)
        logits, labels = super().logits(embeddings), batch["labels"]
        own, other = self.first_loss(logits, labels), self.first_loss(logits, partners.of(labels))
        return {"loss": share * own + (1 - share) * other}

    def begin_second_stage(self) -> None:
        """The classifier stays."""

    @torch.no_grad()
    def resting_embeddings(self, batch: Batch) -> Tensor:
        self.encoder.eval()
        for module in self.encoder.modules():
            if isinstance(module, _BatchNorm):
                module.train(not self.encoder.frozen)
        return self.embed(view_of(batch, 0))

    def classifier_losses(self, batch: Batch) -> dict[str, Tensor]:
        logits = self.logits(self.resting_embeddings(batch))
        return {"loss": self.loss(logits, batch["labels"], self.class_counts)}


class Partners:
    """For each row of this process another row of the global batch, or the row itself; the same for all tensors.

    Args:
        labels: (B,) of this process.
        rng: in the same state on every process.
    """

    def __init__(self, labels: Tensor, rng: np.random.Generator) -> None:
        rank = dist.get_rank() if dist.is_available() and dist.is_initialized() else 0
        ranks = gather(torch.full_like(labels, rank))
        order = torch.from_numpy(rng.permutation(len(ranks))).to(labels.device)
        self.rows = order[ranks == rank]

    def of(self, rows: Tensor) -> Tensor:
        """Rows (B, ...) of this process -> those of their partners (B, ...), with gradient."""
        return gather(rows)[self.rows]


def _is_mixable(value: Any) -> bool:
    """Pixels come as uint8; tokens, labels and masks are of other whole types."""
    return isinstance(value, Tensor) and (value.is_floating_point() or value.dtype == torch.uint8)
