"""Texts to batches: all views in one padded matrix, so that the encoder runs once."""

from collections.abc import Sequence

import numpy as np
import torch
from torch.utils.data import Dataset

from datamodules.collation import Batch, targets
from datamodules.texts.tokens import Tokens


def pad_views(views: Sequence[Tokens], rows: Sequence[np.ndarray], pad_id: int, width: int = 0) -> Batch:
    """Pad V views of B texts to the longest of them.

    Args:
        views: V token stores.
        rows: V arrays ``(B,)``, the rows of the batch in each store.
        pad_id: id that fills short rows.
        width: L, where it is more than the longest has.

    Returns:
        ``input_ids`` and ``attention_mask``, both ``(V * B, L)`` int64, view-major: rows ``[v * B:(v + 1) * B]`` are
        view v.
    """
    starts = [view.offsets[r] for view, r in zip(views, rows, strict=True)]
    lengths = [view.offsets[r + 1] - start for view, r, start in zip(views, rows, starts, strict=True)]
    columns = np.arange(max(width, *(int(length.max()) for length in lengths)))
    mask = columns < np.concatenate(lengths)[:, None]
    input_ids = np.full(mask.shape, pad_id, dtype=np.int64)
    for v, (view, start) in enumerate(zip(views, starts, strict=True)):
        part = slice(v * len(start), (v + 1) * len(start))
        input_ids[part][mask[part]] = view.ids[(start[:, None] + columns)[mask[part]]]
    return {"input_ids": torch.from_numpy(input_ids), "attention_mask": torch.from_numpy(mask.astype(np.int64))}


class TokenBatches(Dataset):
    """One split as batches of tokens; indexed by an array of positions, not by one.

    Args:
        views: V token stores.
        rows: V arrays ``(N,)``: the row in each store of every position of the split.
        labels: ``(N,)`` class indices, -1 where unknown; or ``(N, C)`` of 0 and 1.
        pad_id: id that fills short rows.
    """

    def __init__(self, views: Sequence[Tokens], rows: Sequence[np.ndarray], labels: np.ndarray, pad_id: int) -> None:
        self.views, self.rows, self.labels, self.pad_id = views, rows, labels, pad_id

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of the longest view of each position, ``(N,)``."""
        return np.max([view.lengths[rows] for view, rows in zip(self.views, self.rows, strict=True)], axis=0)

    @property
    def first_lengths(self) -> np.ndarray:
        """``(N,)`` tokens of the text itself, its first view."""
        return self.views[0].lengths[self.rows[0]]

    def __getitem__(self, positions: np.ndarray) -> Batch:
        batch = pad_views(self.views, [rows[positions] for rows in self.rows], self.pad_id)
        return batch | targets(self.labels, positions, len(self.views))
