"""Rows of a file as training gets them, and as prediction does."""

from pathlib import Path
from types import SimpleNamespace

from omegaconf import OmegaConf

from datamodules.builders.user_files import Csv, Jsonl
from tasks.predict import read_rows


def trained(path: Path) -> list[tuple]:
    """Rows as training gets them."""
    reader = Jsonl if "json" in path.name else Csv
    return [(row["text"], row["label"], row["where"]) for row in reader(train=str(path)).rows({})["train"]]


def predicted(path: Path) -> list[tuple]:
    """Rows as prediction gets them."""
    config = OmegaConf.create({"text_column": "text", "input": str(path), "header": True})
    table = read_rows(config, SimpleNamespace(dataset=Csv(train=str(path))), "input")
    return [(row["text"], row["label"], where) for where, row in table.rows]
