"""Causal norm with the total direct effect (Tang et al., NeurIPS 2020)."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor

from lightning_modules.base import Batch, ClassifierModule
from lightning_modules.heads.causal_norm import causal_norm_weight, unit_parts
from losses import CrossEntropy, full_precision, gather


class TDEModule(ClassifierModule):
    """Multi-head normalised classifier; prediction leaves out the direction of the mean embedding: `method=tde`.

    Embedding and class weights are cut into `num_heads` parts with a cosine each. In training a moving sum follows the
    batches' mean embedding; prediction takes `effect_strength` times each part's component along it away, which is a
    linear classifier again. The paper ties the direction to the momentum of SGD; under another optimizer it is what
    the embeddings have in common, no more.

    Args:
        num_heads: K, a divisor of the embedding's size (published: 2).
        scale: tau of the paper, of the mean cosine (published: 16).
        weight_offset: gamma, added to the length of a class weight (published: 1/32).
        effect_strength: alpha, of the direction taken away; 0 keeps it (published: 1 to 3, by validation).
        direction_momentum: mu of sum <- mu sum + batch mean (published: 0.9).
        classifier_bias: none, for cosines.

    The remaining arguments are those of `ClassifierModule`.

    Raises:
        ValueError: the embedding's size is no multiple of num_heads.
    """

    losses = (CrossEntropy,)
    state_of_rows = ("direction",)
    unit_norm_embeddings = True
    direction: Tensor

    def __init__(
        self,
        *args,
        num_heads: Annotated[int, ">= 1"] = 2,
        scale: Annotated[float, "> 0"] = 16.0,
        weight_offset: Annotated[float, ">= 0"] = 0.03125,
        effect_strength: Annotated[float, ">= 0"] = 1.0,
        direction_momentum: Annotated[float, ">= 0", "< 1", "with effect_strength>0"] = 0.9,
        classifier_bias: Literal[False] = False,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs | {"classifier_bias": classifier_bias})
        size = self.encoder.hidden_size
        if size % num_heads:
            raise ValueError(f"method.num_heads: found {num_heads}, allowed: a divisor of {size}")
        self.embedding_parts, self.scale, self.weight_offset = num_heads, scale, weight_offset
        self.effect_strength, self.direction_momentum = effect_strength, direction_momentum
        self.register_buffer("direction", torch.zeros(size))

    def effective_weight(self, effect_strength: float) -> Tensor:
        """(C, D): logits are its product with the embedding, each of whose parts has unit length."""
        return causal_norm_weight(
            self.classifier.weight.float(),
            self.direction,
            self.embedding_parts,
            self.scale,
            self.weight_offset,
            effect_strength,
        )

    @full_precision
    def logits(self, embeddings: Tensor) -> Tensor:
        weight = self.effective_weight(0.0 if self.training else self.effect_strength)
        return unit_parts(self.dropout(embeddings), self.embedding_parts) @ weight.T

    def prediction_head(self) -> dict[str, Tensor]:
        return {"weight": self.effective_weight(self.effect_strength).detach()}

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        output = self(batch)
        with torch.no_grad():
            mean = gather(output["embeddings"].detach().float()).mean(0)
            self.direction.mul_(self.direction_momentum).add_(mean)
        return {"loss": self.loss(output["logits"], batch["labels"].repeat(batch["num_views"]))}
