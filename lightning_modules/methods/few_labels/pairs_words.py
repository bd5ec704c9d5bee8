"""SetFit's objective, then three linear classifiers in one sum: two of the trained embeddings, one of the words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from lightning_modules.base import Batch, derived_seed
from lightning_modules.heads.discriminant import fitted_gaussians
from lightning_modules.heads.stacking import spread
from lightning_modules.heads.tfidf import fitted_rows, logistic_regression
from lightning_modules.methods.few_labels.class_names import ClassNames
from lightning_modules.methods.few_labels.linear_words import EmbeddingsAndWords
from lightning_modules.methods.few_labels.setfit_pairs import SetFitPairsModule, regression_of
from losses.distributed import gather

SHRINKAGE = 0.5  # of the discriminant's covariance, towards a multiple of the identity
NO_WORDS = 1e-6  # spread of the words' logits, against the others', below which all texts have the same
ALONE = 10.0  # how far above the others the logit of a class lies that has all train rows


class PairsWordsModule(EmbeddingsAndWords, SetFitPairsModule):
    """Cosines of pairs, then a sum of linear classifiers: `method=pairs_words`.

    The encoder learns as with `setfit_pairs`. Its head there, logistic regression, leaves to rare classes less than
    their place among the embeddings says, which a linear discriminant with one covariance for all classes does not;
    and words tell what a few steps of training have not reached. The logits of the three have one spread on the train
    rows, those of the words `word_share` of it. Source of the pairs: Tunstall et al. (2022); the sum is this house's.

    Four sentences with the name of a class are further rows of it: so many of them stand in a batch that each is seen
    about once an epoch, and the three classifiers are fitted to them too.

    Args:
        class_names: the names; None where the labels are codes and no descriptions are given.
        use_names: false withholds them.
        word_inverse_penalty: C of scikit-learn's logistic regression on TF-IDF of the tokens, > 0.
        word_share: >= 0.

    The remaining arguments are those of `SetFitPairsModule`.
    """

    losses = SetFitPairsModule.losses
    encoder_training = SetFitPairsModule.encoder_training
    unused_groups: ClassVar[tuple[str, ...]] = ("augment", "head", "retrieval")
    unit_norm_embeddings = False
    is_solved = False

    def __init__(
        self,
        *args: Any,
        word_inverse_penalty: Annotated[float, "> 0"] = 10.0,
        word_share: Annotated[float, ">= 0"] = 0.4,
        class_names: Annotated[ClassNames | None, "with use_names=True"] = None,
        use_names: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.class_names = class_names if use_names else None
        self.reads_names = self.class_names is not None
        self.word_inverse_penalty, self.word_share = word_inverse_penalty, word_share
        self.words.requires_grad_(False)  # they are solved

    def further_texts(self) -> list[dict[str, Tensor]]:
        if self.class_names is None:
            return []
        input_ids, attention_mask = self.class_names.some(self.class_names.sentences)[0]
        return [{"input_ids": input_ids, "attention_mask": attention_mask}]

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        if self.class_names is None:
            return super().training_losses(batch)
        labels = batch["labels"]
        inputs, classes = self.class_names.some(self._sentences_beside(len(gather(labels))))
        embeddings = self.embed(batch)
        if len(classes):
            embeddings = torch.cat([embeddings, self.encode(self.encoder, *inputs)])
        return {"loss": self.loss(embeddings, torch.cat([labels, classes]))}

    def _sentences_beside(self, rows: int) -> Tensor:
        """Places of the sentences that this process reads beside its part of a batch of so many rows, in a mixed order
        and again from the first one after the last."""
        assert self.class_names is not None
        generator = torch.Generator().manual_seed(derived_seed(self.seed, "sentences"))
        sentences = self.class_names.sentences
        mixed = sentences[torch.randperm(len(sentences), generator=generator).to(sentences.device)]
        share = len(sentences) / max(int(self.class_counts.sum()), 1)
        number = min(math.ceil(share * rows), rows)  # of many classes each sentence comes less than once an epoch
        batches = self.global_step * self.trainer.accumulate_grad_batches + self.micro_batch
        places = (torch.arange(number) + batches * number)[self.global_rank :: self.trainer.world_size]
        return mixed[places.to(mixed.device) % len(mixed)]

    @torch.no_grad()
    def solve(self, splits: Mapping[str, tuple[Any, Tensor]]) -> dict[str, Any]:
        """The three classifiers, of the classes that have rows; on these rows no other scores higher than any.

        Args:
            splits: token ids of each row with embeddings (N, D) by the trained encoder, and labels (N,), of "train".
        """
        (tokens, embeddings), labels = splits["train"]
        if self.class_names is not None:
            sentences = self.class_names.rows(self.encoder.eval())
            tokens = [*tokens, *sentences[0]]
            embeddings, labels = torch.cat([embeddings, sentences[1]]), torch.cat([labels, sentences[2]])
        classes, targets = labels.unique(return_inverse=True)
        if len(classes) == 1:
            nothing = torch.zeros(1, embeddings.shape[1]), torch.zeros(1), torch.zeros(1, len(self.inverse_frequency))
            self._place(classes, *nothing, self.inverse_frequency, -ALONE)
            return {}
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
        products = [rows @ members[0][0].T, rows @ members[1][0].T, torch.from_numpy(tfidf @ words[0].T)]
        scores = [product + bias for product, (_, bias) in zip(products, members, strict=True)]
        shares = self._shares([float(spread(values)) for values in scores])
        weight = shares[0] * members[0][0] + shares[1] * members[1][0]
        bias = torch.stack([share * bias for share, (_, bias) in zip(shares, members, strict=True)]).sum(0)
        lowest = float(torch.stack([share * values for share, values in zip(shares, scores, strict=True)]).sum(0).min())
        self._place(classes, weight, bias, shares[2] * members[2][0], torch.from_numpy(frequency), lowest)
        return {"solver/converged": regression.converged}

    def _shares(self, spreads: list[float]) -> list[float]:
        """Factors of the three in the sum, whose spread is about that of the first."""
        parts = [1.0, 1.0, self.word_share if spreads[2] > NO_WORDS * spreads[0] else 0.0]
        return [part / sum(parts) * spreads[0] / own if part else 0.0 for part, own in zip(parts, spreads, strict=True)]

    def _place(
        self, classes: Tensor, weight: Tensor, bias: Tensor, words: Tensor, frequency: Tensor, lowest: float
    ) -> None:
        """Set what was solved for these classes; the others have no weight, and `lowest` for their bias."""
        whole, whole_words = (torch.zeros_like(layer.weight).double() for layer in (self.classifier, self.words))
        free = torch.full((self.num_classes,), lowest).double()
        whole[classes], free[classes], whole_words[classes] = weight.double(), bias.double(), words.double()
        self.place((whole, free), whole_words, frequency)


def _discriminant(embeddings: Tensor, labels: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    """Weight (C, D) and bias (C,) of the discriminant of embeddings (N, D), whatever their length."""
    length = embeddings.square().sum(1).mean().sqrt()
    weights = torch.ones(len(labels)).double()
    directions, offsets, _ = fitted_gaussians(embeddings / length, weights, labels, num_classes, SHRINKAGE)
    return directions / length, offsets
