"""The estimated number of clusters on made-up mixtures whose number is known.

    python -m benchmarks.num_clusters

Rows (N, 384) of length 1 around centres that lie in few directions, as those of an encoder do: the variance of the
d-th direction falls with 1 / d, and a cluster has a spread of its own. `mass`: the share of the r-th cluster is
proportional to r^-mass. The rule of `clustering.number` was fixed on these and on the sets searchsnippets and tweet.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from clustering.kmeans import unit_rows
from clustering.number import estimate_num_clusters

DIMENSION = 384
MIXTURES = (  # clusters, rows, distance of the centres, mass, seed
    (4, 3000, 0.7, 0.0, 4),
    (10, 3000, 1.0, 0.0, 1),
    (20, 6000, 0.8, 0.3, 5),
    (50, 3000, 1.0, 0.0, 2),
    (100, 3000, 1.0, 0.7, 3),
)


def mixture(num_clusters: int, size: int, apart: float, mass: float, seed: int) -> NDArray[np.float32]:
    """Rows (N, 384) of a mixture."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((DIMENSION, DIMENSION)))[0]
    scale = np.arange(1, DIMENSION + 1) ** -0.5
    scale /= np.sqrt((scale**2).sum())
    centres = rng.standard_normal((num_clusters, DIMENSION)) * scale @ basis
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    shares = np.arange(1, num_clusters + 1) ** -mass
    clusters = rng.choice(num_clusters, size, p=shares / shares.sum())
    spread = np.exp(rng.normal(0, 0.25, num_clusters))[clusters, None]
    noise = rng.standard_normal((size, DIMENSION)) * scale @ basis.T * spread
    return unit_rows((centres[clusters] * apart + noise).astype(np.float32))  # type: ignore[return-value]


def main() -> None:
    rows = []
    for case in MIXTURES:
        vectors, started = mixture(*case), time.perf_counter()
        number = estimate_num_clusters(vectors, np.random.default_rng(0)).number
        rows.append((*case[:4], number, time.perf_counter() - started))
    header = ("clusters", "rows", "apart", "mass", "estimated", "seconds")
    print(tabulate(rows, header, floatfmt=("", "", ".1f", ".1f", "", ".0f"), tablefmt="github"))


if __name__ == "__main__":
    main()
