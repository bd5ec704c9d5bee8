"""Fine-tuning with two heads, of the rows as they come and of rows drawn against the class sizes, and the words."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from lightning_modules.base import Batch
from lightning_modules.heads.stacking import comparable, lowest_present, spread, stacking_weights
from lightning_modules.heads.tfidf import chosen_regression, fitted_rows, logistic_regression, token_counts, weighted
from lightning_modules.methods.few_labels.linear_words import EmbeddingsAndWords
from lightning_modules.schedules import falling_share
from losses import BilateralLoss


class TwoHeadsWordsModule(EmbeddingsAndWords):
    """An encoder under two linear heads, then a regression on words, all in one sum: `method=two_heads_words`.

    A train batch holds `sampler.batch_size` rows as that sampler draws them, for one head, and as many drawn with
    P(c) proportional to 1 / n_c, for the other. Their logits are mixed as in BBN (Zhou et al., CVPR 2020), the share of
    the first head falling from 1 to 0 as 1 - (t / T)^2 over the steps; its residual blocks are left out, so that all
    of prediction is linear over the encoder. Afterwards a logistic regression is fitted to TF-IDF of the encoder's
    tokens, and the validation rows weigh the three (`heads.stacking`).

    Args:
        read_words: without it the validation rows weigh the two heads alone.
        num_views: 1.

    The remaining arguments are those of `ClassifierModule`.

    Raises:
        ValueError: the train rows are of one class, and words are to be read.
    """

    losses = (BilateralLoss,)
    protocols: ClassVar[tuple[str, ...]] = ("clean", "few_shot", "kfold")  # those with validation rows
    encoder_training: ClassVar[tuple[str, ...]] = ("full", "top_layers")
    unused_groups: ClassVar[tuple[str, ...]] = ("augment", "head", "start_from")
    unit_norm_embeddings = False
    is_solved = False
    solved_after_training = True
    rows_beside = "reversed"

    def __init__(self, *args: Any, read_words: bool = True, num_views: Literal[1] = 1, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs | {"num_views": num_views})
        self.read_words = read_words
        self.other_classifier = nn.Linear(self.encoder.hidden_size, self.num_classes)

    def share(self) -> float:
        """Of the first head: 1 at the start of training, 0 at its end."""
        return falling_share(*self.progress("step"))

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        embeddings, other_embeddings = self.dropout(self.embed(batch)).chunk(2)
        labels, other_labels = batch["labels"].chunk(2)
        logits, other_logits = self.classifier(embeddings).float(), self.other_classifier(other_embeddings).float()
        share = self.share()
        return {"loss": self.loss(logits, labels, other_logits, other_labels, share)}

    def logits(self, embeddings: Tensor) -> Tensor:
        """Both heads alike (B, C); after `solve` all is in the first."""
        with torch.autocast(embeddings.device.type, enabled=False):
            return super().logits(embeddings) + self.other_classifier(embeddings.float())

    @torch.no_grad()
    def solve(self, splits: Mapping[str, tuple[Any, Tensor]]) -> dict[str, Any]:
        """Fit the words to the rows of "train", and weigh heads and words by those of "val".

        Args:
            splits: token ids of each row with embeddings (N, D) by the trained encoder, and labels (N,).
        """
        ((train, _), labels), ((val, embeddings), val_labels) = splits["train"], splits["val"]
        heads = (self.classifier, self.other_classifier)
        scores, figures = [head(embeddings) for head in heads], {}
        word_weight, word_bias = torch.zeros_like(self.words.weight).double(), torch.zeros(self.num_classes).double()
        rows, frequency = fitted_rows(train, len(self.inverse_frequency))
        if self.read_words:
            if len(labels.unique()) < 2:
                raise ValueError("train split: found rows of one class, allowed with method.read_words: two at least")
            val_rows = weighted(token_counts(val, len(frequency)), frequency)
            fit = partial(logistic_regression, rows, labels.numpy(), self.num_classes)
            regression = chosen_regression(fit, self.evaluation_loss, (val_rows, val_labels))
            word_weight, word_bias, figures["solver/C"] = regression[:3]
            of_words = torch.from_numpy(val_rows @ word_weight.numpy().T)
            is_present = labels.bincount(minlength=self.num_classes) > 0
            lowest = lowest_present(of_words + word_bias, is_present).min()
            word_bias = torch.where(is_present, word_bias, lowest)  # of the others it would be most of the spread
            scores.append(of_words + word_bias)
        with torch.enable_grad():
            weights = stacking_weights(torch.stack([comparable(values) for values in scores]), val_labels)
        shares = weights / torch.stack([spread(values) for values in scores])
        weight = sum(share * head.weight.double() for share, head in zip(shares, heads, strict=False))
        bias = sum(share * head.bias.double() for share, head in zip(shares, heads, strict=False))
        if self.read_words:
            word_weight, bias = shares[-1] * word_weight, bias + shares[-1] * word_bias
        self.place((weight, bias), word_weight, torch.from_numpy(frequency))
        self.other_classifier.weight.zero_()  # both are in the first now
        self.other_classifier.bias.zero_()
        return figures | {"solver/weights": weights.tolist()}
