"""Texts as sparse word vectors, kept as arrays so that new texts get the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

WORD = r"(?u)\b\w{2,100}\b"


class WordVectors:
    """Word counts (`bow`), or TF-IDF rows of unit length (`tfidf`), in the vocabulary of the texts it was made from.

    Lower case; words of two to a hundred letters or digits: what is longer is no word, and an array of words is as wide
    as its longest. `fit` makes one of texts; one that was kept is made of its `arrays`.
    """

    def __init__(self, kind: Literal["bow", "tfidf"], words: NDArray[np.str_], rarity: NDArray[np.float64]) -> None:
        self.kind, self.words, self.rarity = kind, words, rarity

    @classmethod
    def fit(cls, kind: Literal["bow", "tfidf"], texts: Sequence[str], max_words: int | None = None) -> WordVectors:
        """The vocabulary of these texts: their `max_words` most frequent words, or all.

        Raises:
            ValueError: no text holds a word.
        """
        vectorizer = _vectorizer(kind, max_features=max_words)
        try:
            vectorizer.fit(texts)
        except ValueError as error:
            raise ValueError("dataset: found no word of two letters in any text, allowed: texts with words") from error
        words = np.array(vectorizer.get_feature_names_out(), dtype=np.str_)
        return cls(kind, words, vectorizer.idf_ if kind == "tfidf" else np.ones(len(words)))

    def __call__(self, texts: Sequence[str]) -> csr_matrix:
        """Vectors (N, V) float32; of a text without known words zeros."""
        vectorizer = _vectorizer(self.kind, vocabulary=self.words)
        if self.kind == "tfidf":
            vectorizer.idf_ = self.rarity
        return vectorizer.transform(texts).astype(np.float32)

    def arrays(self) -> dict[str, Any]:
        return {"words": self.words, "rarity": self.rarity}


def _vectorizer(kind: Literal["bow", "tfidf"], **options: Any) -> Any:
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

    return (TfidfVectorizer if kind == "tfidf" else CountVectorizer)(token_pattern=WORD, **options)
