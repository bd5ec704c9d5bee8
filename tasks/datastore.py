"""Add labelled texts to the datastore of a finished run: nothing is trained, nothing built again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from omegaconf import DictConfig

from tasks.finished import load_module, open_run
from tasks.predict import Encoded, Row, pieces, read_rows
from tasks.retrieval import open_datastore


def datastore(config: DictConfig, overrides: list[str]) -> Path:
    """Add the rows of the file `add`, or without one say what the datastore holds; returns its folder.

    All rows of the file come in at once, or none where the process is stopped; the same file again adds nothing.

    Raises:
        ValueError: a run without a datastore, or one that is damaged or of another model; a row without a text, or
            with a label that the model does not know; the line names file and line.
    """
    run, plan = open_run(config)
    store = open_datastore(run, plan)
    if config.add is not None:
        if plan.config.trainer.num_threads:
            torch.set_num_threads(plan.config.trainer.num_threads)
        module, label_names = load_module(run, plan)
        encoded, known = Encoded(module, plan), {name: number for number, name in enumerate(label_names)}
        rows = read_rows(config.add, config.text_column, getattr(plan.dataset, "delimiter", None), key="add")
        texts, labels, vectors = [], [], []
        for piece in pieces(rows):
            labels += [_labels(where, row, config.label_column, known) for where, row in piece]
            texts += [row[config.text_column] for _, row in piece]
            vectors.append(encoded(texts[-len(piece) :])[1])
        print(f"{store.add(np.concatenate(vectors), labels, texts)} of {len(texts)} rows are new")
    header = store.header
    print(f"{len(store)} rows of {header['dimension']} dimensions, {len(header['label_names'])} labels")
    return store.folder


def _labels(where: str, row: Row, column: str, known: dict[str, int]) -> list[int]:
    """Class indices of a row: of a name, or in JSON Lines of a list of names."""
    if column not in row:
        raise ValueError(f"{where}: no column {column!r}; found {', '.join(row)}; set label_column=NAME")
    names = row[column] if isinstance(row[column], list) else [row[column]]
    for name in names:
        if str(name) not in known:
            some = ", ".join(sorted(known)[:20]) + (", …" if len(known) > 20 else "")
            raise ValueError(f"{where}: label {name!r} is not one of the model's; allowed: {some}")
    return sorted({known[str(name)] for name in names})
