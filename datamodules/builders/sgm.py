"""AAPD and RCV1-V2 in the layout of SGM (Yang et al., COLING 2018): one text a line, its labels in a second file."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from datamodules.builders.base import Name, Row, TextDataset
from datamodules.builders.json_array import json_array_rows
from datamodules.sources import SourceFile
from storage.errors import InputError
from storage.files import expanded
from storage.tables import TextLines

PAIRS = {"train": ("text_train", "label_train"), "val": ("text_val", "label_val"), "test": ("text_test", "label_test")}
AAPD_FILES = ("blalalt", "bert", "0e10f205565cf61391749d81bfad120e336e1d1a")


class ParallelFiles(TextDataset):
    """Files that the user brings: ``text_SPLIT`` with a text a line, ``label_SPLIT`` with its labels between spaces.

    Args:
        folder: where they lie, each plain or packed (``.gz``).
        name, max_length, singleton_classes, deduplicate: see `TextDataset`.
    """

    own_splits: tuple[str, ...] = ("train", "val", "test")

    def __init__(
        self,
        folder: str,
        name: Name,
        max_length: Annotated[int, ">= 1"] = 256,
        **options: Any,
    ) -> None:
        super().__init__(name, max_length, **options)
        self.folder = expanded(folder)

    def own_files(self) -> tuple[Path, ...]:
        return tuple(self._file(name) for split in self.own_splits for name in PAIRS[split])

    def _file(self, name: str) -> Path:
        for path in (self.folder / name, self.folder / f"{name}.gz"):
            if path.is_file() and os.access(path, os.R_OK):
                return path
        needed = ", ".join(name for split in self.own_splits for name in PAIRS[split])
        raise InputError(
            f"dataset.folder={self.folder}: found no {name} to read, allowed: a folder with {needed}, from the archive "
            "that the README of github.com/lancopku/SGM links to"
        )

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[Row]]:
        return {split: _pairs(*map(self._file, PAIRS[split])) for split in self.own_splits}


class AAPD(ParallelFiles):
    """Abstracts of computer science papers by subject (arXiv); train from the user, official valid and test sets."""

    own_splits = ("train",)
    sources = (
        SourceFile(
            *AAPD_FILES,
            "data/aapd/val.json",
            sha256="317ec5a07e96a252a2c6fc68d8802db9b0ea6492ca5be715cd731962011b7492",
            bytes=1032068,
        ),
        SourceFile(
            *AAPD_FILES,
            "data/aapd/test.json",
            sha256="8f1c2a603259c4eeea9062e646f5d7c1f8fe16eb7b02740a4e4f8843a117bb5f",
            bytes=1043720,
        ),
    )
    licence = "none stated in the repositories"
    origin = "arXiv Academic Paper Dataset (Yang et al., 2018)"
    paper = {"name": "kNN-MLTC", "train": 53_840, "val": 1_000, "test": 1_000, "classes": 54}
    differences = "none where train is the file of SGM"

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[Row]]:
        val, test = (json_array_rows(files[source.path]) for source in self.sources)
        return super().rows(files) | {"val": val, "test": test}


class RCV1(ParallelFiles):
    """Newswire of Reuters by topic (Lewis et al., 2004), in the random split of SGM."""

    licence = "Reuters Corpora: an agreement with NIST is needed for the texts"
    origin = "RCV1-V2 (Lewis et al., 2004), split of SGM"
    paper = {"name": "kNN-MLTC", "train": 802_414, "val": 1_000, "test": 1_000, "classes": 103}
    differences = "none where the files are those of SGM"


def _pairs(texts: Path, labels: Path) -> Iterator[Row]:
    """A blank line in both files is passed over."""
    lines, label_lines = TextLines(texts), iter(TextLines(labels))
    for number, text in enumerate(lines, 1):
        names = next(label_lines, None)
        if names is None:
            raise InputError(f"{labels}: found {number - 1} lines, allowed: one for each line of {texts.name}")
        if text.strip() or names.strip():
            yield {"text": text.strip(), "label": names.split(), "where": f"{texts}:{number}"}
    if any(names.strip() for names in label_lines):
        raise InputError(f"{texts}: found {number} lines, allowed: one for each line of {labels.name}")
