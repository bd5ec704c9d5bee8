"""MPQA 2.0, type, polarity and intensity of a private state, from files that the user makes by the published recipe."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from datamodules.builders.base import Row
from datamodules.builders.user_files import Csv


class MPQAType(Csv):
    """Sentences with one or more of agreement, arguing, intention and sentiment; labels between spaces.

    Arguments as `Csv`. The corpus has terms of its own, and the recipe's list of folds is not at hand: the user brings
    its three files.
    """

    licence = "MPQA 2.0: its own terms"
    origin = "MPQA 2.0 (Wiebe et al., 2005) by the recipe of Ahmadnia et al. (2024), theSaeed/opinion-mining-using-llms"
    paper = {"name": "SCL-HNM", "train": 4248, "val": 1060, "test": 1327, "classes": 4}
    differences = "none where the files are those of the recipe; its repeated labels count once"


class MPQAOfOneLabel(Csv):
    """Polarity or intensity of a private state: one class a text.

    Where the recipe has joined what several annotators said of one text, the first label counts, as in the published
    code of SCL-HNM; intensities such as "low medium" are two words.

    Args:
        label_names: the classes; the label of a row is the longest of them that its field begins with.
        others: rows whose field begins with no class, such as "neutral" in files of polarity: `refuse`, or `drop`.
        train, options: as of `Csv`.
    """

    licence = MPQAType.licence
    origin = MPQAType.origin
    paper = {"name": "SCL-HNM", "train": 4505, "val": 1123, "test": 1404}
    differences = "none where the files are those of the recipe"

    def __init__(
        self, train: str, label_names: list[str], others: Literal["refuse", "drop"] = "refuse", **options: Any
    ) -> None:
        super().__init__(train, label_names=label_names, **options)
        self.names = self.label_names or ()
        self.others = others

    def identity(self) -> dict[str, Any]:
        return super().identity() | {"others": self.others}

    def read(self, path: Path, needed: frozenset[str]) -> Iterator[Row]:
        for row in super().read(path, needed):
            field = " ".join((row["label"] or "").split())
            row["label"] = self._first(field) or field
            if self.others == "refuse" or row["label"] in ("", *self.names):
                yield row

    def _first(self, field: str) -> str | None:
        begun = [name for name in self.names if f"{field} ".startswith(f"{name} ")]
        return max(begun, key=len, default=None)
