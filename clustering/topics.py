"""What each cluster is about: its size, its most central texts, the words that set it apart, and a name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

WORDS = 8  # of each cluster
IN_NAME = 3  # words in a name
TOKEN = r"(?u)[^\W\d_][\w+#-]+"  # "c#" and "c++" are words, numbers are not


@dataclass(frozen=True)
class Topic:
    """One cluster: number, texts in it, its most central texts (rows), its words; both best first."""

    cluster: int
    size: int
    central: tuple[int, ...]
    words: tuple[str, ...]


def topics(
    texts: Sequence[str], distances: ArrayLike, clusters: ArrayLike, num_texts: int = 3, num_words: int = WORDS
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
    occupied = np.unique(clusters)
    if (counted := _counted(texts, clusters)) is None:
        return {int(cluster): () for cluster in occupied}
    vocabulary, counts = counted
    rarity = _rarity(counts, len(occupied))
    return {int(cluster): _best_words(counts[[cluster]], rarity, vocabulary, number) for cluster in occupied}


def merged_words(
    texts: Sequence[str], clusters: NDArray, steps: NDArray[np.int64], number: int = WORDS
) -> list[tuple[str, ...]]:
    """The words of the group that each step of a tree makes, as `top_words` has them when its texts are one cluster.

    A is that of the level at which the group is made; finer and coarser levels weigh rare words a little otherwise.

    Args:
        texts: (N,).
        clusters: (N,), 0 to K - 1, all of which have texts, and any number above for texts that no step merges.
        steps: (K - 1, 2), see `landscape.merges`.
        number: how many words.
    """
    if not len(steps) or (counted := _counted(texts, clusters)) is None:
        return [()] * len(steps)
    vocabulary, counts = counted
    groups, occupied, words = [counts[[cluster]] for cluster in range(len(steps) + 1)], len(np.unique(clusters)), []
    for step, (first, second) in enumerate(steps.tolist(), 1):
        groups.append(groups[first] + groups[second])
        words.append(_best_words(groups[-1], _rarity(counts, occupied - step), vocabulary, number))
    return words


def name_of(words: Sequence[str], cluster: int) -> str:
    """What a cluster is called that nobody names: its first words, where it has any."""
    return ", ".join(words[:IN_NAME]) or f"cluster {cluster}"


def _counted(texts: Sequence[str], clusters: NDArray) -> tuple[NDArray, Any] | None:
    """The words (V,), and how often each cluster has each, sparse (K, V); None where no word is left."""
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import CountVectorizer

    try:
        counter = CountVectorizer(token_pattern=TOKEN, stop_words="english")
        counts = counter.fit_transform(texts)
    except ValueError:
        return None
    members = csr_matrix((np.ones(len(clusters)), (clusters, np.arange(len(clusters)))))
    return counter.get_feature_names_out(), (members @ counts).tocsr()


def _rarity(counts: Any, number: int) -> NDArray:
    """log(1 + A / f) of each word, (V,), where the texts are in so many clusters."""
    return np.log1p(counts.sum() / number / np.asarray(counts.sum(axis=0)).ravel())


def _best_words(row: Any, rarity: NDArray, vocabulary: NDArray, number: int) -> tuple[str, ...]:
    weights = row.data * rarity[row.indices]
    best = np.lexsort((vocabulary[row.indices], -weights))[:number]
    return tuple(vocabulary[row.indices[best]])
