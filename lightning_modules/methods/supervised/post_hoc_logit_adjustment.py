"""Post-hoc logit adjustment: trained as plain cross-entropy, corrected for the class prior in prediction."""

from __future__ import annotations

from typing import Annotated, ClassVar

from torch import nn

from lightning_modules.methods.supervised.ce import CrossEntropyModule
from lightning_modules.methods.supervised.prior_shift import PriorShiftModule
from losses import CrossEntropy, log_prior


class PostHocLogitAdjustmentModule(PriorShiftModule, CrossEntropyModule):
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

    def __init__(self, *args, adjustment_strength: Annotated[float, ">= 0"] = 1.0, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.register_buffer("shift", -(adjustment_strength * log_prior(self.class_counts)).float(), False)
