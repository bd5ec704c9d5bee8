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

    Every row of a table is encoded, also those that this run leaves out: draws of rows or labels share the file.
    `key` names weights and pooling; the digest of a store names the rows.
    """
    views = {split: datamodule.views(split) for split in splits or datamodule.indices}
    tables = {store.digest: store for split in views for store, rows in views[split] if len(rows)}
    features = {
        digest: _cached(encoder, datamodule, store, _file(folder, store, key))
        for digest, store in tables.items()
    }
    empty = np.empty((0, encoder.hidden_size), np.float32)
    return {split: np.stack([features.get(t.digest, empty)[rows] for t, rows in views[split]]) for split in views}


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
def _encode(encoder: Any, datamodule: DataModule, store: Any, shape: tuple[int, int]) -> np.ndarray:
    features = np.empty(shape, dtype=np.float32)
    device = next(itertools.chain(encoder.parameters(), encoder.buffers())).device
    for batch in datamodule.table_loader(store):
        inputs = (rows.to(device) for rows in inputs_of(batch).values())
        features[batch["indices"].numpy()] = encoder(*inputs).cpu().numpy()
    return features
