"""For texts of several labels, most without theirs: an encoder learns what labels, words and names say together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from lightning_modules.base import Batch, ClassifierModule, derived_seed
from lightning_modules.encoders.transformer import TextEncoder
from lightning_modules.heads.label_stack import LabelStack, label_stack, random_folds
from lightning_modules.heads.tfidf import fitted_rows, token_counts, weighted
from lightning_modules.methods.few_labels.class_names import ClassNames
from lightning_modules.methods.multilabel.base import MultiLabelModule
from losses import SoftLabelLoss


class KontrastLabelsModule(MultiLabelModule):
    """`method=kontrast` for texts of several labels: `method=kontrast_labels`.

    1. The sum of `method=bce_words`, regressions on the embeddings of the encoder as it comes and on words, and the
       names of the labels, is fitted to the labelled rows, its parts weighed by folds of them. It gives every text
       that has no label a probability of each.
    2. Encoder and head learn from true labels and from these probabilities (`losses.SoftLabelLoss`).

    Prediction is the encoder and the head alone. Where no text lacks its labels, 1. is left out.

    Args:
        class_names: of the labels; None where they are codes and no descriptions are given.
        use_names: false withholds them.
        num_views: 1, the text itself.

    The remaining arguments are those of `MultiLabelModule`.

    Raises:
        ValueError: an encoder that is not pretrained.
    """

    kinds = ("text",)
    losses: ClassVar[tuple] = (SoftLabelLoss,)
    protocols: ClassVar[tuple[str, ...]] = ("fixed", *ClassifierModule.protocols)
    encoder_training: ClassVar[tuple[str, ...]] = ("full", "top_layers")
    unused_groups: ClassVar[tuple[str, ...]] = ("augment", "head")
    reads_unlabelled = True
    trains_unlabelled = True
    targets: Tensor
    is_true: Tensor

    def __init__(
        self,
        *args: Any,
        class_names: Annotated[ClassNames | None, "with use_names=True"] = None,
        use_names: bool = True,
        num_views: Literal[1] = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs | {"num_views": num_views})
        if not isinstance(self.encoder, TextEncoder):
            raise ValueError("encoder: found one of words, allowed with method=kontrast_labels: transformers")
        self.class_names = class_names if use_names else None

    def information(self, has_unlabelled: bool) -> str:
        """The names label texts: where there are none to label, they are not read."""
        if not has_unlabelled:
            return ""
        return "NU" if self.class_names is not None else "U"

    @torch.no_grad()
    def begin(self, splits: Mapping[str, tuple[tuple[Any, Tensor], Tensor]]) -> dict[str, Any]:
        """Give the texts without labels a probability of each.

        Args:
            splits: token ids of each row with embeddings (N, D) by the encoder as it comes, and labels (N, C), of
                "train" and "unlabelled".

        Raises:
            ValueError: there is one train row, beside texts without labels.
        """
        train, labels = splits["train"]
        targets, figures = labels.float(), {}
        if "unlabelled" in splits:
            stack, guesses = self._guesses(train, labels, splits["unlabelled"][0])
            targets = torch.cat([targets, guesses])
            figures = {f"solver/{name}": value for name, value in stack.figures.items()}
        self.register_buffer("targets", targets, persistent=False)
        self.register_buffer("is_true", torch.arange(len(targets)) < len(labels), persistent=False)
        return figures

    def _guesses(
        self, train: tuple[Any, Tensor], labels: Tensor, unlabelled: tuple[Any, Tensor]
    ) -> tuple[LabelStack, Tensor]:
        """The sum fitted to labels (N, C), and the probabilities (M, C) that it gives the texts without one."""
        (tokens, embeddings), (other_tokens, others) = train, unlabelled
        rows, other_rows = (functional.normalize(part, dim=1).numpy() for part in (embeddings, others))
        words, frequency = fitted_rows(tokens, len(self.encoder.token_embeddings()))
        names = self.class_names(self.encoder.eval()).numpy() if self.class_names is not None else None
        folds = random_folds(len(rows), np.random.default_rng(derived_seed(self.seed, "folds")))
        stack = label_stack(rows, words, labels.numpy(), names, folds)
        other_words = weighted(token_counts(other_tokens, len(frequency)), frequency)
        logits = stack.on_embeddings(other_rows) + stack.on_words(other_words)
        return stack, torch.from_numpy(logits).sigmoid().float()

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        rows = batch["indices"]
        return {"loss": self.loss(self(batch)["logits"], self.targets[rows], self.is_true[rows])}
