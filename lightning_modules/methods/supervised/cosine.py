"""What methods with a cosine classifier share."""

from __future__ import annotations

from typing import Annotated

from torch import Tensor
from torch.nn import functional

from lightning_modules.base import ClassifierModule
from losses import full_precision


@full_precision
def cosines(embeddings: Tensor, weight: Tensor, scale: float = 1.0) -> Tensor:
    """Those of embeddings (B, D) and class weights (C, D), times `scale`: (B, C), float32 under autocast too."""
    return scale * functional.normalize(embeddings, dim=1) @ functional.normalize(weight, dim=1).T


class CosineModule(ClassifierModule):
    """Logits are a multiple of the cosine of embedding and class weight.

    Args:
        cosine_scale: the multiple (published by BCL and GML: 30); null: a plain linear classifier.
        classifier_bias: used by the linear classifier alone.

    The remaining arguments are those of the class that stands beside this one, or of `ClassifierModule`.
    """

    def __init__(
        self,
        *args,
        cosine_scale: Annotated[float, "> 0"] | None = 30.0,
        classifier_bias: bool = False,
        **kwargs,
    ) -> None:
        if classifier_bias and cosine_scale is not None:
            raise ValueError("method.classifier_bias: found true, allowed: false with method.cosine_scale")
        super().__init__(*args, **kwargs | {"classifier_bias": classifier_bias})
        self.cosine_scale = cosine_scale
        self.unit_norm_embeddings = cosine_scale is not None

    def logits(self, embeddings: Tensor) -> Tensor:
        if self.cosine_scale is None:
            return super().logits(embeddings)
        return cosines(self.dropout(embeddings), self.classifier.weight, self.cosine_scale)

    def prediction_head(self) -> dict[str, Tensor]:
        if self.cosine_scale is None:
            return super().prediction_head()
        return {"weight": self.cosine_scale * functional.normalize(self.classifier.weight.detach(), dim=1)}
