"""What `retrieval=knn` is: which index, and which votes are tried on validation rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from retrieval.datastore import Datastore
from retrieval.search import Index, Kind
from retrieval.vote import best_vote, interpolate, neighbour_weights, vote

EXACT_ROWS = 20_000  # up to here `auto` compares with all
PIECE = 4096  # rows whose neighbours' labels are in memory at once

Metric = Literal["accuracy", "macro_f1", "micro_f1"]

TENTHS = tuple(share / 10 for share in range(11))


class NearestNeighbours:
    """The options of `retrieval=knn`. Source: Su, Wang and Dai (ACL 2022); there k = 5 or 10, tau = 1, lam = 0.5.

    Args:
        name: in tables.
        index: `flat`, `ivf`, `hnsw`, `pq`, see `Index`; `auto` is flat up to 20,000 rows and ivf beyond.
        probes: lists that ivf and pq look into, see `Index`; null lets ivf choose.
        num_neighbours: k to try, each >= 1.
        temperature: tau to try, each > 0, in units of distance.
        lam: shares of the neighbours in the final scores to try, each in [0, 1].
        metric: the figure on validation rows that decides; null is that of `protocol.monitor`, macro-F1 where that is
            a loss.

    Raises:
        ValueError: a list that is empty, or a value out of its range.
    """

    kinds = ("text",)  # of data: voters are shown

    def __init__(
        self,
        name: str = "knn",
        index: Kind | Literal["auto"] = "auto",
        probes: Annotated[Annotated[int, ">= 1"] | None, "with index=auto|ivf|pq"] = None,
        num_neighbours: Sequence[int] = (1, 5, 10, 20, 50),
        temperature: Sequence[float] = (0.1, 0.3, 1.0, 3.0, 10.0),
        lam: Sequence[float] = TENTHS,
        metric: Metric | None = None,
    ) -> None:
        self.name, self.index, self.probes, self.metric = name, index, probes, metric
        self.ks = _list("num_neighbours", num_neighbours, "whole numbers >= 1", lambda k: k == int(k) and k >= 1)
        self.taus = _list("temperature", temperature, "numbers > 0", lambda tau: tau > 0)
        self.lams = _list("lam", lam, "numbers from 0 to 1", lambda value: 0 <= value <= 1)

    @property
    def num_votes(self) -> int:
        """How many votes `choose` tries."""
        return len(self.ks) * len(self.taus) * len(self.lams)

    def open_index(self, store: Datastore, seed: int = 0) -> Index:
        """The index over a datastore: built once over its first rows and kept beside them, the later ones added."""
        first, *others = store.vectors()
        default: Kind = "flat" if len(first) <= EXACT_ROWS else "ivf"
        kind = default if self.index == "auto" else self.index
        name = f"index-{kind}-{self.probes}-{seed}.faiss"
        file = store.stored_file(name) if kind != "flat" else None
        index = Index(first, kind, self.probes, seed, file)
        if kind != "flat" and file is None:
            store.keep(name, index.save)
        for vectors in others:
            index.add(vectors)
        return index

    def choose(
        self,
        distances: NDArray[np.float32],
        labels: NDArray[np.float32],
        model_scores: NDArray[np.floating],
        score: Callable[[NDArray[np.floating]], float],
    ) -> Vote:
        """The best vote on validation rows, see `best_vote`."""
        best = best_vote(distances, labels, model_scores, score, self.ks, self.taus, self.lams)
        return Vote(int(best["k"]), best["tau"], best["lam"])


class Vote:
    """A chosen vote: how many neighbours, their temperature tau > 0, and their share lam in the final scores."""

    def __init__(self, num_neighbours: int, temperature: float, lam: float) -> None:
        if not (num_neighbours >= 1 and temperature > 0 and 0 <= lam <= 1):
            raise ValueError(f"a vote of {num_neighbours} neighbours, temperature {temperature} and share {lam}")
        self.num_neighbours, self.temperature, self.lam = num_neighbours, temperature, lam

    def scores(
        self, store: Datastore, distances: NDArray[np.float32], positions: NDArray[np.int64]
    ) -> NDArray[np.floating]:
        """Label scores of the neighbours (N, C) from what was found, (N, K), with K at least `num_neighbours`."""
        distances, positions = distances[:, : self.num_neighbours], positions[:, : self.num_neighbours]
        pieces = (slice(start, start + PIECE) for start in range(0, len(distances), PIECE))
        votes = [vote(distances[piece], store.labels(positions[piece]), self.temperature) for piece in pieces]
        return np.concatenate(votes)

    def mixed(self, neighbour_scores: NDArray[np.floating], model_scores: NDArray[np.floating]) -> NDArray[np.floating]:
        """Final scores (N, C)."""
        return interpolate(neighbour_scores, model_scores, self.lam)

    def weights(self, distances: NDArray[np.float32]) -> NDArray[np.floating]:
        """What each neighbour weighs in the vote, (N, k)."""
        return neighbour_weights(distances[:, : self.num_neighbours], self.temperature)


def _list(key: str, values: Sequence[float], allowed: str, holds: Callable[[float], bool]) -> list:
    values = list(values) if isinstance(values, Sequence) and not isinstance(values, str) else [values]
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if not values or len(numbers) < len(values) or not all(holds(value) for value in numbers):
        raise ValueError(f"retrieval.{key}: found {values}; allowed: a list of {allowed}")
    return values
