"""Texts: from the rows of a corpus to tokens."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import torch
from torch.utils.data import DataLoader

from datamodules.collation import Batch
from datamodules.datamodule import DataModule, loader
from datamodules.streams import VIEW_STREAM
from datamodules.texts.collation import TokenBatches
from datamodules.texts.tokens import CHUNK, Tokens, cached_tokens, key_of, tokenize, tokenizer_fingerprint
from storage.errors import InputError


@dataclass(frozen=True)
class LearnedTokenizer:
    """A tokenizer that is made from the train rows of a run, after split and thinning.

    Attributes:
        make: called with the texts in pieces, the labels, ``(N,)`` or ``(N, C)``, and C; gives the tokenizer.
    """

    make: Callable[[Iterator[list[str]], np.ndarray, int], Any]


class TextDataModule(DataModule):
    """Augments and tokenises the texts of a corpus, and batches their tokens.

    The inputs of a batch are ``input_ids`` and ``attention_mask`` ``(V * B, L)`` int64; rows ``[0:B]`` are the texts
    themselves, ``[B:2B]`` their first augmentation.

    Args:
        corpus: a prepared ``datamodules.corpus.Corpus`` of texts.
        tokenizer: the encoder's fast tokenizer, or `LearnedTokenizer` for one that the train rows decide.
        max_length: tokens per text, special tokens included.
        cache_dir: where token caches lie.

    The remaining arguments are those of `DataModule`; `augment` makes views 1, 2, … and is prepared already.

    Raises:
        InputError: as `DataModule`; no room for a token in `max_length`, or no padding token.
    """

    def __init__(
        self, corpus, tokenizer, *args, max_length: Annotated[int, ">= 3"], cache_dir: str | Path, **kwargs
    ) -> None:
        super().__init__(corpus, *args, **kwargs)
        self._learned = tokenizer if isinstance(tokenizer, LearnedTokenizer) else None
        if self._learned is None:
            check_tokenizer(tokenizer, max_length)
        self.tokenizer, self.max_length, self.cache = tokenizer, max_length, Path(cache_dir) / "tokens"

    def _open(self) -> None:
        if self._learned is not None:
            table, rows = self.corpus.table(self._table_of["train"]), self.indices["train"]
            texts = (part.column("text").to_pylist() for part in _parts(table, rows))
            self.tokenizer = self._learned.make(texts, self.labels["train"], self.num_classes)
            check_tokenizer(self.tokenizer, self.max_length)
        common = {
            "corpus": self.corpus.fingerprint,
            "tokenizer": tokenizer_fingerprint(self.tokenizer),
            "max_length": self.max_length,
        }
        # Whole tables, so that every seed and every imbalance shares one cache.
        tokens_of = {table: self._table_tokens(table, common) for table in sorted(set(self._table_of.values()))}
        self._views = {split: [tokens_of[table]] for split, table in self._table_of.items()}
        self._rows = {split: [rows] for split, rows in self.indices.items()}
        name = self.augment.name if self.augment is not None and self.num_views > 1 else "none"
        changed = 0
        for view in range(1, self.num_views):
            if self.augment is None or self.augment.same_text:
                tokens, rows = tokens_of["train"], self.indices["train"]
            else:
                tokens = self._augmented(view, common)
                rows = np.arange(len(tokens))
                changed += tokens.notes["changed"]
            self._views["train"].append(tokens)
            self._rows["train"].append(rows)
        share = changed / max(len(self.indices["train"]) * (self.num_views - 1), 1)
        self.augment_report = {"name": name, "share_changed": share, "views": self.num_views}

    def _table_tokens(self, table: str, common: dict) -> Tokens:
        return self._cached(lambda _: _texts(self.corpus.table(table)), table=table, **common)

    def _augmented(self, view: int, common: dict) -> Tokens:
        """Tokens of one augmented view of the thinned train rows."""
        seed = int(np.random.SeedSequence([self.seed, view, VIEW_STREAM]).generate_state(1)[0])
        table, rows = self.corpus.table("train"), self.indices["train"]

        def chunks(notes: dict) -> Iterator[list[str]]:
            notes["changed"] = 0
            for part in _parts(table, rows):
                texts = part.column("text").to_pylist()
                shipped = part.column("aug").to_pylist() if "aug" in part.column_names else None
                augmented = self.augment.augment(texts, seed, shipped)
                notes["changed"] += sum(new != old for new, old in zip(augmented, texts, strict=True))
                yield augmented

        return self._cached(chunks, table="train", rows=rows, augment=self.augment.fingerprint(), seed=seed, **common)

    def _cached(self, chunks, **key) -> Tokens:
        return cached_tokens(self.cache, key_of(**key), chunks, self.tokenizer, self.max_length)

    def token_rows(self, split: str) -> tuple[list[np.ndarray], torch.Tensor]:
        """Token ids of each text of a split, and labels ``(N,)`` or ``(N, C)``."""
        tokens, rows = self.views(split)[0]
        ids = [tokens.ids[tokens.offsets[row] : tokens.offsets[row + 1]] for row in rows]
        return ids, torch.from_numpy(self.labels[split])

    def token_and_feature_rows(self, split: str) -> tuple[tuple[list[np.ndarray], torch.Tensor], torch.Tensor]:
        """Token ids of each text of a split with its features ``(N, D)``, and labels; after `use_features`."""
        features, labels = self.feature_rows(split)
        return (self.token_rows(split)[0], features), labels

    def texts(self, split: str) -> list[str]:
        """Texts of a split, in the order of its positions."""
        return self.corpus.table(self._table_of[split]).column("text").take(self.indices[split]).to_pylist()

    def _batches(self, stores: Sequence[Tokens], rows: Sequence[np.ndarray], labels: np.ndarray) -> TokenBatches:
        return TokenBatches(stores, rows, labels, self.tokenizer.pad_token_id)

    def text_batch(self, split: str, positions: np.ndarray) -> Batch:
        """These rows of a split as one batch, the text itself alone, as tokens."""
        return self._alone(split)[positions]


def predict_loader(texts: list[str], tokenizer, max_length: int, sampler) -> DataLoader:
    """Batches of new texts, longest first; ``indices`` gives each row's place in ``texts``, ``labels`` are -1.

    Texts are tokenised in memory; give a long stream in pieces.
    """
    check_tokenizer(tokenizer, max_length)
    tokens = tokenize(texts, tokenizer, max_length)
    data = TokenBatches([tokens], [np.arange(len(tokens))], np.full(len(tokens), -1), tokenizer.pad_token_id)
    return loader(data, sampler.eval(data.lengths))


def check_tokenizer(tokenizer, max_length: int) -> None:
    """Raises InputError: no room for a token in `max_length`, or no padding token."""
    least = tokenizer.num_special_tokens_to_add() + 1
    if max_length < least:
        raise InputError(f"dataset.max_length: found {max_length}, allowed: >= {least}")
    if tokenizer.pad_token_id is None:
        raise InputError("encoder tokenizer: found no padding token, allowed: a tokenizer that has one")


def _texts(table: pa.Table) -> Iterator[list[str]]:
    for part in _parts(table, np.arange(len(table))):
        yield part.column("text").to_pylist()


def _parts(table: pa.Table, rows: np.ndarray) -> Iterable[pa.Table]:
    """The chosen rows (sorted) in bounded pieces, so that a large table is never in memory as a whole."""
    for start in range(0, len(table), CHUNK):
        first, last = np.searchsorted(rows, [start, start + CHUNK])
        if first < last:
            yield table.slice(start, CHUNK).take(pa.array(rows[first:last] - start))
