"""For texts of several labels: regressions on embeddings and on words, and the names of the labels, in one sum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from lightning_modules.base import derived_seed
from lightning_modules.heads.label_stack import label_stack, random_folds
from lightning_modules.heads.tfidf import fitted_rows
from lightning_modules.methods.few_labels.class_names import ClassNames
from lightning_modules.methods.few_labels.linear_words import EmbeddingsAndWords
from lightning_modules.methods.multilabel.base import MultiLabelModule, Threshold


class BinaryCrossEntropyWordsModule(EmbeddingsAndWords, MultiLabelModule):
    """A frozen encoder's logits of `bce`, those of TF-IDF, cosines with the names, in one sum: `method=bce_words`.

    Held-out folds of the train rows choose both penalties and weigh the parts (`heads.label_stack`), so the validation
    rows have no say but in a threshold that is chosen.

    Args:
        class_names: of the labels; None where they are codes and no descriptions are given.
        use_names: false withholds them.
        threshold: see `MultiLabelModule`.

    The remaining arguments are those of `EmbeddingsAndWords`.
    """

    def __init__(
        self,
        *args: Any,
        class_names: Annotated[ClassNames | None, "with use_names=True"] = None,
        use_names: bool = True,
        threshold: Threshold = 0.5,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs | {"threshold": threshold})
        self.class_names = class_names if use_names else None
        self.reads_names = self.class_names is not None

    @torch.no_grad()
    def solve(self, splits: Mapping[str, tuple[Any, Tensor]]) -> dict[str, Any]:
        """Place the sum of all parts by the rows of "train".

        Args:
            splits: token ids of each row with embeddings (N, D), and labels (N, C), of "train".

        Raises:
            ValueError: there is one train row, or copies of one text.
        """
        (tokens, embeddings), labels = splits["train"]
        rows = functional.normalize(embeddings, dim=1).numpy()
        words, frequency = fitted_rows(tokens, len(self.inverse_frequency))
        names = self.class_names(self.encoder.eval()).numpy() if self.class_names is not None else None
        folds = random_folds(tokens, np.random.default_rng(derived_seed(self.seed, "folds")))
        stack = label_stack(rows, words, labels.numpy(), names, folds)
        weight, bias = map(torch.from_numpy, stack.on_embeddings)
        of_words, free = map(torch.from_numpy, stack.on_words)
        self.place((weight, bias + free), of_words, torch.from_numpy(frequency))
        return {f"solver/{name}": value for name, value in stack.figures.items()}
