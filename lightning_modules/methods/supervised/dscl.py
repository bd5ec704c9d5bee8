"""Decoupled contrastive learning with, on images, distillation of patches (Xuan and Zhang, AAAI 2024)."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from lightning_modules.base import Batch, derived_seed
from lightning_modules.encoders.regions import random_boxes, samples_in
from lightning_modules.methods.supervised.momentum import gathered, view_of
from lightning_modules.methods.supervised.queue_contrast import QueueContrastModule
from losses import DecoupledContrastiveLoss, PatchDistillationLoss

PATCHES, PATCH_WEIGHT = 5, 1.5  # published
AREA, RATIO = (0.05, 0.6), (3 / 4, 4 / 3)  # of a patch: share of the image, width to height
PATCH_SIDE = 2 / 7  # of the image's: 64 of 224 pixels


class DSCLModule(QueueContrastModule):
    """Two stages: contrast whose positives pull alike in every class, then a classifier on it: `method=dscl`.

    On images patches of the first view, scaled to 2/7 of its side or to the least that the encoder takes, shall relate
    to key and queue as the same regions of its feature map do. The published code changes colours and blur of each
    patch anew; here a patch has those of its view. Texts have no patches.

    Args:
        patches: of each image; null: 5 of images, 0 of texts.
        patch_weight: of their term; null: 1.5.

    The remaining arguments are those of `QueueContrastModule`.

    Raises:
        ValueError: patches of what is no image, or a weight of none.
    """

    losses = (DecoupledContrastiveLoss,)

    def __init__(
        self,
        *args,
        patches: Annotated[int, ">= 0", "<= 64"] | None = None,
        patch_weight: Annotated[float, ">= 0"] | None = None,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs)
        has_map = hasattr(self.encoder, "feature_map")
        if patches and not has_map:
            raise ValueError(f"method.patches: found {patches}; allowed of texts: 0, null")
        self.patches = (PATCHES if has_map else 0) if patches is None else patches
        if patch_weight is not None and not self.patches:
            raise ValueError(f"method.patch_weight: found {patch_weight}, and there are no patches; allowed: null")
        if patch_weight == 0:
            raise ValueError("method.patch_weight: found 0; allowed: > 0, or method.patches=0")
        self.patch_weight = PATCH_WEIGHT if patch_weight is None else patch_weight
        self.distil = PatchDistillationLoss(self.loss.tau)

    def contrast(self, queries: Tensor, labels: Tensor, keys: Tensor) -> Tensor:
        return self.loss(queries, labels, keys, *self.queued())

    def representation_losses(self, batch: Batch) -> dict[str, Tensor]:
        if not self.patches:
            return super().representation_losses(batch)
        self.move_key_modules()
        pixels, keys = view_of(batch, 0)["pixels"], self.keys(view_of(batch, 1))
        maps = self.encode(self.encoder.feature_map, pixels)
        distillation = self.patch_loss(pixels, maps, keys)
        contrast = self.contrast_and_enqueue(self.project(maps.mean((2, 3))), batch["labels"], keys)
        loss = contrast + self.patch_weight * distillation
        return {"loss": loss, "contrastive": contrast, "patch_distillation": distillation}

    def patch_loss(self, pixels: Tensor, maps: Tensor, keys: Tensor) -> Tensor:
        """Distillation from regions of the feature maps (B, C, h, w) to patches of the pixels (B, 3, H, W).

        Keys (B, P) are those of the second view.
        """
        pixels, maps, keys = (rows.repeat(self.patches, *[1] * (rows.ndim - 1)) for rows in (pixels, maps, keys))
        seed = derived_seed(self.seed, "patches", *self._step(), self.global_rank)
        boxes = random_boxes(len(pixels), torch.Generator().manual_seed(seed), AREA, RATIO).to(maps)
        with torch.no_grad():
            regions = self.project(samples_in(maps, boxes, 4).mean((2, 3)))
        cut = samples_in(pixels.float(), boxes, max(self.encoder.least_size, round(PATCH_SIDE * pixels.shape[-1])))
        patches = self.project(self.encode(self.encoder, cut))
        return self.distil(*gathered(patches, regions, keys), self.queued()[0])
