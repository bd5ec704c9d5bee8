"""Texts to token ids, once: stored flat on disk and memory-mapped by every later run."""

import hashlib
import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from filelock import FileLock

from storage.errors import InputError
from storage.files import file_sha256, replacing_folder

log = logging.getLogger(__name__)

CHUNK = 4096  # texts held in memory at a time


@dataclass(frozen=True)
class Tokens:
    """Token ids of N texts: text i is ``ids[offsets[i]:offsets[i + 1]]``.

    ``ids`` is int32, ``offsets`` ``(N + 1,)`` int64; ``digest`` names the content; ``notes`` is what the producer of
    the texts wanted to keep with them.
    """

    ids: np.ndarray
    offsets: np.ndarray
    digest: str = ""
    notes: dict = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)


def tokenizer_fingerprint(tokenizer) -> str:
    """Hash of all that decides the ids; padding and truncation are set anew at each call and do not count."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise InputError(f"encoder tokenizer: found {type(tokenizer).__name__}, allowed: a fast tokenizer")
    state = json.loads(backend.to_str())
    return key_of(**{name: part for name, part in state.items() if name not in ("padding", "truncation")})


def key_of(**parts) -> str:
    """Short digest of the named parts, JSON values or arrays, that decide a cached result."""
    text = json.dumps(parts, sort_keys=True, default=lambda array: hashlib.sha256(array.tobytes()).hexdigest())
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def tokenize(texts: list[str], tokenizer, max_length: int) -> Tokens:
    """Tokenise in memory, with the special tokens, cut to ``max_length`` tokens."""
    chunks = [_encode(texts[i : i + CHUNK], tokenizer, max_length) for i in range(0, len(texts), CHUNK)]
    ids = [ids for ids, _ in chunks] or [np.empty(0, np.int32)]
    lengths = [lengths for _, lengths in chunks] or [np.empty(0, np.int64)]
    return Tokens(np.concatenate(ids), _offsets(lengths))


def cached_tokens(
    folder: Path,
    key: str,
    chunks: Callable[[dict], Iterable[list[str]]],
    tokenizer,
    max_length: int,
) -> Tokens:
    """Tokenise, or memory-map what an earlier run tokenised under the same key.

    Safe when several processes start at once. A cache that was cut short or altered is found by its sizes and
    checksum and built anew, with a warning. Memory stays bounded: texts come and go in chunks.

    Args:
        folder: where caches lie.
        key: digest of everything that decides the ids.
        chunks: called with a dict for notes that are stored with the ids; yields lists of texts.
        tokenizer: a fast tokenizer.
        max_length: tokens per text, the special ones included.

    Raises:
        InputError: the folder cannot be written, or its disk is full.
    """
    target = Path(folder) / key
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f".{key}.lock")):
            meta = _verified(target) or _build(target, chunks, tokenizer, max_length)
        ids = np.memmap(target / "ids.bin", dtype=np.int32, mode="r")
        offsets = np.load(target / "offsets.npy")
    except OSError as error:
        raise InputError(f"paths.cache: cannot use {folder}: {error.strerror or error}") from error
    return Tokens(ids, offsets, digest=meta["sha256"]["ids.bin"], notes=meta["notes"])


def _build(target: Path, chunks: Callable[[dict], Iterable[list[str]]], tokenizer, max_length: int) -> dict:
    if target.exists():
        log.warning("%s is damaged, tokenising again", target)
    notes: dict = {}
    lengths = []
    with replacing_folder(target) as temporary:
        with open(temporary / "ids.bin", "wb") as file:
            for texts in chunks(notes):
                ids, counts = _encode(texts, tokenizer, max_length)
                file.write(ids.tobytes())
                lengths.append(counts)
        np.save(temporary / "offsets.npy", _offsets(lengths))
        meta = {"sha256": {name: file_sha256(temporary / name) for name in ("ids.bin", "offsets.npy")}, "notes": notes}
        (temporary / "meta.json").write_text(json.dumps(meta))
    return meta


def _verified(target: Path) -> dict | None:
    try:
        meta = json.loads((target / "meta.json").read_text())
        intact = all(file_sha256(target / name) == digest for name, digest in meta["sha256"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return meta if intact else None


def _encode(texts: list[str], tokenizer, max_length: int) -> tuple[np.ndarray, np.ndarray]:
    rows = tokenizer(
        texts, truncation=True, max_length=max_length, return_attention_mask=False, return_token_type_ids=False
    )["input_ids"]
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    ids = np.fromiter((token for row in rows for token in row), dtype=np.int32, count=int(lengths.sum()))
    return ids, lengths


def _offsets(lengths: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(lengths), dtype=np.int64)])
