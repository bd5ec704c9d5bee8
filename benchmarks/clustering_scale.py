"""Time and memory of clustering from 12,500 to 100,000 texts: nothing may grow faster than their number.

    python -m benchmarks.clustering_scale [--threads 1] [--sizes 12500 25000 50000 100000] [--libraries]

Made-up embeddings (384) and texts (ten words out of 20,000) of 100 groups. Each case runs alone in a process of its
own; peak memory is that above its inputs. k-means is one start of 30 iterations; a run makes ten starts, one after the
other, in the same memory. Encoding is not here: it is one pass over the texts, in batches.

With --libraries, k-means beside scikit-learn's and faiss's instead: processor seconds and inertia, three seeds, the
same rows, clusters and iterations.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable

import numpy as np
from tabulate import tabulate

from benchmarks._measure import extra_peak_mib, in_own_process
from clustering.kmeans import distances_to_own, kmeans, unit_rows
from clustering.methods import TwoViewClustering
from clustering.number import estimate_num_clusters
from clustering.scores import clustering_scores
from clustering.topics import topics
from clustering.vectors import WordVectors

MODULE, DIMENSION, GROUPS, VOCABULARY, WORDS = "benchmarks.clustering_scale", 384, 100, 20_000, 10


def made_up_embeddings(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (N, 384) around the centres of their groups, and the groups."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((GROUPS, DIMENSION), dtype=np.float32)
    groups = rng.integers(GROUPS, size=size)
    vectors = rng.standard_normal((size, DIMENSION), dtype=np.float32)
    vectors *= 2
    vectors += centres[groups]
    return vectors, groups


def made_up_texts(size: int) -> tuple[list[str], np.ndarray]:
    """Texts of ten words, half of them from the 200 words of their group, and the groups."""
    rng = np.random.default_rng(0)
    groups = rng.integers(GROUPS, size=size)
    own = rng.integers(200, size=(size, WORDS // 2)) + 200 * groups[:, None]
    words = np.concatenate([own, rng.integers(VOCABULARY, size=(size, WORDS // 2))], axis=1)
    return [" ".join(f"word{number}" for number in row) for row in words], groups


def _kmeans(num_clusters: int, sample_rows: int | None = None) -> Callable[[int], Callable[[], object]]:
    def prepared(size: int) -> Callable[[], object]:
        vectors, _ = made_up_embeddings(size)
        rng = np.random.default_rng(0)
        return lambda: kmeans(vectors, num_clusters, rng, 1, 30, sample_rows)

    return prepared


def _tfidf(size: int) -> Callable[[], object]:
    texts, _ = made_up_texts(size)

    def run() -> object:
        vectors = WordVectors.fit("tfidf", texts)(texts)
        return kmeans(vectors, GROUPS, np.random.default_rng(0), 1, 30)

    return run


def _two_views(size: int) -> Callable[[], object]:
    vectors, _ = made_up_embeddings(size)
    texts, _ = made_up_texts(size)
    rows, rng = unit_rows(vectors), np.random.default_rng(0)
    return lambda: TwoViewClustering("sbert_words")(rows, WordVectors.fit("tfidf", texts)(texts), GROUPS, rng)


def _estimate(size: int) -> Callable[[], object]:
    vectors, _ = made_up_embeddings(size)
    return lambda: estimate_num_clusters(vectors, np.random.default_rng(0))


def _report(size: int) -> Callable[[], object]:
    vectors, groups = made_up_embeddings(size)
    texts, _ = made_up_texts(size)
    rng = np.random.default_rng(1)
    clusters = np.where(rng.random(size) < 0.8, groups, rng.integers(GROUPS, size=size))
    centres = vectors[:GROUPS].copy()
    return lambda: (
        topics(texts, distances_to_own(vectors, centres, clusters), clusters),
        clustering_scores(groups, clusters),
    )


CASES: dict[str, Callable[[int], Callable[[], object]]] = {
    "k-means, 20 clusters": _kmeans(20),
    "k-means, 150 clusters": _kmeans(150),
    "k-means, 150 clusters, centres on 20,000 texts": _kmeans(150, 20_000),
    "TF-IDF and k-means, 100 clusters": _tfidf,
    "sbert_words, 100 clusters": _two_views,
    "num_clusters=auto": _estimate,
    "scores, words, central texts": _report,
}


def measure(name: str, size: int, threads: int) -> None:
    """Print seconds and peak MiB above the inputs of one case, as JSON."""
    import faiss
    from threadpoolctl import threadpool_limits

    faiss.omp_set_num_threads(threads)
    case, seconds = CASES[name](size), []

    def timed() -> None:
        start = time.perf_counter()
        case()
        seconds.append(time.perf_counter() - start)

    with threadpool_limits(threads):
        peak = extra_peak_mib(timed)
    print(json.dumps([seconds[0], peak]))


def race(size: int, threads: int) -> None:
    """Print processor seconds and inertia of one start of each library's k-means, a line for each seed."""
    import faiss
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    vectors, _ = made_up_embeddings(size)

    def by_faiss(num_clusters: int, seed: int) -> float:
        method = faiss.Kmeans(DIMENSION, num_clusters, niter=30, seed=seed + 1, max_points_per_centroid=size)
        method.train(vectors)
        return float(method.index.search(vectors, 1)[0].sum(dtype=np.float64))

    def by_sklearn(num_clusters: int, seed: int) -> float:
        return KMeans(num_clusters, n_init=1, max_iter=30, tol=0, random_state=seed).fit(vectors).inertia_

    def by_us(num_clusters: int, seed: int) -> float:
        return kmeans(vectors, num_clusters, np.random.default_rng(seed), 1, 30).inertia

    libraries: dict[str, Callable[[int, int], float]] = {"ours": by_us, "scikit-learn": by_sklearn, "faiss": by_faiss}
    faiss.omp_set_num_threads(threads)
    rows = []
    with threadpool_limits(threads):
        for num_clusters, seed in ((k, seed) for k in (20, 100) for seed in range(3)):
            cells = []
            for run in libraries.values():
                start = time.process_time()
                inertia = run(num_clusters, seed)
                cells.append(f"{time.process_time() - start:.2f} s, {inertia:,.0f}")
            rows.append([num_clusters, seed, *cells])
    print(tabulate(rows, headers=["clusters", "seed", *libraries], tablefmt="github"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sizes", type=int, nargs="+", default=[12_500, 25_000, 50_000, 100_000])
    parser.add_argument("--libraries", action="store_true")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.libraries:
        race(options.sizes[0], options.threads)
        return
    if options.case:
        measure(options.case, options.sizes[0], options.threads)
        return
    rows = []
    for name in CASES:
        cells = []
        for size in options.sizes:
            arguments = ("--case", name, "--sizes", str(size), "--threads", str(options.threads))
            seconds, peak = json.loads(in_own_process(MODULE, *arguments))
            cells.append(f"{seconds:.1f} s, {peak:.0f} MiB")
        rows.append([name, *cells])
        print(name, *cells, sep=" | ", file=sys.stderr, flush=True)
    print(tabulate(rows, headers=["", *(f"{size:,}" for size in options.sizes)], tablefmt="github"))


if __name__ == "__main__":
    main()
