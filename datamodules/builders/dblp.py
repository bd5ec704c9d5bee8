"""DBLP: titles of computer science papers."""

from collections.abc import Iterator
from pathlib import Path

from datamodules.builders.base import Row, TextDataset
from datamodules.sources import SourceFile

REPOSITORY = ("mnqu", "PTE", "7e13ee54a81da64f8bc8e9c0bf36b22910eec363")


class Dblp(TextDataset):
    """Titles by research area; the source numbers the six areas and does not name them."""

    sources = (
        SourceFile(
            *REPOSITORY,
            "data/dblp/text_train.txt",
            sha256="bc56845bae8501d3a2d6806021871c400587ea2977728b4b629c1655e41d710f",
            bytes=4004354,
        ),
        SourceFile(
            *REPOSITORY,
            "data/dblp/label_train.txt",
            sha256="a1184eb942d1bf6e23f7ea39dabe29e935f31220ac8b48087712db3c6b4f12ef",
            bytes=184437,
        ),
        SourceFile(
            *REPOSITORY,
            "data/dblp/text_test.txt",
            sha256="7887356edf48118b9bb47be6122226e47d55268e1fd3d40a8827f347dfd49b02",
            bytes=1297903,
        ),
        SourceFile(
            *REPOSITORY,
            "data/dblp/label_test.txt",
            sha256="efa304a21712a9bfa6133843bce677003162d8b9da4e1e91396f83c921ae3ea2",
            bytes=60000,
        ),
    )
    licence = "none stated in the repository"
    origin = "DBLP titles of the PTE paper"
    paper = {"name": "SharpReCL", "train": 61422, "test": 20000, "classes": 6}
    differences = (
        "train has 61479 rows, the paper says 61422: 57 fewer, as many as there are test rows whose text is in train, "
        "but the paper does not say that rows were removed"
    )

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[Row]]:
        train_texts, train_labels, test_texts, test_labels = (files[source.path] for source in self.sources)
        return {"train": _rows(train_texts, train_labels), "test": _rows(test_texts, test_labels)}


def _rows(texts: Path, labels: Path) -> Iterator[Row]:
    with texts.open(encoding="utf-8") as text_lines, labels.open(encoding="utf-8") as label_lines:
        for text, label in zip(text_lines, label_lines, strict=True):
            yield {"text": text.strip(), "label": label.strip()}
