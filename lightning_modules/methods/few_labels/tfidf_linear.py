"""scikit-learn's logistic regression on TF-IDF of words, no encoder: the rung below every other method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfTransformer
from torch import Tensor
from torch.nn import functional

from lightning_modules.base import Batch, ClassifierModule
from lightning_modules.encoders.bag_of_words import NUM_SPECIAL, WordCounts
from lightning_modules.heads.tfidf import chosen_regression, logistic_regression, token_counts


class TfidfLinearModule(ClassifierModule):
    """TF-IDF of the words of the train rows, then logistic regression: `method=tfidf_linear`.

    Its strength is the one with the lowest loss on the validation rows. A class without a train row is never predicted.

    Args:
        sublinear: 1 + log of a word's count, in place of the count.
        classifier_bias: logistic regression has one.

    The remaining arguments are those of `ClassifierModule`. The `embeddings` of an evaluation are the logits: vectors
    as long as the vocabulary would fill the memory.

    Raises:
        ValueError: an encoder that does not count words.
    """

    kinds = ("text",)
    losses: ClassVar[tuple] = ()
    unused_groups: ClassVar[tuple[str, ...]] = (
        *("loss", "head", "augment", "optimizer", "scheduler", "callbacks", "active", "start_from", "retrieval"),
    )
    is_solved = True
    solved_from = "tokens"
    inverse_frequency: Tensor
    sublinear: bool

    def __init__(
        self, *args: Any, sublinear: bool = True, classifier_bias: Literal[True] = True, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs | {"classifier_bias": classifier_bias})
        if not isinstance(self.encoder, WordCounts):
            raise ValueError("encoder: found a network, allowed with method=tfidf_linear: bag_of_words")
        self.sublinear = sublinear
        self.register_buffer("inverse_frequency", torch.ones(self.encoder.hidden_size))

    def logits(self, embeddings: Tensor) -> Tensor:
        """Scores (B, C) of word counts (B, V)."""
        weights = embeddings.log().add(1).where(embeddings > 0, 0.0) if self.sublinear else embeddings
        with torch.autocast(embeddings.device.type, enabled=False):  # solved in full precision
            return self.classifier(functional.normalize(weights * self.inverse_frequency, dim=1))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        logits = self.logits(self.embed(batch))
        return {"embeddings": logits, "logits": logits}

    @torch.no_grad()
    def solve(self, splits: Mapping[str, tuple[Any, Tensor]]) -> dict[str, Any]:
        """Inverse frequencies and weights from the rows of "train"; those of "val" choose the strength.

        Args:
            splits: token ids of each row, and labels (N,), of "train" and "val".

        Raises:
            ValueError: the train rows are of one class, or no loss on the validation rows is finite.
        """
        (train, labels), (val, val_labels) = splits["train"], splits["val"]
        self._check(labels)
        tfidf = TfidfTransformer(sublinear_tf=self.sublinear)
        inputs = tfidf.fit_transform(self._counts(train))
        self.inverse_frequency.copy_(torch.from_numpy(tfidf.idf_))
        val_inputs = tfidf.transform(self._counts(val))
        fit = partial(self._fitted, inputs, labels.numpy())
        words = chosen_regression(fit, self.evaluation_loss, (val_inputs, val_labels))
        self.set_classifier(words.weight, words.bias)
        losses = {f"{inverse_penalty:g}": value for inverse_penalty, value in words.validation_losses.items()}
        return {"solver/C": words.inverse_penalty, "solver/validation_losses": losses}

    def _check(self, labels: Tensor) -> None:
        if len(labels.unique()) < 2:
            raise ValueError("train split: found rows of one class, allowed with method=tfidf_linear: two at least")

    def _counts(self, rows: Sequence[np.ndarray]) -> csr_matrix:
        """Counts (N, V) of words, and of no special token, in rows of token ids."""
        counts = token_counts(rows, self.encoder.hidden_size)
        counts.data[counts.indices < NUM_SPECIAL] = 0
        counts.eliminate_zeros()
        return counts

    def _fitted(self, inputs: csr_matrix, labels: np.ndarray, inverse_penalty: float) -> tuple[np.ndarray, np.ndarray]:
        """Weights (C, V) and biases (C,)."""
        return logistic_regression(inputs, labels, self.num_classes, inverse_penalty)
