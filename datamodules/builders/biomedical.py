"""Biomedical: titles of biomedical articles."""

import csv
from collections.abc import Iterator
from pathlib import Path

from datamodules.builders.base import Row, TextDataset
from datamodules.sources import SourceFile

REPOSITORY = ("YZH0905", "AECL-STC", "45f938637bb974b615fc46949fb26dada094d0ca")


class Biomedical(TextDataset):
    """Paper titles in 20 balanced classes (numbers, as the source has them); augmented texts for all rows."""

    sources = (
        SourceFile(
            *REPOSITORY,
            "prepare_data/augmented data/biomedical.csv",
            sha256="94ba7684a51556d77df7896a6273465cf70f10e4eed0898c6f8745399c2efa1c",
            bytes=3731080,
        ),
    )
    licence = "none stated in the repository"
    origin = "BioASQ titles of Xu et al. (STC2), with EDA texts by the AECL authors"
    paper = {"name": "SharpReCL", "train": 17976, "test": 1998, "classes": 20}
    differences = (
        "the split of the paper (17976 + 1998 = 19974 of 20000 rows) is not published: "
        "test is a stratified tenth of the 20000 rows, drawn by a fixed seed"
    )
    test_fraction = 0.1

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[Row]]:
        return {"train": augmented_rows(files[self.sources[0].path])}


def augmented_rows(path: Path) -> Iterator[Row]:
    """Rows of the AECL authors' CSV files: label, text, augmented text."""
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield {"text": row["text0"], "label": row["label"], "aug": row["text1"]}
