"""The estimated number of clusters beside the known one: on made-up mixtures, or on data sets with labels.

    python -m benchmarks.num_clusters [--sets tweet searchsnippets …] [--draw 0]

Of a data set at most 6,000 texts are drawn and encoded: more `auto` does not look at. `--draw` is the seed of the
halves.

Rows (N, 384) of length 1 around centres that lie in few directions, as those of an encoder do: the variance of the
d-th direction falls with 1 / d, and a cluster has a spread of its own. `mass`: the share of the r-th cluster is
proportional to r^-mass. The rule of `clustering.number` was fixed on these and on the sets searchsnippets and tweet.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from clustering.kmeans import unit_rows
from clustering.number import estimate_num_clusters
from engine.assign import Embeddings
from engine.identify import compose_config
from engine.plan import Plan

DIMENSION, SAMPLE = 384, 6000
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
    return unit_rows((centres[clusters] * apart + noise).astype(np.float32))


def sample_of(name: str) -> tuple[int, NDArray[np.float32]]:
    """How many labels a set has, and embeddings (n, 384) of length 1 of a sample, by MiniLM as it comes."""
    plan = Plan.make(compose_config(["task=cluster", "method=sbert_kmeans", f"dataset={name}"]))
    corpus = plan.corpus(whole=True)
    texts = corpus.table("train")["text"].to_pylist()
    rows = np.random.default_rng(0).permutation(len(texts))[:SAMPLE]
    vectors = Embeddings(plan)([plan.dataset.cleaned(texts[row]) for row in rows])
    return len(corpus.label_names), unit_rows(vectors)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.num_clusters", description=__doc__)
    parser.add_argument("--sets", nargs="+", default=())
    parser.add_argument("--draw", type=int, default=0)
    options = parser.parse_args(arguments)
    sets = options.sets
    made_up = ((case[1:4], case[0], mixture(*case)) for case in MIXTURES)
    cases = ((name, *sample_of(name)) for name in sets) if sets else made_up
    rows = []
    for name, known, vectors in cases:
        started = time.perf_counter()
        number = estimate_num_clusters(vectors, np.random.default_rng(options.draw)).number
        rows.append((name, known, number, time.perf_counter() - started))
    header = ("data set", "labels") if sets else ("rows, apart, mass", "clusters")
    print(tabulate(rows, (*header, "estimated", "seconds"), floatfmt=".0f", tablefmt="github"))


if __name__ == "__main__":
    main(sys.argv[1:])
