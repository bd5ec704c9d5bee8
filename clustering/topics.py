"""What each cluster is about: its size, its most central texts and the words that set it apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

TOKEN = r"(?u)[^\W\d_][\w+#-]+"  # "c#" and "c++" are words, numbers are not


@dataclass(frozen=True)
class Topic:
    """One cluster: number, texts in it, its most central texts (rows), its words; both best first."""

    cluster: int
    size: int
    central: tuple[int, ...]
    words: tuple[str, ...]


def topics(
    texts: Sequence[str], distances: ArrayLike, clusters: ArrayLike, num_texts: int = 3, num_words: int = 8
) -> list[Topic]:
    """Every cluster that has texts, the largest first.

    Args:
        texts: (N,).
        distances: (N,) of each text to the centre of its cluster.
        clusters: (N,) cluster of each text.
        num_texts, num_words: how many of each.
    """
    clusters = np.asarray(clusters)
    words = top_words(texts, clusters, num_words)
    central = central_texts(texts, np.asarray(distances), clusters, num_texts)
    sizes = np.bincount(clusters)
    order = sorted(map(int, np.flatnonzero(sizes)), key=lambda cluster: -sizes[cluster])
    return [Topic(cluster, int(sizes[cluster]), central[cluster], words[cluster]) for cluster in order]


def central_texts(
    texts: Sequence[str], distances: NDArray, clusters: NDArray, number: int
) -> dict[int, tuple[int, ...]]:
    """Rows of the texts nearest to the centre of their cluster, nearest first; of equal texts the first is named."""
    rows_of = np.split(np.argsort(clusters, kind="stable"), np.cumsum(np.bincount(clusters))[:-1])
    central = {}
    for cluster, rows in enumerate(rows_of):
        if not len(rows):
            continue
        first: dict[str, int] = {}
        for row in rows[np.argsort(distances[rows], kind="stable")]:
            first.setdefault(texts[row], int(row))
            if len(first) == number:
                break
        central[cluster] = tuple(first.values())
    return central


def top_words(texts: Sequence[str], clusters: NDArray, number: int) -> dict[int, tuple[str, ...]]:
    """The words of each cluster with the largest class-based TF-IDF (Grootendorst, 2022, eq. 2), stop words left out.

    A word's frequency in the cluster times log(1 + A / f): A the mean number of words in a cluster, f the word's
    frequency over all. Equal weights go by the alphabet.
    """
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import CountVectorizer

    try:
        counter = CountVectorizer(token_pattern=TOKEN, stop_words="english")
        counts = counter.fit_transform(texts)
    except ValueError:  # no word is left
        return {int(cluster): () for cluster in np.unique(clusters)}
    vocabulary = counter.get_feature_names_out()
    number_of_texts = len(clusters)
    members = csr_matrix((np.ones(number_of_texts), (clusters, np.arange(number_of_texts))))
    in_cluster = (members @ counts).tocsr()
    occupied = len(np.unique(clusters))
    rarity = np.log1p(in_cluster.sum() / occupied / np.asarray(in_cluster.sum(axis=0)).ravel())
    words = {}
    for cluster in np.unique(clusters):
        row = in_cluster[[cluster]]
        weights = row.data * rarity[row.indices]
        best = np.lexsort((vocabulary[row.indices], -weights))[:number]
        words[int(cluster)] = tuple(vocabulary[row.indices[best]])
    return words
