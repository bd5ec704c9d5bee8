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
from lightning_modules.heads.label_stack import label_stack, random_folds
from lightning_modules.heads.tfidf import fitted_rows, token_counts, weighted
from lightning_modules.methods.few_labels.class_names import ClassNames
from lightning_modules.methods.multilabel.base import MultiLabelModule, Threshold, best_cut
from losses import SoftLabelLoss


class KontrastLabelsModule(MultiLabelModule):
    """`method=kontrast` for texts of several labels: `method=kontrast_labels`.

    1. The sum of `method=bce_words`, regressions on the embeddings of the encoder as it comes and on words, and the
       names of the labels, is fitted to the labelled rows, its parts weighed by folds of them. It gives every text
       that has no label a probability of each.
    2. Encoder and head learn from true labels and from these probabilities (`losses.SoftLabelLoss`).

    Prediction is the encoder and the head alone.

    Args:
        class_names: of the labels; None where they are codes and no descriptions are given.
        use_names: false withholds them.
        threshold: see `MultiLabelModule`; or `folds`: that of best micro-F1 of what 1. says of labelled rows whose fold
            was held out, so that no row is set aside for it.
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
        threshold: Threshold | Literal["folds"] = "folds",
        num_views: Literal[1] = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs | {"threshold": threshold, "num_views": num_views})
        if not isinstance(self.encoder, TextEncoder):
            raise ValueError("encoder: found one of words, allowed with method=kontrast_labels: transformers")
        self.class_names = class_names if use_names else None
        self.chooses_by_folds = threshold == "folds"

    def information(self, has_unlabelled: bool) -> str:
        """The names have a say in what texts without labels are told, and in the threshold that folds choose."""
        reads_names = self.class_names is not None and (has_unlabelled or self.chooses_by_folds)
        return ("N" if reads_names else "") + ("U" if has_unlabelled else "")

    @torch.no_grad()
    def begin(self, splits: Mapping[str, tuple[tuple[Any, Tensor], Tensor]]) -> dict[str, Any]:
        """Give the texts without labels a probability of each.

        Args:
            splits: token ids of each row with embeddings (N, D) by the encoder as it comes, and labels (N, C), of
                "train" and "unlabelled".

        Raises:
            ValueError: there is one train row, or copies of one text.
        """
        (tokens, embeddings), labels = splits["train"]
        rows = functional.normalize(embeddings, dim=1).numpy()
        words, frequency = fitted_rows(tokens, len(self.encoder.token_embeddings()))
        names = self.class_names(self.encoder.eval()).numpy() if self.class_names is not None else None
        folds = random_folds(tokens, np.random.default_rng(derived_seed(self.seed, "folds")))
        stack = label_stack(rows, words, labels.numpy(), names, folds)
        targets = labels.float()
        if "unlabelled" in splits:
            (tokens, embeddings), _ = splits["unlabelled"]
            rows, words = functional.normalize(embeddings, dim=1).numpy(), token_counts(tokens, len(frequency))
            logits = stack.on_embeddings(rows) + stack.on_words(weighted(words, frequency))
            targets = torch.cat([targets, torch.from_numpy(logits).sigmoid().float()])
        self.register_buffer("targets", targets, persistent=False)
        self.register_buffer("is_true", torch.arange(len(targets)) < len(labels), persistent=False)
        if self.chooses_by_folds:
            self._predict_above(float(best_cut(torch.from_numpy(stack.held_out).sigmoid().ravel(), labels.ravel() > 0)))
        return {f"solver/{name}": value for name, value in stack.figures.items()}

    def _predict_above(self, threshold: float) -> None:
        """From now on the threshold is this number."""
        self.threshold = threshold
        for metric in self.metrics.values():
            metric.threshold = threshold

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """With the threshold that folds chose, which evaluation cannot choose again."""
        super().on_save_checkpoint(checkpoint)
        if self.chooses_by_folds and isinstance(self.threshold, float):
            checkpoint["threshold"] = self.threshold

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_load_checkpoint(checkpoint)
        if "threshold" in checkpoint:
            self._predict_above(checkpoint["threshold"])

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        rows = batch["indices"]
        return {"loss": self.loss(self(batch)["logits"], self.targets[rows], self.is_true[rows])}
