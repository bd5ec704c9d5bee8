"""Reuters-21578, ModApte split: newswire with one or more of 90 topics."""

import html
from collections.abc import Iterator
from pathlib import Path

from datamodules.builders.base import Row, TextDataset
from datamodules.builders.r52 import CONTROL_CHARACTER, R52, R52_TEST, stories

SPLITS = {"TRAIN": "train", "TEST": "test"}  # LEWISSPLIT -> ours


class Reuters21578(TextDataset):
    """Stories of the ModApte split (``LEWISSPLIT``, ``TOPICS="YES"``) with a topic that occurs in train and in test.

    A text is title and body, its lines kept, spaces within a line folded.
    """

    sources = tuple(source for source in R52.sources if source != R52_TEST)
    licence = R52.licence
    origin = "Reuters-21578 (SGML)"
    paper = {"name": "R(90)", "train": 7770, "test": 3019, "classes": 90}
    differences = "none (the copy in NLTK has 7,769 train rows)"

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[Row]]:
        read = [story for source in self.sources for story in stories(files[source.path])]
        topics = {part: {topic for split, names, _ in read if split == part for topic in names} for part in SPLITS}
        shared = topics["TRAIN"] & topics["TEST"]
        return {name: _rows(read, part, shared) for part, name in SPLITS.items()}


def _rows(read: list[tuple[str, list[str], list[str]]], part: str, shared: set[str]) -> Iterator[Row]:
    for split, topics, contents in read:
        if split == part and (labels := [topic for topic in topics if topic in shared]):
            yield {"text": _text(contents), "label": labels}


def _text(contents: list[str]) -> str:
    text = html.unescape(CONTROL_CHARACTER.sub(" ", "\n".join(contents)))
    return "\n".join(" ".join(line.split()) for line in text.split("\n")).strip()
