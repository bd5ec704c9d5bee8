"""Encoders that read words: their vocabulary comes from the train rows, their vectors from scratch or from a file."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

PAD, UNKNOWN = "[PAD]", "[UNK]"
TOKENIZER, GRAPH = "tokenizer.json", "label_graph.npy"
HEADER = re.compile(r"\d+ (\d+)", re.ASCII)  # of word2vec's text format: how many words, how many numbers a word
LONGEST = 1 << 16  # tokens; nothing here counts positions


class WordEncoder:
    """What an encoder of words is made from; a subclass builds the network.

    Words are lower-cased and split at spaces and punctuation. `learn` is given the train rows of a run, after the split
    and after thinning, and nothing else; `save` keeps in the run's folder what was learned.

    Args:
        name: in tables.
        path: file of word vectors, a word and `dimension` numbers a line (GloVe; word2vec's text format with its first
            line of two numbers too); words that are not in it, and all where it is null, start at random.
        dimension: of the word vectors.
        vocabulary_size: the most frequent words that are kept.
        min_count: how often a word must occur in train.
        train: all of it.
    """

    kinds = ("text",)
    pooling = "max"

    def __init__(
        self,
        name: str,
        path: str | None = None,
        dimension: Annotated[int, ">= 1"] = 300,
        vocabulary_size: Annotated[int, ">= 3"] = 50_000,
        min_count: Annotated[int, ">= 1"] = 1,
        train: Literal["full"] = "full",
    ) -> None:
        self.name, self.path, self.dimension = name, path, dimension
        self.vocabulary_size, self.min_count = vocabulary_size, min_count
        self._tokenizer: Any = None
        self.label_graph: NDArray[np.float32] | None = None

    def network(self, vectors: Tensor) -> nn.Module:
        """The network over word vectors (V, dimension)."""
        raise NotImplementedError

    def learn(self, texts: Iterable[list[str]], labels: NDArray[np.integer], num_classes: int) -> Any:
        """Vocabulary and label graph from the train rows; returns the tokenizer.

        Args:
            texts: in pieces.
            labels: (N,) class indices, or (N, C) of 0 and 1.
            num_classes: C.
        """
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

        tokenizer = Tokenizer(models.WordLevel(unk_token=UNKNOWN))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordLevelTrainer(
            vocab_size=self.vocabulary_size,
            min_frequency=self.min_count,
            special_tokens=[PAD, UNKNOWN],
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        self.label_graph = label_graph(labels, num_classes)
        return self._use(tokenizer)

    def save(self, folder: Path) -> None:
        """Keep what was learned."""
        assert self.label_graph is not None  # `learn` came first, as with the tokenizer
        folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer().backend_tokenizer.save(str(folder / TOKENIZER))
        np.save(folder / GRAPH, self.label_graph)

    def restore(self, folder: Path) -> None:
        """Take what `save` kept. Raises ValueError: it is not there or cannot be read."""
        from tokenizers import Tokenizer

        try:
            self._use(Tokenizer.from_file(str(folder / TOKENIZER)))
            self.label_graph = np.load(folder / GRAPH)
        except Exception as error:  # the library raises a bare one
            reason = str(error).splitlines()[0]
            raise ValueError(f"{folder}: the vocabulary of encoder={self.name} cannot be read ({reason})") from error

    def _use(self, tokenizer: Any) -> Any:
        from transformers import PreTrainedTokenizerFast

        self._tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, unk_token=UNKNOWN)
        return self._tokenizer

    def tokenizer(self) -> Any:
        """The tokenizer of the learned vocabulary. Raises ValueError before `learn` or `restore`."""
        if self._tokenizer is None:
            raise ValueError(f"encoder={self.name}: it has no vocabulary before the train rows of a run are read")
        return self._tokenizer

    def max_length(self) -> int:
        """Longest input in tokens."""
        return LONGEST

    def weights_hash(self) -> str:
        """sha256 of the file of word vectors, and of nothing where there is none: all else is trained."""
        return hashlib.sha256(self._file().read_bytes() if self.path else b"").hexdigest()

    def load(self, seed: int = 0) -> nn.Module:
        """The network, in training mode, drawn from `seed`; words with a vector in the file start there.

        Raises:
            ValueError: no such file, or one with lines that are not a word and `dimension` numbers.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            vectors = torch.empty(len(self.tokenizer()), self.dimension).uniform_(-0.25, 0.25)
            vectors[self.tokenizer().pad_token_id] = 0
            if self.path:
                vocabulary = self.tokenizer().get_vocab()
                for word, values in self._vectors():
                    if word in vocabulary:
                        vectors[vocabulary[word]] = torch.tensor(values)
            return self.network(vectors).train()

    def _file(self) -> Path:
        if self.path is None or not Path(os.path.expanduser(self.path)).is_file():
            raise ValueError(f"encoder.path: no file {self.path!r}; allowed: a file of word vectors")
        return Path(os.path.expanduser(self.path))

    def _vectors(self) -> Iterator[tuple[str, list[float]]]:
        with self._file().open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    text = line.decode().rstrip()
                except UnicodeDecodeError:
                    raise self._line_error(number, "not UTF-8") from None
                if number == 1 and (width := _width(text)) != self.dimension:
                    raise self._line_error(number, f"found {width} numbers")
                if number == 1 and HEADER.fullmatch(text):
                    continue
                word, *values = text.rsplit(" ", self.dimension)  # from the right: GloVe has words with spaces
                try:
                    vector = [float(value) for value in values]
                except ValueError:
                    vector = []
                if len(vector) < self.dimension:
                    raise self._line_error(number, f"found {_width(text)} numbers")
                yield word, vector

    def _line_error(self, number: int, problem: str) -> ValueError:
        allowed = f"a word and encoder.dimension={self.dimension} numbers, in UTF-8"
        return ValueError(f"{self.path}:{number}: {problem}; allowed: {allowed}")


def _width(line: str) -> int:
    """How many numbers stand behind a word, or will by word2vec's first line."""
    if header := HEADER.fullmatch(line):
        return int(header[1])
    return sum(1 for _ in itertools.takewhile(_is_number, reversed(line.split(" ")[1:])))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def label_graph(labels: NDArray[np.integer], num_classes: int) -> NDArray[np.float32]:
    """How labels occur together: P(j | i), rows i (C, C), 1 on the diagonal; without a row only that.

    Args:
        labels: (N,) class indices, -1 for none, or (N, C) of 0 and 1.
    """
    if labels.ndim == 1:  # one label a text: none occurs with another
        return np.eye(num_classes, dtype=np.float32)
    together = labels.T.astype(np.float64) @ labels
    graph = together / np.maximum(np.diag(together), 1)[:, None]
    np.fill_diagonal(graph, 1)
    return graph.astype(np.float32)


def with_a_token(input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same rows, those without a token with one of padding: ids (B, L), L >= 1, and mask (B, L) as booleans."""
    if not input_ids.shape[1]:
        input_ids, attention_mask = input_ids.new_zeros(len(input_ids), 1), attention_mask.new_zeros(len(input_ids), 1)
    mask = attention_mask > 0
    mask[:, 0] = True
    return input_ids, mask
