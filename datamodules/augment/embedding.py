"""`augment=embedding`: words replaced by their nearest words in the encoder's own vocabulary.

Near is the cosine of the rows of the encoder's input embedding matrix. It needs nothing but the encoder, so it is the
default. Readings taken: words are vocabulary entries that are whole words of letters (at least three, no function
word); regular inflections and case variants of the word itself do not count as neighbours, since they would hardly
change the text. Words that the vocabulary does not hold whole stay as they are.
"""

import hashlib
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple

import numpy as np

from datamodules.augment.base import STOP_WORDS, Augmentation, Fetch, cached, replace_words
from storage.errors import InputError

WORD_START = ("Ġ", "▁")  # how byte-level and sentencepiece vocabularies mark the first piece of a word
MAX_NEIGHBORS = 20
INFLECTION = re.compile(r"(ies|ied|ie|es|ed|ing|s|e|y)$")


class Table(NamedTuple):
    """Words (n,), and for each its neighbours' positions and cosines (n, k), nearest first; cosine -1: left out."""

    words: np.ndarray
    neighbors: np.ndarray
    cosines: np.ndarray


def vocabulary_words(tokenizer: Any) -> dict[str, int]:
    """Whole words of a WordPiece, BPE or Unigram vocabulary -> token id, in the order of the ids.

    Raises:
        InputError: the vocabulary marks no whole words.
    """
    backend = tokenizer.backend_tokenizer
    model = json.loads(backend.to_str())["model"]
    tokens = sorted(backend.get_vocab(with_added_tokens=False).items(), key=lambda item: item[1])
    if model["type"] == "WordPiece":
        inside = model["continuing_subword_prefix"]
        pairs = [(token, number) for token, number in tokens if not token.startswith(inside)]
    else:
        word_tokens = [(token, number) for token, number in tokens if token.startswith(WORD_START)]
        pairs = [(backend.decoder.decode([token]).strip(), number) for token, number in word_tokens]
    words = {word: number for word, number in pairs if len(word) > 2 and word.isalpha()}
    words = {word: number for word, number in words.items() if word.lower() not in STOP_WORDS}
    if len(words) < 2:
        raise InputError(
            f"augment=embedding: found a {model['type']} vocabulary with {len(words)} whole words, allowed: "
            "a tokenizer with at least 2, else augment=wordnet, eda or dropout"
        )
    return words


def stem(word: str) -> str:
    """``word`` without case and regular inflection; a key to compare, not a word."""
    bare = INFLECTION.sub("", word.casefold())
    return bare[:-1] if len(bare) > 2 and bare[-1] == bare[-2] else bare


def nearest(words: list[str], vectors: np.ndarray, block: int = 1024) -> Table:
    """Table of the nearest words by cosine, computed in blocks of rows; ``vectors`` (n, d) float32."""
    import torch
    from torch.nn.functional import normalize

    unit = normalize(torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32)), dim=1)
    number = min(MAX_NEIGHBORS + 8, len(words))  # the word itself and its variants take some places
    blocks = [(rows @ unit.T).topk(number, dim=1) for rows in unit.split(block)]
    cosines = torch.cat([values for values, _ in blocks]).numpy()
    neighbors = torch.cat([places for _, places in blocks]).numpy().astype(np.int32)
    _, stems = np.unique([stem(word) for word in words], return_inverse=True)
    cosines[stems[neighbors] == stems[:, None]] = -1
    return Table(np.array(words), neighbors, cosines)


def _load(path: Path) -> Table:
    with np.load(path, allow_pickle=False) as arrays:
        return Table(*(arrays[field] for field in Table._fields))


def _save(table: Table, file: BinaryIO) -> None:
    np.savez(file, **table._asdict())


@dataclass
class Embedding(Augmentation):
    """Nearest-word replacement.

    Args:
        rate: share of the words with neighbours that are replaced, in [0, 1]; at least one word is, unless it is 0.
        top_k: how many neighbours a replacement is drawn from, with equal chance.
        threshold: least cosine of a neighbour, in [-1, 1].
    """

    rate: Annotated[float, ">= 0", "<= 1"] = 0.3
    top_k: Annotated[int, ">= 1", "<= 20"] = 10
    threshold: Annotated[float, "> -1", "<= 1"] = 0.4

    name = "embedding"

    def prepare(
        self, tokenizer: Any, token_embeddings: Callable[[], np.ndarray], fetch: Fetch, cache: Path | None = None
    ) -> None:
        words = vocabulary_words(tokenizer)
        vectors = np.asarray(token_embeddings())[list(words.values())]
        digest = hashlib.sha256("\n".join(words).encode())
        digest.update(np.ascontiguousarray(vectors).data)
        self._content = digest.hexdigest()[:16]
        path = cache and Path(cache) / "neighbors" / f"{self._content}.npz"
        self._table = cached(path, _load, lambda: nearest(list(words), vectors), _save)
        self._places = {word: place for place, word in enumerate(words)}
        self._neighbours: dict[str, tuple[str, ...]] = {}

    def content(self) -> str:
        return self._content

    def neighbors(self, word: str) -> tuple[str, ...]:
        """Words that may replace ``word``, nearest first."""
        if word not in self._neighbours:
            place = self._places.get(word.lower(), self._places.get(word))
            self._neighbours[word] = () if place is None else self._near(place)
        return self._neighbours[word]

    def _near(self, place: int) -> tuple[str, ...]:
        close = self._table.neighbors[place][self._table.cosines[place] >= self.threshold]
        return tuple(self._table.words[close[: self.top_k]].tolist())

    def change(self, text: str, rng: random.Random) -> str:
        return replace_words(text, self.rate, self.neighbors, rng)
