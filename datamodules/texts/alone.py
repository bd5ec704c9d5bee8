"""Batches in which a text's prediction does not depend, to the last bit, on the texts that it is predicted with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from datamodules.collation import Batch
from datamodules.texts.collation import pad_views
from datamodules.texts.datamodule import check_tokenizer
from datamodules.texts.tokens import tokenize

WIDTH = 8  # tokens: texts are padded to a multiple of it, and stand with texts of the same


def batches_alone(texts: list[str], tokenizer, max_length: int, batch_size: int, of_one_width: bool) -> Iterator[Batch]:
    """`input_ids` and `attention_mask` (B, L), `indices` (B,) into `texts`, `labels` -1, longest first.

    With `of_one_width` L follows from a text's own length, not from its batch: a sum over tokens is taken in the same
    order whatever else is in the batch. An encoder that leaves padding out sees to that itself, and takes any batch.
    Where products of matrices round otherwise for other numbers of rows, the last bits still differ.

    Raises:
        InputError: no room for a token in `max_length`, or the tokenizer has no padding.
    """
    check_tokenizer(tokenizer, max_length)
    tokens = tokenize(texts, tokenizer, max_length)
    widths = np.minimum(-(-tokens.lengths // WIDTH) * WIDTH, max_length)
    order = np.argsort(-widths, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(widths[order])) + 1) if of_one_width else [order]
    for rows in groups:
        for start in range(0, len(rows), batch_size):
            chosen = rows[start : start + batch_size]
            batch = pad_views([tokens], [chosen], tokenizer.pad_token_id, int(widths[chosen[0]]))
            yield batch | {
                "labels": torch.full((len(chosen),), -1),
                "indices": torch.from_numpy(chosen),
                "num_views": 1,
            }
