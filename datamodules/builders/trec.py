"""TREC: question classification in six coarse classes."""

from collections.abc import Iterator
from pathlib import Path

from datamodules.builders.base import Row, TextDataset
from datamodules.builders.json_array import json_array_rows
from datamodules.sources import SourceFile

REPOSITORY = ("KEAML-JLU", "SharpReCL", "363d557fe7fa3cd9c395dfb995d74a626b26387a")


class Trec(TextDataset):
    """Questions by the kind of answer they ask for; augmented train texts."""

    sources = (
        SourceFile(
            *REPOSITORY,
            "data/TREC_Train_aug.json",
            sha256="06b50b8488ede7ced6d5988fcabb65ad20b2a0e9155ce1faa35ae407107510dc",
            bytes=869628,
        ),
        SourceFile(
            *REPOSITORY,
            "data/TREC_Test.json",
            sha256="5ae98f229f256be756dbcf821ffb899c0ea0844211b762cbb222a33637665f59",
            bytes=48462,
        ),
    )
    licence = "MIT (the repository)"
    origin = "TREC question classification (Li and Roth), files of the SharpReCL repository"
    paper = {"name": "SharpReCL", "train": 5452, "test": 500, "classes": 6}
    differences = (
        "none. Augmented texts as stored: how they were made is not stated, they look like WordNet synonym replacement"
    )

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[Row]]:
        train, test = (files[source.path] for source in self.sources)
        return {"train": json_array_rows(train), "test": json_array_rows(test)}
