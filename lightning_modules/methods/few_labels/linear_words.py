"""Two logistic regressions in one sum: of a frozen encoder's embeddings, and of the words that its tokenizer sees."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from lightning_modules.base import Batch, ClassifierModule
from lightning_modules.heads.linear_solver import solve_and_choose
from lightning_modules.heads.tfidf import (
    chosen_regression,
    fitted_rows,
    logistic_regression,
    token_counts,
    weighted,
    word_scores,
)


class EmbeddingsAndWords(ClassifierModule):
    """Scores that are linear in the embedding of an encoder and in TF-IDF of its tokens; here a frozen one's, solved.

    Args:
        classifier_bias: the scores have one.

    The remaining arguments are those of `ClassifierModule`.
    """

    kinds = ("text",)
    unit_norm_embeddings = True
    encoder_training: ClassVar[tuple[str, ...]] = ("frozen",)
    losses: ClassVar[tuple] = ()
    unused_groups: ClassVar[tuple[str, ...]] = (
        *("loss", "head", "augment", "optimizer", "scheduler", "callbacks", "active", "start_from", "retrieval"),
    )
    is_solved = True
    solved_from = "both"
    inverse_frequency: Tensor

    def __init__(self, *args: Any, classifier_bias: Literal[True] = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs | {"classifier_bias": classifier_bias})
        vocabulary_size = len(self.encoder.token_embeddings())
        self.words = nn.Linear(vocabulary_size, self.num_classes, bias=False)
        self.register_buffer("inverse_frequency", torch.ones(vocabulary_size))

    def logits(self, embeddings: Tensor) -> Tensor:
        with torch.autocast(embeddings.device.type, enabled=False):  # solved in full precision
            rows = embeddings.float()
            return super().logits(functional.normalize(rows, dim=1) if self.unit_norm_embeddings else rows)

    def with_others(self, logits: Tensor, batch: Batch) -> Tensor:
        tokens = batch["input_ids"], batch["attention_mask"]
        with torch.autocast(logits.device.type, enabled=False):
            return logits + word_scores(*tokens, self.inverse_frequency, self.words.weight)

    @torch.no_grad()
    def place(self, embeddings: tuple[Tensor, Tensor], words: Tensor, inverse_frequency: Tensor) -> None:
        """Set weight (C, D) and bias (C,) over embeddings, weight (C, V) over words, and the words' weights (V,)."""
        self.set_classifier(*embeddings)
        self.words.weight.copy_(words)
        self.inverse_frequency.copy_(inverse_frequency)

    def prediction_head(self) -> dict[str, Tensor]:
        words = {"words": self.words.weight, "inverse_frequency": self.inverse_frequency}
        return super().prediction_head() | words

    @torch.no_grad()
    def calibrate(self, scale: float, offset: Tensor) -> None:
        super().calibrate(scale, offset)
        self.words.weight.mul_(scale)


class LinearWordsModule(EmbeddingsAndWords):
    """Log-probabilities of two logistic regressions, added: `method=linear_words`.

    Each strength is the one with the lowest loss on the validation rows. A product of experts of equal weight (Hinton,
    ICANN 1999), each fitted by itself.

    Raises:
        ValueError: the train rows are of one class.
    """

    @torch.no_grad()
    def solve(self, splits: Mapping[str, tuple[Any, Tensor]]) -> dict[str, Any]:
        """Both regressions from the rows of "train"; those of "val" choose their strengths.

        Args:
            splits: token ids of each row with embeddings (N, D), and labels (N,), of "train" and "val".
        """
        ((train, embeddings), labels), ((val, val_embeddings), val_labels) = splits["train"], splits["val"]
        if len(labels.unique()) < 2:
            raise ValueError("train split: found rows of one class, allowed with method=linear_words: two at least")
        rows, val_rows = functional.normalize(embeddings, dim=1), functional.normalize(val_embeddings, dim=1)
        with torch.enable_grad():
            chosen = solve_and_choose(
                self.evaluation_loss, (rows, labels), (val_rows, val_labels), self.num_classes
            ).best
        inputs, frequency = fitted_rows(train, len(self.inverse_frequency))
        val_inputs = weighted(token_counts(val, len(frequency)), frequency)
        fit = partial(logistic_regression, inputs, labels.numpy(), self.num_classes)
        words = chosen_regression(fit, self.evaluation_loss, (val_inputs, val_labels))
        self.place((chosen.weight, chosen.bias + words.bias), words.weight, torch.from_numpy(frequency))
        return {"solver/penalty": chosen.strength, "solver/C": words.inverse_penalty}
