"""Where the clusters of a run lie: centres, distances and a map, kept beside the run for its page and for new texts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from clustering.kmeans import Vectors
from clustering.landscape import fences, groups_at, map_points, merges
from storage.files import replacing
from storage.run_store import RunFolder

FILE = "clusters/space.npz"
MOST_POINTS = 3_000  # texts on the map


@dataclass(frozen=True)
class Space:
    """What `clusters/space.npz` holds; centres and distances are those of the vectors that were clustered.

    Attributes:
        clusters: (C,), numbers of the clusters that hold texts, outliers left out, the largest first.
        centres: (C, D), their means.
        fences: (C,), distance above which a text lies far out in its cluster.
        distances: (N,), of every text to the centre of its cluster, of an outlier to the nearest one; infinite for a
            text without a known word.
        rows, points: the texts on the map, (n,) ascending, and where they lie, (n, 2).
        new_clusters, new_distances: (N,), clusters and distances that the texts would have as new ones; None where
            new ones get theirs by the same rule.
    """

    clusters: NDArray[np.int64]
    centres: NDArray[np.float32]
    fences: NDArray[np.float32]
    distances: NDArray[np.float32]
    rows: NDArray[np.int64]
    points: NDArray[np.float32]
    new_clusters: NDArray[np.int64] | None = None
    new_distances: NDArray[np.float32] | None = None

    @classmethod
    def measured(
        cls,
        vectors: Vectors,
        assignments: NDArray[np.int64],
        centres: NDArray[np.float32],
        distances: NDArray[np.float32],
        seed: int,
        as_new: tuple[NDArray[np.int64], NDArray[np.float32]] | None,
    ) -> Space:
        """Of a clustering just done: `assignments` of K or more are outliers, `centres` (K, D), `as_new` the texts'
        clusters and distances as new ones, where these have another rule."""
        number, count = len(assignments), len(centres)
        sizes = np.bincount(assignments, minlength=count)[:count]
        clusters = np.argsort(-sizes, kind="stable")[: int((sizes > 0).sum())]
        rng = np.random.default_rng(seed)
        rows = np.sort(rng.choice(number, min(number, MOST_POINTS), replace=False))
        limits = fences(distances, assignments, int(max(assignments.max() + 1, count)))[clusters]
        points = map_points(vectors[rows], seed)
        return cls(clusters, centres[clusters], limits, distances, rows, points, *(as_new or ()))

    def save(self, run: RunFolder) -> None:
        with replacing(run.path / FILE) as file:
            np.savez_compressed(file, **{name: value for name, value in asdict(self).items() if value is not None})

    @classmethod
    def load(cls, run: RunFolder) -> Space:
        """That of a finished run. Raises ValueError: the run is of an earlier version, or its file is damaged."""
        if not run.has(FILE):
            raise ValueError(f"run={run.id}: has no {FILE}, an earlier version did it; allowed: force=true repeats it")
        try:
            return cls(**np.load(run.path / FILE))  # arrays alone: nothing is unpickled
        except Exception as error:
            raise ValueError(f"run={run.id}: {FILE} is damaged; allowed: force=true repeats the run") from error

    @cached_property
    def steps(self) -> NDArray[np.int64]:
        """How the clusters merge, (C - 1, 2), by their places in `clusters`."""
        return merges(self.centres)

    def place(self, assignments: NDArray[np.int64]) -> NDArray[np.int64]:
        """Place in `clusters` of each text's cluster, C for an outlier: (N,)."""
        places = np.full(int(max(assignments.max(), self.clusters.max())) + 1, len(self.clusters))
        places[self.clusters] = np.arange(len(self.clusters))
        return places[assignments]

    def at_level(self, assignments: NDArray[np.int64], level: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """When so many are left, the place of each text's group, of an outlier `level`, (N,), and the groups, (level,).

        Raises:
            ValueError: as `groups_at` does.
        """
        places, groups = groups_at(self.steps, level)
        return np.append(places, level)[self.place(assignments)], groups

    def far_out(self, assignments: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which texts lie beyond the fence of their cluster, or in none: (N,)."""
        return self.distances > np.append(self.fences, -1)[self.place(assignments)]
