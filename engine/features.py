"""Features of a frozen encoder: computed once, cached on disk, read by every run of a sweep."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from filelock import FileLock

from datamodules.datamodule import TextDataModule
from lightning_modules.encoders.transformer import TextEncoder
from storage.files import replacing


def cached_features(encoder: TextEncoder, datamodule: TextDataModule, key: str, folder: Path) -> dict[str, np.ndarray]:
    """Features of every split: "train" (V, N, D), "val" and "test" (1, N, D), float32, memory-mapped.

    `key` names weights and pooling; the digest of the tokens names texts, rows and views.
    """
    return {split: _cached(encoder, datamodule, split, key, folder / "features") for split in datamodule.indices}


def _cached(encoder: TextEncoder, datamodule: TextDataModule, split: str, key: str, folder: Path) -> np.ndarray:
    shape = (datamodule.num_views if split == "train" else 1, len(datamodule.indices[split]), encoder.hidden_size)
    if 0 in shape:
        return np.empty(shape, np.float32)
    file = folder / f"{datamodule.tokens_digest(split)}-{key}.npy"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{file}.lock"):
        features = _read(file, shape)
        if features is None:
            with replacing(file) as stream:
                np.save(stream, _encode(encoder, datamodule, split, shape))
            features = _read(file, shape)
    return features


def _read(file: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """The cached features, or None where there are none or the file is no longer whole."""
    try:
        features = np.load(file, mmap_mode="r")
    except (OSError, ValueError, EOFError):
        return None
    return features if features.shape == shape else None


@torch.inference_mode()
def _encode(encoder: TextEncoder, datamodule: TextDataModule, split: str, shape: tuple[int, ...]) -> np.ndarray:
    features = np.empty(shape, dtype=np.float32)
    for batch in datamodule.feature_loader(split):
        encoded = encoder(batch["input_ids"], batch["attention_mask"])
        features[:, batch["indices"].numpy()] = encoded.reshape(shape[0], -1, shape[2]).numpy()
    return features
