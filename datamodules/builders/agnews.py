"""AG News: headlines with their first sentences, in four sections."""

import csv
from collections.abc import Iterator
from pathlib import Path

from datamodules.builders.base import Row, TextDataset
from datamodules.sources import SourceFile

OFFICIAL = ("mhjabreel", "CharCnn_Keras", "555590db4219b1243abb1918effd6a7425a2d75f")


class AGNews(TextDataset):
    """5,000 rows of the official training split, and all of the official test split."""

    sources = (
        SourceFile(
            "lst11111",
            "bert-text-classification",
            "d52bf84e15f59794226916f08e74702b3f70389c",
            "data/ag_news/train.csv",
            sha256="23ff4a798bef4c6f1bab4018f491757b87e124901515e4e208461e022a163401",
            bytes=1207718,
        ),
        SourceFile(
            *OFFICIAL,
            "data/ag_news_csv/test.csv",
            sha256="521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699",
            bytes=1857427,
        ),
        SourceFile(
            *OFFICIAL,
            "data/ag_news_csv/classes.txt",
            sha256="612dbfa932f07a6ed837295a7d5746ce7412e7bb4bc32ba919fdb3cda3a1b9b5",
            bytes=31,
        ),
    )
    licence = "none stated in the repositories; readme of AG News: research and non-commercial use"
    origin = "AG's corpus of news articles (Zhang et al., 2015), test split of the CharCnn_Keras repository"
    paper = {"name": "SCL-HNM", "train": 118_800, "test": 7_600, "classes": 4}
    differences = (
        "the pool is a sample of 5,000 official training rows, shipped by another repository; test is complete. "
        "A text is title and description, with a space between"
    )

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[Row]]:
        train, test, classes = (files[source.path] for source in self.sources)
        names = classes.read_text(encoding="utf-8").split()
        return {
            "train": ({"text": text, "label": names[int(number)]} for text, number in _records(train)),
            "test": (
                {"text": f"{title} {description}", "label": names[int(number) - 1]}
                for number, title, description in _records(test)
            ),
        }


def _records(path: Path) -> Iterator[list[str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        yield from csv.reader(lines)
