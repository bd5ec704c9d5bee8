"""Multilingual Amazon Reviews (Keung et al., 2020), stars of a review, from files that the user brings."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from datamodules.builders.base import Row
from datamodules.builders.user_files import Csv
from datamodules.class_descriptions import known_descriptions
from datamodules.splits import rank_in_class
from storage.errors import InputError

STARS = frozenset("12345")


class AmazonReviews(Csv):
    """Reviews in one language with 1 to 5 stars; a text is "title | body", as in the published code of SCL-HNM.

    The corpus is no longer distributed by its publisher: the user brings train.csv, validation.csv and test.csv.

    Args:
        train: train.csv; `test`, `val` in the options: test.csv, validation.csv.
        language: what stands in the column `language` of the rows to keep.
        max_characters: where a text is cut.
        val_rows: so many of the validation rows, drawn class by class; null: all.
        options: as of `Csv`.
    """

    licence = "Multilingual Amazon Reviews Corpus: its own terms, for research"
    origin = "The Multilingual Amazon Reviews Corpus (Keung et al., EMNLP 2020)"
    paper = {"name": "SCL-HNM", "train": 200_000, "val": 1200, "test": 5000, "classes": 5}
    differences = "none where the files are whole; which 1,200 validation rows the paper drew cannot be told"

    def __init__(
        self,
        train: str,
        language: str = "en",
        max_characters: Annotated[int, ">= 1"] = 900,
        val_rows: Annotated[int, ">= 5"] | None = 1200,
        **options: Any,
    ) -> None:
        super().__init__(train, **options)
        self.columns |= {"title": "review_title", "language": "language"}
        self.language, self.max_characters, self.val_rows = language, max_characters, val_rows

    def describe_classes(self, label_names: Sequence[str]) -> tuple[str, ...] | None:
        """As `Csv.describe_classes`; stars are spelt out."""
        if self.class_descriptions is None and set(label_names) <= STARS:
            return known_descriptions("amazon_reviews", label_names)
        return super().describe_classes(label_names)

    def identity(self) -> dict[str, Any]:
        options = {"language": self.language, "max_characters": self.max_characters, "val_rows": self.val_rows}
        return super().identity() | options

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[Row]]:
        splits = super().rows(files)
        if "val" in splits and self.val_rows is not None:
            splits["val"] = self._stratified_sample(splits["val"], self.val_rows)
        return splits

    def read(self, path: Path, needed: frozenset[str]) -> Iterator[Row]:
        languages = set()
        for row in super().read(path, needed):
            languages.add(language := row.pop("language"))
            title = row.pop("title")
            if language == self.language:
                yield row | {"text": f"{title} | {row['text']}"[: self.max_characters]}
        if languages and self.language not in languages:
            shown = ", ".join(sorted(languages))
            raise InputError(f"{path}: no row in {self.language!r} (dataset.language), there are: {shown}")

    def _stratified_sample(self, rows: Iterator[Row], number: int) -> Iterator[Row]:
        collected = list(rows)
        names, labels = np.unique([str(row["label"]) for row in collected], return_inverse=True)
        rank = rank_in_class(labels, np.random.default_rng(self.split_seed))
        quotas = np.floor(number * np.bincount(labels) / len(collected) + 0.5) if collected else np.empty(0)
        return (row for row, place, label in zip(collected, rank, labels, strict=True) if place < quotas[label])
