"""LDAM with deferred re-weighting (Cao et al., NeurIPS 2019)."""

from __future__ import annotations

from typing import Annotated, Literal

from torch import Tensor
from torch.nn import functional

from lightning_modules.base import Batch, ClassifierModule
from lightning_modules.methods.supervised.cosine import cosines
from losses import LDAMLoss


class LDAMDRWModule(ClassifierModule):
    """Margin loss over cosines, weighted by effective number towards the end: `method=ldam_drw`.

    Logits are `loss.scale` times the cosine of embedding and class weight, without the margin.

    Args:
        reweight_from: share of the training after which rows are weighted, in [0, 1]; 0 from the start, 1 never.
            Authors' code: 0.8.
        schedule_by: the share is of `step`s, or of `epoch`s and rounded down to whole ones, so that below 1 the last
            epoch is always weighted: of six epochs the last two, a third in place of a fifth.
        classifier_bias: none, for cosines.

    The remaining arguments are those of `ClassifierModule`.
    """

    losses = (LDAMLoss,)
    unit_norm_embeddings = True

    def __init__(
        self,
        *args,
        reweight_from: Annotated[float, ">= 0", "<= 1"] = 0.8,
        schedule_by: Annotated[Literal["step", "epoch"], "with reweight_from<1"] = "epoch",
        classifier_bias: Literal[False] = False,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs | {"classifier_bias": classifier_bias})
        self.reweight_from, self.schedule_by = reweight_from, schedule_by

    def cosines(self, embeddings: Tensor) -> Tensor:
        """(B, D) -> (B, C) in [-1, 1], float32."""
        return cosines(self.dropout(embeddings), self.classifier.weight)

    def logits(self, embeddings: Tensor) -> Tensor:
        return self.loss.scale * self.cosines(embeddings)

    def prediction_head(self) -> dict[str, Tensor]:
        return {"weight": self.loss.scale * functional.normalize(self.classifier.weight.detach(), dim=1)}

    @property
    def reweights(self) -> bool:
        """Whether the current step or epoch is one of the weighted ones."""
        done, whole = self.progress(self.schedule_by)
        return done >= int(self.reweight_from * whole + 1e-9)

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        cosines = self.cosines(self.embed(batch))
        labels = batch["labels"].repeat(batch["num_views"])
        return {"loss": self.loss(cosines, labels, self.class_counts, self.reweights)}
