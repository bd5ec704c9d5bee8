"""Handwritten digits that scikit-learn brings along: 1,797 images of 8 x 8 pixels, in ten classes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from datamodules.builders.base import Name, Row
from datamodules.builders.images import ImageDataset

LEVELS = 16  # of grey, besides white


class Digits(ImageDataset):
    """A stratified fifth, drawn by `split_seed`, is test, for the source has no split.

    Args:
        name: name in run ids and folders.
        split_seed: seed of the test split.

    The remaining arguments are those of `ImageDataset`.
    """

    licence = "BSD-3-Clause (scikit-learn); the data CC BY 4.0 (UCI Machine Learning Repository)"
    origin = "sklearn.datasets.load_digits: the test part of UCI's Optical Recognition of Handwritten Digits"
    differences = "no long-tail paper uses it; grey levels 0 to 16 become 0 to 255 in three equal channels"
    test_fraction = 0.2
    size = 8

    def __init__(self, name: Name = "digits", split_seed: Annotated[int, ">= 0"] = 0, **options: Any) -> None:
        super().__init__(name, **options)
        self.split_seed = split_seed

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[Row]]:
        from sklearn.datasets import load_digits

        digits = load_digits()
        grey = np.rint(digits.images * (255 / LEVELS)).astype(np.uint8)
        rows = zip(grey, digits.target, strict=True)
        return {"train": ({"image": 3 * image.tobytes(), "label": str(label)} for image, label in rows)}
