"""GoEmotions: Reddit comments with one or more of 27 emotions, or neutral."""

from collections.abc import Iterator
from pathlib import Path

from datamodules.builders.base import Row, TextDataset
from datamodules.sources import SourceFile

REPOSITORY = ("monologg", "GoEmotions-pytorch", "b75f9d3a8b76bc1060687925b04ca98a1b8ea66b")


def _file(name: str, size: int, sha256: str) -> SourceFile:
    return SourceFile(*REPOSITORY, f"data/original/{name}", sha256, size)


class GoEmotions(TextDataset):
    """The filtered split of the authors: comments on whose labels at least two raters agree."""

    sources = (
        _file("labels.txt", 248, "45c3ef86782d2a4d7fedcd6d8c111aa0d0e94720689bd164fac94fefb4495a89"),
        _file("train.tsv", 3519053, "1c254a142be5c00e80d819b9ae1bbd36d94b2eeb8f4b1271846508d57e57d9c5"),
        _file("dev.tsv", 439059, "575489c079c9de1097062a01738f998590d6b7ead66dd1c9fd1d2ba01fd8bc62"),
        _file("test.tsv", 436706, "0587b2dd8b27b97352adbfc3fb083d46005c8946657fdc2b1ca8b1cc7f1f8be4"),
    )
    licence = "Apache-2.0 (this copy and google-research/goemotions; the data CC BY 4.0 by its card)"
    origin = "GoEmotions (Demszky et al., 2020), a copy of the files of google-research"
    paper = {"name": "GoEmotions", "train": 43_410, "val": 5_426, "test": 5_427, "classes": 28}
    differences = "none"

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[Row]]:
        names, *parts = (files[source.path] for source in self.sources)
        labels = names.read_text(encoding="utf-8").split()
        return {split: _rows(path, labels) for split, path in zip(("train", "val", "test"), parts, strict=True)}


def _rows(path: Path, names: list[str]) -> Iterator[Row]:
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            text, numbers, _ = line.split("\t")
            yield {"text": text, "label": [names[int(number)] for number in numbers.split(",")]}
