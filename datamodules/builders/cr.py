"""CR: customer reviews, positive or negative."""

from collections.abc import Iterator
from pathlib import Path

from datamodules.builders.base import Row, TextDataset
from datamodules.builders.json_array import json_array_rows
from datamodules.sources import SourceFile

REPOSITORY = ("hiyouga", "Dual-Contrastive-Learning", "19cb149090f506eff5190bbef126583bad21963b")


class Cr(TextDataset):
    """Sentences of product reviews by polarity."""

    sources = (
        SourceFile(
            *REPOSITORY,
            "data/CR_Train.json",
            sha256="8d5351dce675950208bbba7cd4caa19e4da0baba8ddd51f00b4bbb3abbdd5e96",
            bytes=527037,
        ),
        SourceFile(
            *REPOSITORY,
            "data/CR_Test.json",
            sha256="bc35abb837744b406ed6c7ee37a6aea380ad3e0fbc021b178b1a3d58b3d471e6",
            bytes=55857,
        ),
    )
    licence = "MIT (the repository)"
    origin = "customer reviews of Hu and Liu, split of the DualCL repository, on which SharpReCL builds"
    paper = {"name": "SharpReCL", "train": 3394, "test": 376, "classes": 2}
    differences = "none; SharpReCL's augmented texts are not published"

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[Row]]:
        train, test = (files[source.path] for source in self.sources)
        return {"train": json_array_rows(train), "test": json_array_rows(test)}
