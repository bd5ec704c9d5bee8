"""SharpReCL: simple sampling and hard mixup with prototypes to rebalance contrastive learning (WWW'26)."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from lightning_modules.base import Batch, ClassifierModule
from lightning_modules.heads.projection import ProjectionHead
from losses import LogitCompensatedCrossEntropy, SharpReCLLoss, draw_samples, gather, hard_ratio_schedule


class SharpReCLModule(ClassifierModule):
    """L = L_CLS + mu L_CL (eq. 12): logit-compensated cross-entropy and rebalanced contrastive loss over both views.

    Args:
        mu: weight of the contrastive term, eq. 12.
        K: hard examples a class, eq. 9; a class with fewer gives what it has.
        n_pos: size of the rebalanced positive set of a class (paper §4: 10).
        n_neg: size of its negative set (paper §4: 500).
        mixing_beta: Beta(mixing_beta, mixing_beta) of the mixup weight, eq. 10.
        projection_size: output of both projections (not given in the paper; its code: 100).
        projection_norm: batch_norm is the published code's addition.
        adjustment_strength: factor of log P_y in eq. 6; 0 is plain cross-entropy.
        unit_norm_logits: L2-normalise the logits before training and inference (published code).
        schedule_by: the hard share grows by `step` (paper) or by `epoch` (published code).
        train_mode: `normal`, or `until_first_evaluation` (published code: the encoder's dropout is never on and the
            heads leave training mode after the first epoch, for `model.train()` is never called again).
        samples: `simple_and_hard`, only `simple` (Table 4, w/o HM) or only `hard` ones (w/o SS) in the rebalanced sets.
        prototypes_from: `classifier`, whose weight both branches then share, or `own_weights`, learned by
            the contrastive loss alone (Table 4, w/o MI).
        classifier_input: `embeddings`, or `detached_embeddings`: the encoder learns by the contrastive loss
            alone and the classifier is a linear probe on it (Table 4, w/o CLS).

    The remaining arguments are those of `ClassifierModule`.
    """

    losses = (SharpReCLLoss,)
    reads_loss_when = "mu>0"

    def __init__(
        self,
        *args,
        mu: Annotated[float, ">= 0"] = 1.0,
        K: Annotated[int, ">= 1", "with mu>0"] = 20,
        n_pos: Annotated[int, ">= 0", "with mu>0"] = 10,
        n_neg: Annotated[int, ">= 0", "with mu>0"] = 500,
        mixing_beta: Annotated[float, "> 0", "with mu>0"] = 0.5,
        projection_size: Annotated[int, ">= 1", "with mu>0"] = 100,
        projection_norm: Annotated[Literal["none", "batch_norm"], "with mu>0"] = "none",
        adjustment_strength: Annotated[float, ">= 0"] = 1.0,
        unit_norm_logits: bool = False,
        schedule_by: Annotated[Literal["step", "epoch"], "with mu>0"] = "step",
        train_mode: Literal["normal", "until_first_evaluation"] = "normal",
        samples: Annotated[Literal["simple_and_hard", "simple", "hard"], "with mu>0"] = "simple_and_hard",
        prototypes_from: Annotated[Literal["classifier", "own_weights"], "with mu>0"] = "classifier",
        classifier_input: Literal["embeddings", "detached_embeddings"] = "embeddings",
        num_views: Annotated[int, ">= 1", "<= 64"] = 2,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs | {"num_views": num_views})
        size = self.encoder.hidden_size
        self.project_features = ProjectionHead(size, projection_size, projection_norm)
        self.project_prototypes = ProjectionHead(size, projection_size, projection_norm)
        self.classification_loss = LogitCompensatedCrossEntropy(adjustment_strength, unit_norm_logits)
        self.mu, self.K, self.n_pos, self.n_neg, self.mixing_beta = mu, K, n_pos, n_neg, mixing_beta
        self.unit_norm_logits, self.schedule_by, self.train_mode = unit_norm_logits, schedule_by, train_mode
        self.samples, self.classifier_input = samples, classifier_input
        if prototypes_from == "own_weights":
            self.prototype_weights = nn.Parameter(self.classifier.weight.detach().clone())

    def logits(self, embeddings: Tensor) -> Tensor:
        if self.classifier_input == "detached_embeddings":
            embeddings = embeddings.detach()
        logits = super().logits(embeddings)
        return functional.normalize(logits, dim=-1) if self.unit_norm_logits else logits

    def prototypes(self) -> Tensor:
        """Class prototypes (C, projection_size): the projected weight rows of the classifier, eq. 5."""
        return self.project_prototypes(getattr(self, "prototype_weights", self.classifier.weight))

    def hard_ratio(self) -> float:
        """Share of mixed hard examples in the rebalanced sets: 0.5 -> 1 over training."""
        if self.samples != "simple_and_hard":
            return float(self.samples == "hard")
        return hard_ratio_schedule(*self.progress(self.schedule_by))

    def contrastive_loss(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Eq. 11 on the global batch: `embeddings` (V*B, D) of this rank, `labels` (V*B,)."""
        features = gather(self.project_features(embeddings), self.num_views)
        classes = torch.arange(self.num_classes, device=labels.device)
        anchors = torch.cat([features, self.prototypes()])
        anchor_labels = torch.cat([gather(labels, self.num_views), classes])
        samples = draw_samples(
            anchors,
            anchor_labels,
            num_classes=self.num_classes,
            K=self.K,
            n_pos=self.n_pos,
            n_neg=self.n_neg,
            hard_ratio=self.hard_ratio(),
            beta=self.mixing_beta,
            generator=self.step_generator(),
        )
        fixed = anchors.detach()  # pairs of views and prototypes; the sets stay as they are
        self.watch_pairs(
            lambda rows, extend: self.loss(rows, anchor_labels, *map(extend, samples.sets(fixed)), self.class_counts),
            anchors,
            anchor_labels,
        )
        return self.loss.from_samples(anchors, anchor_labels, samples, self.class_counts)

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        output = self(batch)
        labels = batch["labels"].repeat(batch["num_views"])
        classification = self.classification_loss(output["logits"], labels, self.class_counts)
        if self.mu == 0:
            return {"loss": classification}
        contrastive = self.contrastive_loss(output["embeddings"], labels)
        loss = classification + self.mu * contrastive
        return {"loss": loss, "classification": classification, "contrastive": contrastive}

    def on_train_epoch_start(self) -> None:
        super().on_train_epoch_start()
        if self.train_mode == "until_first_evaluation":
            module: nn.Module = self if self.current_epoch > 0 else self.encoder
            module.eval()
