"""Ohsumed: titles of medical articles."""

from collections.abc import Iterator
from pathlib import Path

from datamodules.builders.base import Row, TextDataset
from datamodules.builders.json_array import json_array_rows
from datamodules.sources import SourceFile

REPOSITORY = ("KEAML-JLU", "SharpReCL", "363d557fe7fa3cd9c395dfb995d74a626b26387a")


class Ohsumed(TextDataset):
    """Titles of 1991 MEDLINE articles on 23 classes of cardiovascular and other diseases; augmented train texts."""

    sources = (
        SourceFile(
            *REPOSITORY,
            "data/ohsumed_Train_aug.json",
            sha256="75504c4683ffc852fa2d50e073258d6fb822bba2ede5143aa215c0cf1456aed7",
            bytes=790136,
        ),
        SourceFile(
            *REPOSITORY,
            "data/ohsumed_Test.json",
            sha256="0798a02646452d7c25f52d40ce1a5c9babb5f41c1608683bf0ba8a91ddfd5070",
            bytes=493716,
        ),
    )
    licence = "MIT (the repository)"
    origin = "OHSUMED (MEDLINE titles, 1991), files of the SharpReCL repository"
    paper = {"name": "SharpReCL", "train": 3353, "test": 4043, "classes": 23, "ir": 65.0}
    differences = (
        "train has 3358 rows, the paper says 3353; one text is there twice (row kept); "
        "ir 65.0 of train (585 to 9) agrees. Augmented texts as stored: how they were made is not "
        "stated, they look like WordNet synonym replacement"
    )

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[Row]]:
        train, test = (files[source.path] for source in self.sources)
        return {"train": json_array_rows(train), "test": json_array_rows(test)}
