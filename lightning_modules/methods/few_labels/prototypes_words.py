"""Prototypes whose texts embeddings and words label for each other: nothing trains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from lightning_modules.base import derived_seed
from lightning_modules.heads.co_training import STEPS, co_trained, fitted_views
from lightning_modules.heads.tfidf import fitted_rows
from lightning_modules.methods.few_labels.linear_words import EmbeddingsAndWords
from lightning_modules.methods.few_labels.prototypes import LEARNED, PrototypesModule, joined


class PrototypesWordsModule(EmbeddingsAndWords, PrototypesModule):
    """The discriminant of `prototypes`, then co-EM with the words, both views in one sum: `method=prototypes_words`.

    Words are the tokens of the encoder, weighted by TF-IDF. Where all texts have a label, and where the classes are
    not of about one size, the words are left out (`heads.co_training`), which leaves `prototypes`.

    Args:
        word_steps: of co-EM, >= 1.

    The remaining arguments are those of `PrototypesModule`.
    """

    unused_groups: ClassVar[tuple[str, ...]] = EmbeddingsAndWords.unused_groups
    reads_unlabelled = True

    def __init__(self, *args: Any, word_steps: Annotated[int, ">= 1"] = STEPS, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.word_steps = word_steps

    @torch.no_grad()
    def solve(self, splits: Mapping[str, tuple[Any, Tensor]]) -> dict[str, Any]:
        """Place both weights by the train rows and those without a label.

        Args:
            splits: token ids of each row with embeddings (N, D), and labels (N,), -1 where there is none.
        """
        embeddings, labels = joined({split: (rows[1], known) for split, (rows, known) in splits.items()})
        rows = functional.normalize(embeddings, dim=1)
        discriminant = self.discriminant(rows, labels)
        word_weight = torch.zeros_like(self.words.weight)
        tokens = [ids for split in LEARNED if split in splits for ids in splits[split][0][0]]
        words, frequency = fitted_rows(tokens, len(self.inverse_frequency))
        figures = {"solver/steps": discriminant.steps, "solver/word_steps": 0}
        if bool((labels < 0).any()):
            options: dict[str, Any] = {"shrinkage": self.shrinkage, "label_rows": self.label_rows}
            options |= {"anchors": self.anchors(), "name_rows": self.name_rows}
            options["seed"] = derived_seed(self.seed, "words") % 2**31
            texts = co_trained(rows, words, labels, discriminant, **options, steps=self.word_steps)
            if texts.is_fitted is not None:
                figures["solver/word_steps"] = self.word_steps
                discriminant, word_weight = fitted_views(rows, words, labels, texts, **options)
        self.place((discriminant.weight, discriminant.bias), word_weight, torch.from_numpy(frequency))
        return figures
