"""Size, time and recall of the kinds of index: `python -m benchmarks.retrieval --rows 55000 --kinds flat ivf`.

Vectors are drawn around centres, as embeddings of texts lie; what a data set's own give may differ. One thread.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import get_args

import numpy as np
import torch

from benchmarks._measure import extra_peak_mib
from retrieval import Index, recall
from retrieval.search import Kind

DIMENSION, QUERIES, NEIGHBOURS, REPEATS = 384, 256, 10, 5


def drawn(rows: int, rng: np.random.Generator) -> np.ndarray:
    """Vectors (rows, 384) float32 around one centre for every 100."""
    centres = rng.standard_normal((max(rows // 100, 1), DIMENSION), dtype=np.float32)
    vectors = rng.standard_normal((rows, DIMENSION), dtype=np.float32)
    vectors += centres[rng.integers(len(centres), size=rows)]
    return vectors


def measure(kind: Kind, vectors: np.ndarray, queries: np.ndarray, probes: int) -> str:
    """One line of the table."""
    made: list[Index] = []
    start = time.perf_counter()
    memory = extra_peak_mib(lambda: made.append(Index(vectors, kind, probes)))
    seconds = time.perf_counter() - start
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        made[0].search(queries, NEIGHBOURS)
        times.append(1000 * (time.perf_counter() - start) / len(queries))
    found = recall(made[0], [vectors], queries, NEIGHBOURS)
    spread = f"{statistics.median(times):.3f} ({min(times):.3f} to {max(times):.3f})"
    return f"| {kind} | {len(vectors):,} | {seconds:.1f} | {memory:.0f} | {spread} | {found:.3f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=55_000)
    parser.add_argument("--kinds", nargs="+", choices=get_args(Kind), default=list(get_args(Kind)))
    parser.add_argument("--probes", type=int, default=32)
    options = parser.parse_args()
    torch.set_num_threads(1)
    vectors = drawn(options.rows + QUERIES, np.random.default_rng(0))
    vectors, queries = vectors[:-QUERIES], vectors[-QUERIES:]
    print("| index | rows | build s | build peak MiB | ms a text: median (min to max) | recall@10 |")
    print("|---|---:|---:|---:|---:|---:|")
    for kind in options.kinds:
        print(measure(kind, vectors, queries, options.probes), flush=True)


if __name__ == "__main__":
    main()
