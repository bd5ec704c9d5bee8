"""Post-hoc logit adjustment: trained as plain cross-entropy, corrected for the class prior in prediction."""

from __future__ import annotations

from typing import Annotated, ClassVar

from torch import Tensor, nn

from lightning_modules.methods.supervised.ce import CrossEntropyModule
from losses import CrossEntropy, log_prior


class PostHocLogitAdjustmentModule(CrossEntropyModule):
    """Predicts by the arg max of f_c - adjustment_strength * log P_c: `method=post_hoc_logit_adjustment`.

    Source: Menon et al. (ICLR 2021), post-hoc logit adjustment.

    Args:
        adjustment_strength: >= 0; 0 is plain cross-entropy, 1 aims at the balanced error.

    The remaining arguments are those of `ClassifierModule`. Logits of an evaluation step are the adjusted ones, so
    val/loss is their cross-entropy.
    """

    losses = (CrossEntropy,)  # one that knows the prior would correct it twice
    needs_every_class = True
    losses_of_words: ClassVar[tuple[type[nn.Module], ...]] = ()
    adjustment: Tensor

    def __init__(self, *args, adjustment_strength: Annotated[float, ">= 0"] = 1.0, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.register_buffer("adjustment", (adjustment_strength * log_prior(self.class_counts)).float(), False)

    def logits(self, embeddings: Tensor) -> Tensor:
        logits = super().logits(embeddings)
        return logits if self.training else logits - self.adjustment

    def prediction_head(self) -> dict[str, Tensor]:
        head = super().prediction_head()
        return head | {"bias": head["bias"] - self.adjustment if "bias" in head else -self.adjustment}
