"""Nearest neighbours: size, time and recall of the kinds of index, and what search adds to the time of the encoder.

    python -m benchmarks.retrieval --rows 55000
    python -m benchmarks.retrieval --rows 1000000 --kinds ivf
    python -m benchmarks.retrieval --rows 55000 --kinds flat ivf --tokens 32 128 256

Vectors are drawn, not embedded: around one centre for every 100, at half the distance of centres from the middle,
both with variances that fall along the principal components as j^-1.1, as those of MiniLM's embeddings of Ohsumed's
titles do. What a data set's own give may differ: the nearer the rows of different centres (`--noise 1`), the more lists
hold the neighbours of one row. They lie in a file that is memory-mapped, as a datastore's do. One thread.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf

from benchmarks._measure import ROOT, extra_peak_mib, paired_milliseconds, spread
from retrieval import Index, recall
from retrieval.search import BLOCK, Kind

DIMENSION, QUERIES, NEIGHBOURS, REPEATS, TEXTS = 384, 256, 10, 5, 64


def drawn(rows: int, file: Path, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Vectors (rows, 384) float32, memory-mapped, and 256 more as queries."""
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.standard_normal((DIMENSION, DIMENSION)))[0]
    axes = (np.arange(1, DIMENSION + 1)[:, None] ** -0.55 * rotation).astype(np.float32)
    centres = rng.standard_normal((max(rows // 100, 1), DIMENSION), dtype=np.float32)

    def some(number: int) -> np.ndarray:
        vectors = rng.standard_normal((number, DIMENSION), dtype=np.float32)
        return (noise * vectors + centres[rng.integers(len(centres), size=number)]) @ axes

    vectors = np.lib.format.open_memmap(file, "w+", np.float32, (rows, DIMENSION))
    for start in range(0, rows, BLOCK):
        vectors[start : start + BLOCK] = some(len(vectors[start : start + BLOCK]))
    vectors.flush()
    return np.load(file, mmap_mode="r"), some(QUERIES)


def measure(kind: Kind, vectors: np.ndarray, queries: np.ndarray, probes: int | None) -> str:
    """One line of the table."""
    built: list[Index] = []
    start = time.perf_counter()
    memory = extra_peak_mib(lambda: built.append(Index(vectors, kind, probes)))
    seconds, times, single = time.perf_counter() - start, [], []
    for _ in range(REPEATS):
        start = time.perf_counter()
        built[0].search(queries, NEIGHBOURS)
        times.append(1000 * (time.perf_counter() - start) / len(queries))
        start = time.perf_counter()
        for query in queries[:32]:
            built[0].search(query[None], NEIGHBOURS)
        single.append(1000 * (time.perf_counter() - start) / 32)
    size = saved_mib(built[0])
    measured = recall(built[0], [vectors], queries, NEIGHBOURS)
    together = f"{statistics.median(times):.3f} ({min(times):.3f} to {max(times):.3f})"
    alone = f"{statistics.median(single):.3f}"
    building = f"{len(vectors):,} | {seconds:.1f} | {memory:.0f} | {size:.0f}"
    return f"| {kind} | {built[0].probes or ''} | {building} | {together} | {alone} | {measured:.3f} |"


def saved_mib(index: Index) -> float:
    if index.kind == "flat":
        return 4 * index.size * index.dimension / 2**20
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "index"
        with file.open("wb") as stream:
            index.save(stream)
        return file.stat().st_size / 2**20


def encoder(tokens: int) -> Callable[[], object]:
    """MiniLM over 64 texts of so many tokens, in batches of 32 and in float32."""
    node = OmegaConf.load(ROOT / "conf" / "encoder" / "minilm.yaml")
    model = instantiate(node).load().eval()
    ids = torch.randint(1000, 30000, (TEXTS, tokens), generator=torch.Generator().manual_seed(0))

    @torch.inference_mode()
    def run() -> None:
        for batch in ids.split(32):
            model(batch, torch.ones_like(batch))

    return run


def share(kind: Kind, vectors: np.ndarray, queries: np.ndarray, probes: int | None, tokens: int) -> str:
    """One line: search for 64 texts beside their encoding, in turn."""
    index = Index(vectors, kind, probes)
    cases = {"encode": encoder(tokens), "search": lambda: index.search(queries[:TEXTS], NEIGHBOURS)}
    times = {
        name: [value / TEXTS for value in milliseconds] for name, milliseconds in paired_milliseconds(cases, 9).items()
    }
    percent = [100 * a / b for a, b in zip(times["search"], times["encode"], strict=True)]
    middle = f"{statistics.median(percent):.2f} ({min(percent):.2f} to {max(percent):.2f})"
    return f"| {kind} | {tokens} | {spread(times['encode'])} | {statistics.median(times['search']):.3f} | {middle} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=55_000)
    parser.add_argument("--kinds", nargs="+", choices=get_args(Kind), default=list(get_args(Kind)))
    parser.add_argument("--probes", type=int)
    parser.add_argument("--noise", type=float, default=0.5)
    parser.add_argument("--tokens", nargs="+", type=int, help="measure the share of the encoder's time instead")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        vectors, queries = drawn(options.rows, Path(folder) / "vectors.npy", options.noise)
        if options.tokens:
            print("| index | tokens | MiniLM, ms a text | search, ms a text | search / MiniLM, % |")
            print("|---|---:|---:|---:|---:|")
            for kind in options.kinds:
                for tokens in options.tokens:
                    print(share(kind, vectors, queries, options.probes, tokens), flush=True)
            return
        print("| index | probes | rows | build s | peak MiB | file MiB | ms, 256 at once | one alone | recall@10 |")
        print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
        for kind in options.kinds:
            print(measure(kind, vectors, queries, options.probes), flush=True)


if __name__ == "__main__":
    main()
