"""Features of a frozen encoder: computed once a table, cached on disk, read by every run whatever rows it draws."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from filelock import FileLock

from datamodules.datamodule import DataModule
from lightning_modules.base import inputs_of
from storage.files import replacing

FEW = 0.5  # of a table's rows


def texts_to_encode(datamodule: DataModule, key: str, folder: Path, splits: Sequence[str]) -> int:
    """How many rows `cached_features` would have to encode for these splits."""
    tables = _tables(datamodule, key, folder, splits).values()
    return sum(len(table.store if table.rows is None else table.rows) for table in tables if not table.file.is_file())


class _Table(NamedTuple):
    """A store, the rows (n,) of it that are encoded, ascending, None for all; and the file of their features."""

    store: Any
    rows: np.ndarray | None
    file: Path


def _tables(datamodule: DataModule, key: str, folder: Path, splits: Iterable[str]) -> dict[str, _Table]:
    """The tables that have rows of these splits, by digest."""
    stores: dict[str, Any] = {}
    asked: dict[str, list[np.ndarray]] = {}
    for store, rows in (view for split in splits for view in datamodule.views(split)):
        if len(rows):
            stores[store.digest] = store
            asked.setdefault(store.digest, []).append(rows)
    return {
        digest: _table(datamodule, store, np.unique(np.concatenate(asked[digest])), folder, key)
        for digest, store in stores.items()
    }


def _table(datamodule: DataModule, store: Any, rows: np.ndarray, folder: Path, key: str) -> _Table:
    name = f"{store.digest[:20]}-{key}"
    whole = _Table(store, None, folder / "features" / f"{name}.npy")
    if datamodule.budget.most_unlabelled is None or len(rows) >= FEW * len(store) or whole.file.is_file():
        return whole
    drawn = hashlib.blake2b(rows.astype(np.int64).tobytes(), digest_size=6).hexdigest()
    return _Table(store, rows, folder / "features" / f"{name}-{drawn}.npy")


def cached_features(
    encoder: Any, datamodule: DataModule, key: str, folder: Path, splits: Sequence[str] | None = None
) -> dict[str, np.ndarray]:
    """Features of these splits, or of every one: "train" (V, N, D), the others (1, N, D), float32.

    Every row of a table is encoded, also those that this run leaves out: draws of rows or labels share the file. Where
    `dataset.most_unlabelled` bounds the rows, and they are few of a table that has no file yet, they alone are encoded.
    `key` names weights and pooling; the digest of a store names the rows.
    """
    splits = list(splits or datamodule.indices)
    tables = _tables(datamodule, key, folder, splits)
    features = {digest: _cached(encoder, datamodule, table) for digest, table in tables.items()}
    empty = np.empty((0, encoder.hidden_size), np.float32)

    def of(store: Any, rows: np.ndarray) -> np.ndarray:
        if not len(rows):
            return empty
        encoded = tables[store.digest].rows
        return features[store.digest][rows if encoded is None else np.searchsorted(encoded, rows)]

    return {split: np.stack([of(store, rows) for store, rows in datamodule.views(split)]) for split in splits}


def _cached(encoder: Any, datamodule: DataModule, table: _Table) -> np.ndarray:
    store, rows, file = table
    shape = (len(store if rows is None else rows), encoder.hidden_size)
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{file}.lock"):
        features = _read(file, shape)
        if features is None:
            with replacing(file) as stream:
                np.save(stream, _encode(encoder, datamodule, store, rows, shape))
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
    encoder: Any, datamodule: DataModule, store: Any, rows: np.ndarray | None, shape: tuple[int, int]
) -> np.ndarray:
    features = np.empty(shape, dtype=np.float32)
    device = next(itertools.chain(encoder.parameters(), encoder.buffers())).device
    for batch in datamodule.table_loader(store, rows):
        inputs = (values.to(device) for values in inputs_of(batch).values())
        features[batch["indices"].numpy()] = encoder(*inputs).cpu().numpy()
    return features
