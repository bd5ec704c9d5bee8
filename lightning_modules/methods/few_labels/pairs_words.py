"""SetFit's objective, then three linear classifiers in one sum: two of the trained embeddings, one of the words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from lightning_modules.base import Batch
from lightning_modules.heads.discriminant import fitted_gaussians
from lightning_modules.heads.stacking import spread
from lightning_modules.heads.tfidf import ABSENT, fitted_rows, logistic_regression
from lightning_modules.methods.few_labels.linear_words import EmbeddingsAndWords
from lightning_modules.methods.few_labels.setfit_pairs import regression_of
from losses import CosinePairLoss

SHRINKAGE = 0.5  # of the discriminant's covariance, towards a multiple of the identity


class PairsWordsModule(EmbeddingsAndWords):
    """Cosines of pairs, then a sum of linear classifiers: `method=pairs_words`.

    The encoder learns as with `setfit_pairs`. Its head there, logistic regression, leaves to rare classes less than
    their place among the embeddings says, which a linear discriminant with one covariance for all classes does not;
    and words tell what a few steps of training have not reached. The logits of the three have one spread on the train
    rows, those of the words `word_share` of it. Source of the pairs: Tunstall et al. (2022); the sum is this house's.

    Args:
        inverse_penalty: C of scikit-learn's logistic regression on the embeddings, > 0.
        word_inverse_penalty: the same of that on TF-IDF of the tokens, > 0.
        word_share: >= 0.

    The remaining arguments are those of `ClassifierModule`.

    Raises:
        ValueError: the train rows are of one class.
    """

    losses: ClassVar[tuple] = (CosinePairLoss,)
    protocols: ClassVar[tuple[str, ...]] = ("fixed", "kfold")
    encoder_training: ClassVar[tuple[str, ...]] = ("full", "top_layers")
    unused_groups: ClassVar[tuple[str, ...]] = ("augment", "head", "start_from")
    unit_norm_embeddings = False
    selected_by_epoch = False
    is_solved = False
    solved_after_training = True

    def __init__(
        self,
        *args: Any,
        inverse_penalty: Annotated[float, "> 0"] = 1.0,
        word_inverse_penalty: Annotated[float, "> 0"] = 10.0,
        word_share: Annotated[float, ">= 0"] = 0.4,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.inverse_penalty, self.word_inverse_penalty = inverse_penalty, word_inverse_penalty
        self.word_share = word_share
        self.classifier.requires_grad_(False)  # all is solved
        self.words.requires_grad_(False)

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": self.loss(self.embed(batch), batch["labels"])}

    @torch.no_grad()
    def solve(self, splits: Mapping[str, tuple[Any, Tensor]]) -> dict[str, Any]:
        """The three classifiers, of the classes that have train rows; the others are never predicted.

        Args:
            splits: token ids of each row with embeddings (N, D) by the trained encoder, and labels (N,), of "train".
        """
        (tokens, embeddings), labels = splits["train"]
        classes, targets = labels.unique(return_inverse=True)
        if len(classes) < 2:
            raise ValueError("train split: found rows of one class, allowed with method=pairs_words: two at least")
        with torch.enable_grad():
            regression = regression_of(embeddings, targets, len(classes), self.inverse_penalty)
        rows = embeddings.double()
        tfidf, frequency = fitted_rows(tokens, len(self.inverse_frequency))
        words = logistic_regression(tfidf, targets.numpy(), len(classes), self.word_inverse_penalty)
        members = [
            (regression.weight.double(), regression.bias.double()),
            _discriminant(rows, targets, len(classes)),
            (torch.from_numpy(words[0]), torch.from_numpy(words[1])),
        ]
        scores = [rows @ members[0][0].T, rows @ members[1][0].T, torch.from_numpy(tfidf @ words[0].T)]
        spreads = [spread(values + bias) for values, (_, bias) in zip(scores, members, strict=True)]
        parts = (1.0, 1.0, self.word_share)
        shares = [part / sum(parts) * spreads[0] / own for part, own in zip(parts, spreads, strict=True)]
        weight = shares[0] * members[0][0] + shares[1] * members[1][0]
        bias = sum(share * bias for share, (_, bias) in zip(shares, members, strict=True))
        on_embeddings = self._of_all(classes, weight, 0.0), self._of_all(classes, bias, ABSENT)
        self.place(on_embeddings, self._of_all(classes, shares[2] * members[2][0], 0.0), torch.from_numpy(frequency))
        return {"solver/converged": regression.converged}

    def _of_all(self, classes: Tensor, rows: Any, absent: float) -> Tensor:
        """Rows of these classes among those of all, `absent` elsewhere."""
        whole = torch.full((self.num_classes, *rows.shape[1:]), absent, dtype=rows.dtype)
        whole[classes] = rows
        return whole


def _discriminant(embeddings: Tensor, labels: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    """Weight (C, D) and bias (C,) of the discriminant of embeddings (N, D), whatever their length."""
    length = embeddings.square().sum(1).mean().sqrt()
    weights = torch.ones(len(labels)).double()
    directions, offsets, _ = fitted_gaussians(embeddings / length, weights, labels, num_classes, SHRINKAGE)
    return directions / length, offsets
