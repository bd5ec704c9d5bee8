"""Sources that hold one JSON array of rows a split."""

import json
from collections.abc import Iterator
from pathlib import Path

from datamodules.builders.base import Row


def json_array_rows(path: Path) -> Iterator[Row]:
    """Rows of ``[{"text", "label", "aug_text"?}, ...]``."""
    for entry in json.loads(path.read_text(encoding="utf-8")):
        row = {"text": entry["text"], "label": entry["label"]}
        if "aug_text" in entry:
            row["aug"] = entry["aug_text"]
        yield row
