"""Which rows of a batch are of one class, also where a text has several labels."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from losses.arguments import check_choice

Positives = Literal["any_label", "first_label"]


def check_positives(positives: Positives) -> Positives:
    """The choice, a word without shape, as it is, or ``ValueError``. Source: this house."""
    return check_choice("positives", positives, get_args(Positives))


def check_labelled_rows(rows: Tensor, labels: Tensor) -> None:
    """``ValueError`` unless ``rows`` is (B, D) and ``labels`` is (B,) or (B, C). Source: this house."""
    if rows.dim() != 2 or labels.dim() not in (1, 2) or len(labels) != len(rows):
        shapes = f"{tuple(rows.shape)} and {tuple(labels.shape)}"
        raise ValueError(f"embeddings must be (B, D) and labels (B,) or (B, C), got {shapes}")


def same_label(labels: Tensor, positives: Positives = "any_label") -> Tensor:
    """Mask (B, B) of the pairs that attract each other; its diagonal means nothing. Source: this house.

    Args:
        labels: (B,) one class each, of any value, or (B, C) of 0 and 1.
        positives: of several labels, whether two rows must share any of them, or the first in the order of the C
            columns. SCL-HNM (LREC 2026) leaves it open; its code compares the first one listed. A row without labels
            attracts none.
    """
    if labels.dim() == 1:
        return labels[:, None] == labels
    has_label = labels > 0
    if positives == "any_label":
        wide = has_label.to(torch.float32)
        return wide @ wide.T > 0
    first, some = has_label.to(torch.uint8).argmax(1), has_label.any(1)
    return (first[:, None] == first) & some[:, None] & some
