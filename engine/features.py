"""Features of a frozen encoder: computed once a table, cached on disk, read by every run whatever rows it draws."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock

from datamodules.datamodule import DataModule
from lightning_modules.base import inputs_of
from storage.files import replacing

FEW = 0.5  # of a table's rows


def texts_to_encode(datamodule: DataModule, key: str, folder: Path, splits: Sequence[str]) -> int:
    """How many rows `cached_features` would have to encode for these splits."""
    tables = {store.digest: store for split in splits for store, rows in datamodule.views(split) if len(rows)}
    return sum(len(store) for store in tables.values() if not _file(folder, store, key).is_file())


def _file(folder: Path, store: Any, key: str) -> Path:
    return folder / "features" / f"{store.digest[:20]}-{key}.npy"


def cached_features(
    encoder: Any, datamodule: DataModule, key: str, folder: Path, splits: Sequence[str] | None = None
) -> dict[str, np.ndarray]:
    """Features of these splits, or of every one: "train" (V, N, D), the others (1, N, D), float32.

    Every row of a table is encoded, also those that this run leaves out: draws of rows or labels share the file. Where
    `dataset.most_unlabelled` bounds the rows, and they are few of a table that has no file yet, they alone are encoded.
    `key` names weights and pooling; the digest of a store names the rows.
    """
    views = {split: datamodule.views(split) for split in splits or datamodule.indices}
    needed: dict[str, list[np.ndarray]] = {}
    for store, rows in itertools.chain.from_iterable(views.values()):
        needed.setdefault(store.digest, []).append(rows)
    tables = {store.digest: store for split in views for store, rows in views[split] if len(rows)}
    features = {
        digest: _of_table(encoder, datamodule, store, _file(folder, store, key), np.concatenate(needed[digest]))
        for digest, store in tables.items()
    }
    empty = np.empty((0, encoder.hidden_size), np.float32)
    return {split: np.stack([features.get(t.digest, empty)[rows] for t, rows in views[split]]) for split in views}


def _of_table(encoder: Any, datamodule: DataModule, store: Any, file: Path, rows: np.ndarray) -> np.ndarray:
    """Features (N, D) of the rows of a table; those that are not asked for may be zero."""
    are_few = datamodule.budget.most_unlabelled is not None and len(rows) < FEW * len(store)
    if not are_few or file.is_file():
        return _cached(encoder, datamodule, store, file)
    return _encode(encoder, datamodule, store, (len(store), encoder.hidden_size), np.unique(rows))


def _cached(encoder: Any, datamodule: DataModule, store: Any, file: Path) -> np.ndarray:
    shape = (len(store), encoder.hidden_size)
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{file}.lock"):
        features = _read(file, shape)
        if features is None:
            with replacing(file) as stream:
                np.save(stream, _encode(encoder, datamodule, store, shape))
            features = _read(file, shape)
    assert features is not None
    return features


def _read(file: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """The cached features, memory-mapped, or None where there are none or the file is no longer whole."""
    try:
        features = np.load(file, mmap_mode="r")
    except (OSError, ValueError, EOFError):
        return None
    return features if features.shape == shape else None


@torch.inference_mode()
def _encode(
    encoder: Any, datamodule: DataModule, store: Any, shape: tuple[int, int], rows: np.ndarray | None = None
) -> np.ndarray:
    features = np.zeros(shape, dtype=np.float32)
    device = next(itertools.chain(encoder.parameters(), encoder.buffers())).device
    for batch in datamodule.table_loader(store, rows):
        inputs = (rows.to(device) for rows in inputs_of(batch).values())
        places = batch["indices"].numpy()
        features[places if rows is None else rows[places]] = encoder(*inputs).cpu().numpy()
    return features
