"""SPCL: supervised prototypical contrast with pools of past embeddings, easy texts first, nearest-centre prediction."""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated, Literal

import torch
from torch import Tensor
from torch.nn import functional

from lightning_modules.base import Batch, ClassifierModule, derived_seed
from losses import SupervisedPrototypicalContrastiveLoss, full_precision, gather


class SPCLModule(ClassifierModule):
    """Texts against texts and prototypes; a text is of the class whose centre is nearest: `method=spcl`.

    A class keeps its last embeddings in a pool; at each step its prototype is the mean of some drawn from it. After
    each epoch the embeddings of the epoch's steps give the centres of each class, which predict, and the difficulty of
    each text: its distance to the nearest centre of its class over the mean distance to the others' nearest.
    Source: Song et al. (EMNLP 2022) and its published code, which encodes the training split once more for the
    centres, starts pools with a centre, and reads a text at the mask of a prompt; here pools start empty, the first
    epoch admits every text, and the shared encoder's pooling is used.

    Args:
        pool_size: embeddings kept a class (published: 256 to 512).
        num_drawn: of them that make a prototype (published: 64); of fewer in the pool, all.
        centres_per_class: centres by k-means within the class; 1 is the mean.
        curriculum: `easy_first` lets the easiest share of texts be anchors, more in each epoch, and all in the last;
            `none` all texts throughout. Texts that are no anchors remain positives and negatives of the others.
        curriculum_start: the share of anchors grows from here to 1 with the epochs.

    The remaining arguments are those of `ClassifierModule`; there is no linear classifier.

    Raises:
        ValueError: a frozen encoder, which would leave nothing to train.
    """

    losses = (SupervisedPrototypicalContrastiveLoss,)
    state_of_rows = (
        *("pool", "pool_filled", "pool_position", "bank", "bank_labels"),
        *("centres", "is_centre", "difficulty"),
    )
    pool: Tensor
    pool_filled: Tensor
    pool_position: Tensor
    bank: Tensor
    bank_labels: Tensor
    centres: Tensor
    is_centre: Tensor
    difficulty: Tensor
    encoder_training = ("full", "top_layers")
    reads_when = MappingProxyType({"dropout": None, "head_lr": None})
    unit_norm_embeddings = True

    def __init__(
        self,
        *args,
        pool_size: Annotated[int, ">= 1"] = 256,
        num_drawn: Annotated[int, ">= 1"] = 64,
        centres_per_class: Annotated[int, ">= 1"] = 1,
        curriculum: Literal["easy_first", "none"] = "easy_first",
        curriculum_start: Annotated[float, "> 0", "<= 1", "with curriculum=easy_first"] = 0.5,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs)
        del self.classifier
        self.num_drawn, self.curriculum, self.curriculum_start = num_drawn, curriculum, curriculum_start
        size, rows = self.encoder.hidden_size, int(self.class_counts.sum())
        self.register_buffer("pool", torch.zeros(self.num_classes, pool_size, size))
        self.register_buffer("pool_filled", torch.zeros(self.num_classes, dtype=torch.long))
        self.register_buffer("pool_position", torch.zeros(self.num_classes, dtype=torch.long))
        self.register_buffer("bank", torch.zeros(rows, size))
        self.register_buffer("bank_labels", torch.full((rows,), -1))
        self.register_buffer("centres", torch.zeros(self.num_classes, centres_per_class, size))
        self.register_buffer("is_centre", torch.zeros(self.num_classes, centres_per_class, dtype=torch.bool))
        self.register_buffer("difficulty", torch.zeros(rows))

    def embed(self, batch: Batch) -> Tensor:
        return functional.normalize(super().embed(batch), dim=1)

    @full_precision
    def logits(self, embeddings: Tensor) -> Tensor:
        """Score of the nearest centre of each class, (1 + cos) / 2 / tau."""
        scores = torch.einsum("bd,cmd->bcm", embeddings, self.centres)
        scores = scores.masked_fill(~self.is_centre, -1.0)  # the least cosine: never nearest
        return (1 + scores.amax(2)) / 2 / self.loss.tau

    def prediction_head(self) -> dict[str, Tensor]:
        if self.centres.shape[1] > 1:
            number = self.centres.shape[1]
            raise ValueError(f"method.centres_per_class: found {number}; allowed with task=export: 1, a linear head")
        scale = 2 * self.loss.tau
        bias = self.is_centre[:, 0] / scale  # without a centre, whose weight is 0, the least score: that of cosine -1
        return {"weight": self.centres[:, 0] / scale, "bias": bias.to(self.centres)}

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        embeddings, labels, indices = self.embed(batch), batch["labels"], batch["indices"]
        views = batch["num_views"]
        z, all_labels, all_indices = (
            gather(x, views) for x in (embeddings, labels.repeat(views), indices.repeat(views))
        )
        prototypes, classes = self.sampled_prototypes()
        admitted = self.admitted(all_indices)
        loss = self.loss(z, all_labels, prototypes, classes, admitted)
        self.watch_pairs(
            lambda rows, extend: self.loss(rows, all_labels, extend(prototypes), classes, admitted), z, all_labels
        )
        self.keep(z.detach(), all_labels)
        texts = gather(indices)
        self.bank[texts] = gather(embeddings[: len(labels)].detach()).to(self.bank)
        self.bank_labels[texts] = gather(labels)
        return {"loss": loss}

    def sampled_prototypes(self) -> tuple[Tensor, Tensor]:
        """Prototypes (M, D) of the classes with something in their pool, and those classes (M,)."""
        places = torch.arange(self.pool.shape[1], device=self.device)
        order = torch.rand(self.pool.shape[:2], device=self.device, generator=self.step_generator())
        order = order.masked_fill(places >= self.pool_filled[:, None], 2.0)  # behind all that are filled
        sampled = order.argsort(1)[:, : self.num_drawn]
        is_filled = (sampled < self.pool_filled[:, None]).to(self.pool)
        rows = self.pool[torch.arange(self.num_classes, device=self.device)[:, None], sampled]
        classes = self.pool_filled.nonzero().squeeze(1)
        sums = (rows * is_filled[:, :, None]).sum(1)[classes]
        return functional.normalize(sums, dim=1), classes  # the direction of the mean

    def keep(self, embeddings: Tensor, labels: Tensor) -> None:
        """Take the global batch (B, D) into the pools over their oldest; of more than a pool holds, the last."""
        size = self.pool.shape[1]
        counts = labels.bincount(minlength=self.num_classes)
        order = labels.argsort(stable=True)
        labels = labels[order]
        rank = torch.arange(len(labels), device=self.device) - (counts.cumsum(0) - counts)[labels]
        newest = rank >= counts[labels] - size
        places = (self.pool_position[labels] + rank) % size
        self.pool[labels[newest], places[newest]] = embeddings[order][newest].to(self.pool)
        self.pool_position = (self.pool_position + counts) % size
        self.pool_filled = (self.pool_filled + counts).clamp_max(size)

    def admitted(self, indices: Tensor) -> Tensor | None:
        """Which texts (B,) the curriculum lets be anchors; None is all."""
        if self.curriculum == "none" or self.current_epoch == 0:
            return None
        last = max(self.max_epochs - 1, 1)
        share = self.curriculum_start + (1 - self.curriculum_start) * self.current_epoch / last
        return self.difficulty[indices] <= self.difficulty.quantile(min(share, 1.0))

    def on_validation_epoch_start(self) -> None:
        """The epoch's embeddings give the centres that predict, and how hard each text is."""
        if self.trainer.state.fn != "fit":  # a finished run keeps the centres of its selected epoch
            return
        for label in range(self.num_classes):
            rows = self.bank[self.bank_labels == label]
            centres = self._centres_of(rows, label)
            self.centres[label, : len(centres)] = centres
            self.is_centre[label] = torch.arange(self.centres.shape[1], device=self.device) < len(centres)
        self.difficulty = self._difficulty()

    def _centres_of(self, rows: Tensor, label: int) -> Tensor:
        number = min(self.centres.shape[1], len(rows))
        if number < 2:
            return functional.normalize(rows.mean(0, keepdim=True), dim=1)[:number]
        from sklearn.cluster import KMeans

        seed = derived_seed(self.seed, "centres", label, self.current_epoch)
        centres = KMeans(number, n_init=1, random_state=seed).fit(rows.double().cpu().numpy()).cluster_centers_
        return functional.normalize(torch.as_tensor(centres, device=rows.device).to(rows), dim=1)

    def _difficulty(self) -> Tensor:
        cosines = torch.einsum("nd,cmd->ncm", self.bank, self.centres).masked_fill(~self.is_centre, -1.0).amax(2)
        distances = (2 - 2 * cosines).clamp_min(0).sqrt()
        own_distances = distances.gather(1, self.bank_labels.clamp_min(0)[:, None]).squeeze(1)
        others = (distances.sum(1) - own_distances) / max(self.num_classes - 1, 1)
        return own_distances / others.clamp_min(1e-8)
