"""ACL: aligned contrastive loss with class centres and more views for rarer classes, over Balanced Softmax."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import torch
from torch import Tensor

from lightning_modules.base import Batch, ClassifierModule, inputs_of
from lightning_modules.heads.projection import ProjectionHead
from losses import ACLLoss, BalancedSoftmaxLoss, gather, updated_centres, views_of_classes


class ACLModule(ClassifierModule):
    """L = alpha L_ACL + L_BS (eq. 10).

    Args:
        alpha: weight of the contrastive term (paper: 0.1 on CIFAR, 0.5 elsewhere).
        views_many: views that enter the contrastive term, of a class with many rows in training.
        views_medium: the same, of a class with neither many nor few.
        views_few: the same, of a class with few.
        many_above: more rows than this is "many" (paper: 100).
        few_below: fewer rows than this is "few" (paper: 20).
        classification_views: `all` gives every view to Balanced Softmax (paper); `contrastive` encodes only the views
            that enter the contrastive term, and classifies these: less time where most rows are of large classes.
        centre_momentum: of the class centres (not given in the paper).
        projection_size: output of the projection (paper: 32 on CIFAR, 1024 on ImageNet).

    The remaining arguments are those of `ClassifierModule`; `num_views` is the most that any class uses.
    `pair_gradients` of a training step are those of the anchors alone (eq. 11), not of both ends of a pair.

    Raises:
        ValueError: a class would use more views than num_views, or few_below > many_above + 1.
    """

    losses = (ACLLoss,)
    reads_loss_when = "alpha>0"
    state_of_rows = ("centres", "is_seen")
    needs_every_class = True
    views: Tensor
    centres: Tensor
    is_seen: Tensor

    def __init__(
        self,
        *args,
        alpha: Annotated[float, ">= 0"] = 0.5,
        views_many: Annotated[int, ">= 1"] = 2,
        views_medium: Annotated[int, ">= 1"] = 3,
        views_few: Annotated[int, ">= 1"] = 4,
        many_above: Annotated[int, ">= 0"] = 100,
        few_below: Annotated[int, ">= 0"] = 20,
        classification_views: Literal["all", "contrastive"] = "all",
        centre_momentum: Annotated[float, ">= 0", "< 1", "with loss.with_centres=True", "with alpha>0"] = 0.9,
        projection_size: Annotated[int, ">= 1", "with alpha>0"] = 128,
        num_views: Annotated[int, ">= 1", "<= 64"] = 4,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs | {"num_views": num_views})
        if (most := max(views_many, views_medium, views_few)) > self.num_views:
            raise ValueError(f"method.num_views: found {self.num_views}, allowed: >= {most}, as method.views_* say")
        views = views_of_classes(self.class_counts, views_many, views_medium, views_few, many_above, few_below)
        self.register_buffer("views", views, persistent=False)
        self.register_buffer("centres", torch.zeros(self.num_classes, projection_size))
        self.register_buffer("is_seen", torch.zeros(self.num_classes, dtype=torch.bool))
        self.project = ProjectionHead(self.encoder.hidden_size, projection_size)
        self.classification_loss = BalancedSoftmaxLoss()
        self.alpha, self.centre_momentum = alpha, centre_momentum
        self.classification_views = classification_views

    def contrastive_loss(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Eq. 9 on the global batch; the centres take the batch in afterwards."""
        z, labels = gather(self.project(embeddings)), gather(labels)
        state = (labels, self.centres, self.is_seen, self.class_counts)
        loss = self.loss(z, *state)
        self._pair_gradients = partial(self._labelled_gradients, z.detach(), *state)
        self.centres, self.is_seen = updated_centres(
            self.centres, self.is_seen, z.detach(), labels, self.centre_momentum
        )
        return loss

    def _labelled_gradients(self, embeddings: Tensor, labels: Tensor, *state: Tensor) -> tuple[Tensor, Tensor]:
        return self.loss.pair_gradients(embeddings, labels, *state), labels

    def contrastive_rows(self, labels: Tensor, num_views: int) -> Tensor:
        """Which rows (V*B,) of a view-major batch enter the contrastive term: the first views of each text."""
        view = torch.arange(num_views, device=labels.device)
        return (view[:, None] < self.views[labels]).flatten()

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        enters = self.contrastive_rows(batch["labels"], batch["num_views"])
        labels = batch["labels"].repeat(batch["num_views"])
        if self.classification_views == "contrastive":
            batch, labels, enters = _rows(batch, enters), labels[enters], enters[enters]
        output = self(batch)
        classification = self.classification_loss(output["logits"], labels, self.class_counts)
        if self.alpha == 0:
            return {"loss": classification}
        contrastive = self.contrastive_loss(output["embeddings"][enters], labels[enters])
        loss = self.alpha * contrastive + classification
        return {"loss": loss, "classification": classification, "contrastive": contrastive}


def _rows(batch: Batch, keep: Tensor) -> Batch:
    """The batch with the kept rows (V*B,) of all that the encoder reads."""
    return {key: rows[keep] for key, rows in inputs_of(batch).items()}
