"""Labelled embeddings on disk: segments that are only ever added, and a header that names those that count."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT = 1
HEADER = "header.json"


class Datastore:
    """Vectors (memory-mapped), labels (sparse) and texts of labelled rows, in the order they came.

    A segment is written under a temporary name, renamed, and counts once the header names it: a process killed at any
    moment leaves the datastore as it was before, or with all the new rows.

    Attributes:
        folder: where it lies.
        header: `encoder` (hash of the model that made the vectors), `config`, `dimension`, `label_names`, `segments`.
    """

    def __init__(self, folder: Path, header: dict[str, Any]) -> None:
        self.folder, self.header = Path(folder), header

    @classmethod
    def create(
        cls, folder: Path, encoder: str, config: dict[str, Any], dimension: int, label_names: Sequence[str]
    ) -> Datastore:
        """An empty datastore; one that is there is replaced."""
        folder = Path(folder)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        header = {"format": FORMAT, "encoder": encoder, "config": config, "dimension": dimension}
        store = cls(folder, header | {"label_names": list(label_names), "segments": []})
        store._write_header(store.header)
        return store

    @classmethod
    def open(cls, folder: Path, encoder: str) -> Datastore:
        """Open a datastore for the model with the hash ``encoder``.

        Raises:
            ValueError: none there, it is damaged, or it belongs to another model; one line says which.
        """
        folder = Path(folder)
        try:
            header = json.loads((folder / HEADER).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"{folder}: no datastore, or its {HEADER} cannot be read") from error
        if header.get("checksum") != _checksum(header) or header.get("format") != FORMAT:
            raise ValueError(f"{folder}: {HEADER} is altered or of another version; build the datastore again")
        if header["encoder"] != encoder:
            raise ValueError(f"{folder}: found a datastore of model {header['encoder'][:12]}, allowed: {encoder[:12]}")
        for segment in header["segments"]:
            if _digest(folder / segment["name"]) != segment["sha256"]:
                raise ValueError(f"{folder}: segment {segment['name']} is damaged; build the datastore again")
        return cls(folder, header)

    def __len__(self) -> int:
        return sum(segment["rows"] for segment in self.header["segments"])

    def add(self, vectors: NDArray[np.float32], labels: Sequence[Sequence[int]], texts: Sequence[str]) -> None:
        """Add N rows: vectors (N, D), the class indices of each row, and its text.

        Raises:
            ValueError: lengths, D or a class index that do not fit.
        """
        names, dimension = self.header["label_names"], self.header["dimension"]
        if vectors.ndim != 2 or vectors.shape[1] != dimension or not len(vectors) == len(labels) == len(texts):
            found = f"{vectors.shape}, {len(labels)} and {len(texts)}"
            raise ValueError(f"vectors must be (N, {dimension}), with N labels and N texts, got {found}")
        indices = np.array([label for row in labels for label in row], np.int32)
        if indices.size and (indices.min() < 0 or indices.max() >= len(names)):
            raise ValueError(f"labels: found class {indices.min()} to {indices.max()}, allowed: 0 to {len(names) - 1}")
        if not len(vectors):
            return
        starts = np.cumsum([0, *map(len, labels)], dtype=np.int64)
        temporary = Path(tempfile.mkdtemp(prefix=".tmp-", dir=self.folder))
        try:
            np.save(temporary / "vectors.npy", np.ascontiguousarray(vectors, np.float32))
            np.save(temporary / "label_starts.npy", starts)
            np.save(temporary / "labels.npy", indices)
            lines = "".join(json.dumps(text, ensure_ascii=False) + "\n" for text in texts)
            (temporary / "texts.jsonl").write_text(lines, encoding="utf-8")
            name = f"segment-{len(self.header['segments']):05d}"
            shutil.rmtree(self.folder / name, ignore_errors=True)  # of a process killed before it wrote the header
            os.replace(temporary, self.folder / name)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        segment = {"name": name, "rows": len(vectors), "sha256": _digest(self.folder / name)}
        self._write_header(self.header | {"segments": [*self.header["segments"], segment]})

    def vectors(self) -> list[NDArray[np.float32]]:
        """The vectors of each segment, memory-mapped, (N_s, D)."""
        return [np.load(path / "vectors.npy", mmap_mode="r") for path in self._segments()]

    def labels(self, positions: NDArray[np.integer]) -> NDArray[np.float32]:
        """Labels of the rows at ``positions`` (any shape), as 0 and 1 in one more dimension of size C; -1 has none."""
        found = np.zeros((*positions.shape, len(self.header["label_names"])), np.float32)
        flat, first = found.reshape(positions.size, -1), 0
        for path, segment in zip(self._segments(), self.header["segments"], strict=True):
            starts, indices = np.load(path / "label_starts.npy"), np.load(path / "labels.npy")
            local = positions.reshape(-1) - first
            for place in np.flatnonzero((local >= 0) & (local < segment["rows"]) & (positions.reshape(-1) >= 0)):
                row = local[place]
                flat[place, indices[starts[row] : starts[row + 1]]] = 1
            first += segment["rows"]
        return found

    def texts(self) -> list[str]:
        """All texts, in the order of the rows."""
        files = (path / "texts.jsonl" for path in self._segments())
        return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").split("\n") if line]

    def _segments(self) -> list[Path]:
        return [self.folder / segment["name"] for segment in self.header["segments"]]

    def _write_header(self, header: dict[str, Any]) -> None:
        header = header | {"checksum": _checksum(header)}
        temporary = self.folder / f".{HEADER}.{os.getpid()}"
        temporary.write_text(json.dumps(header, indent=1, ensure_ascii=False), encoding="utf-8")
        os.replace(temporary, self.folder / HEADER)
        self.header = header


def _checksum(header: dict[str, Any]) -> str:
    body = {key: value for key, value in header.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for name in ("vectors.npy", "label_starts.npy", "labels.npy", "texts.jsonl"):
        try:
            with (folder / name).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except FileNotFoundError:
            return "missing"
    return digest.hexdigest()
