"""Labelled embeddings on disk: segments that are only ever added, and a header that names those that count."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from storage.files import file_sha256, replacing, write_text

FORMAT = 2
HEADER = "header.json"
FILES = ("vectors.npy", "label_starts.npy", "labels.npy", "texts.jsonl")


class Datastore:
    """Vectors (memory-mapped), labels (sparse) and texts of labelled rows, in the order they came.

    A segment is named by its content, written under a temporary name, renamed, and counts once the header names it: a
    process killed at any moment leaves the datastore as it was before, or with all the new rows. One process writes at
    a time; readers wait for nobody.

    Attributes:
        folder: where it lies.
        header: `encoder` (hash of the model that made the vectors), `config`, `dimension`, `label_names`, `segments`,
            and `files` (the index, by name).
    """

    def __init__(self, folder: Path, header: dict[str, Any]) -> None:
        self.folder, self.header = Path(folder), header

    @classmethod
    def create(
        cls,
        folder: Path,
        encoder: str,
        config: dict[str, Any],
        label_names: Sequence[str],
        vectors: NDArray[np.float32],
        labels: Sequence[Sequence[int]],
        texts: Sequence[str],
    ) -> Datastore:
        """A datastore of N >= 1 rows, see `add`; one that is there counts until the new one is whole.

        Raises:
            ValueError: no rows, lengths or a class index that do not fit, or the folder cannot be written to.
        """
        dimension = vectors.shape[1] if vectors.ndim == 2 else 0
        _check(vectors, labels, texts, dimension, len(label_names))
        if not len(vectors):
            raise ValueError("vectors: found no rows, allowed: at least 1")
        header = {"format": FORMAT, "encoder": encoder, "config": config, "dimension": dimension}
        store = cls(Path(folder), header | {"label_names": list(label_names), "segments": [], "files": {}})
        with store._writing():
            store._commit([store._segment(vectors, labels, texts)])
        return store

    @classmethod
    def open(cls, folder: Path, encoder: str) -> Datastore:
        """Open a datastore for the model with the hash ``encoder``.

        Raises:
            ValueError: none there, it is damaged, or it belongs to another model; one line says which.
        """
        folder = Path(folder)
        while True:
            header = _read_header(folder)
            if header["encoder"] != encoder:
                model, allowed = header["encoder"][:12], encoder[:12]
                raise ValueError(f"{folder}: found a datastore of model {model}, allowed: {allowed}")
            names = [part["name"] for part in header["segments"] if _digest(folder / part["name"]) != part["sha256"]]
            if not names:
                return cls(folder, header)
            if _read_header(folder) == header:  # else it was replaced while we read, and its segments went
                raise ValueError(f"{folder}: segment {names[0]} is damaged; build the datastore again")

    def __len__(self) -> int:
        return sum(segment["rows"] for segment in self.header["segments"])

    def add(self, vectors: NDArray[np.float32], labels: Sequence[Sequence[int]], texts: Sequence[str]) -> int:
        """Add N rows: vectors (N, D), the class indices of each row, and its text; returns how many are new.

        The same texts with the same labels, added together once before, are not added again, so that a command that
        was killed can be typed again.

        Raises:
            ValueError: lengths, D or a class index that do not fit; the datastore was replaced by another model's; or
                the folder cannot be written to.
        """
        _check(vectors, labels, texts, self.header["dimension"], len(self.header["label_names"]))
        if not len(vectors):
            return 0
        with self._writing():
            self._refresh()
            segment = self._segment(vectors, labels, texts)
            before = self.header["segments"]
            if segment["content"] in [other["content"] for other in before]:
                self._remove_unnamed()
                return 0
            self._commit([*before, segment])
        return len(vectors)

    def vectors(self) -> list[NDArray[np.float32]]:
        """The vectors of each segment, memory-mapped, (N_s, D)."""
        return [np.load(path / "vectors.npy", mmap_mode="r") for path in self._segments()]

    def labels(self, positions: NDArray[np.integer]) -> NDArray[np.float32]:
        """Labels of the rows at ``positions`` (any shape), as 0 and 1 in one more dimension of size C; -1 has none."""
        return self._label_rows[positions.reshape(-1)].toarray().reshape(*positions.shape, -1)

    def texts(self) -> list[str]:
        """All texts, in the order of the rows."""
        files = (path / "texts.jsonl" for path in self._segments())
        return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").split("\n") if line]

    def keep(self, name: str, write: Callable[[BinaryIO], Any]) -> None:
        """Keep a file beside the rows until the datastore is replaced; ``write`` gets it, open."""
        with self._writing():
            self._refresh()
            with replacing(self.folder / name) as file:
                write(file)
            digest = file_sha256(self.folder / name)
            self._commit(self.header["segments"], self.header["files"] | {name: digest})

    def stored_file(self, name: str) -> Path | None:
        """A file that `keep` wrote, None where there is none or it is no longer whole."""
        path, digest = self.folder / name, self.header["files"].get(name)
        return path if digest is not None and path.is_file() and file_sha256(path) == digest else None

    @cached_property
    def _label_rows(self) -> csr_matrix:
        """(N + 1, C); the last row is empty, which is what position -1 finds."""
        counts = [np.diff(np.load(path / "label_starts.npy")) for path in self._segments()]
        indices = np.concatenate([np.load(path / "labels.npy") for path in self._segments()])
        starts = np.cumsum(np.concatenate([[0], *counts, [0]]))
        shape = (len(self) + 1, len(self.header["label_names"]))
        return csr_matrix((np.ones(len(indices), np.float32), indices, starts), shape)

    def _segments(self) -> list[Path]:
        return [self.folder / segment["name"] for segment in self.header["segments"]]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the datastore against other writers; a killed process loses its hold by itself."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with FileLock(self.folder / ".lock"):
                yield
        except OSError as error:
            raise ValueError(f"{self.folder}: cannot be written to: {error.strerror or error}") from error

    def _refresh(self) -> None:
        """What another process has added meanwhile."""
        header = _read_header(self.folder)
        if any(header[key] != self.header[key] for key in ("encoder", "dimension", "label_names")):
            raise ValueError(f"{self.folder}: the datastore was built again by another model meanwhile; open it anew")
        self.header = header

    def _segment(
        self, vectors: NDArray[np.float32], labels: Sequence[Sequence[int]], texts: Sequence[str]
    ) -> dict[str, Any]:
        """Write rows as a segment that no header names yet."""
        indices = np.fromiter(chain.from_iterable(labels), np.int32)
        starts = np.cumsum([0, *map(len, labels)], dtype=np.int64)
        lines = "".join(json.dumps(text, ensure_ascii=False) + "\n" for text in texts).encode()
        temporary = Path(tempfile.mkdtemp(prefix=".tmp-", dir=self.folder))
        try:
            arrays: dict[str, np.ndarray] = {"label_starts": starts, "labels": indices}
            arrays["vectors"] = np.ascontiguousarray(vectors, np.float32)
            for name, rows in arrays.items():
                with replacing(temporary / f"{name}.npy") as file:
                    np.save(file, rows)
            with replacing(temporary / "texts.jsonl") as file:
                file.write(lines)
            content = _digest(temporary, FILES[1:])
            digest = _digest(temporary)
            target = self.folder / f"segment-{digest[:16]}"
            if _digest(target) != digest:
                shutil.rmtree(target, ignore_errors=True)
                os.replace(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return {"name": target.name, "rows": len(vectors), "sha256": digest, "content": content}

    def _commit(self, segments: list[dict[str, Any]], files: dict[str, str] | None = None) -> None:
        """From here on these segments count, and no others."""
        body = {key: value for key, value in self.header.items() if key != "checksum"} | {"segments": segments}
        body |= {} if files is None else {"files": files}
        header = body | {"checksum": _checksum(body)}
        write_text(self.folder / HEADER, json.dumps(header, indent=1, ensure_ascii=False))
        self.header = header
        self.__dict__.pop("_label_rows", None)
        self._remove_unnamed()

    def _remove_unnamed(self) -> None:
        """What belongs to an earlier datastore, and what killed processes left."""
        expected = {HEADER, ".lock", *self.header["files"], *(segment["name"] for segment in self.header["segments"])}
        for path in self.folder.iterdir():
            if path.name not in expected:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _check(
    vectors: NDArray, labels: Sequence[Sequence[int]], texts: Sequence[str], dimension: int, num_classes: int
) -> None:
    if vectors.ndim != 2 or vectors.shape[1] != dimension or not len(vectors) == len(labels) == len(texts):
        shapes = f"{vectors.shape}, {len(labels)} and {len(texts)}"
        raise ValueError(f"vectors must be (N, {dimension}), with N labels and N texts, got {shapes}")
    indices = set(chain.from_iterable(labels))
    if indices and (min(indices) < 0 or max(indices) >= num_classes):
        raise ValueError(f"labels: found class {min(indices)} to {max(indices)}, allowed: 0 to {num_classes - 1}")


def _read_header(folder: Path) -> dict[str, Any]:
    try:
        header = json.loads((folder / HEADER).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder}: no datastore, or its {HEADER} cannot be read") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT or header.get("checksum") != _checksum(header):
        raise ValueError(f"{folder}: {HEADER} is altered or of another version; build the datastore again")
    return header


def _checksum(header: dict[str, Any]) -> str:
    body = {key: value for key, value in header.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _digest(folder: Path, names: Sequence[str] = FILES) -> str:
    digest = hashlib.sha256()
    for name in names:
        try:
            digest.update(bytes.fromhex(file_sha256(folder / name)))
        except FileNotFoundError:
            return "missing"
    return digest.hexdigest()
