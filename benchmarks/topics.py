"""Topics beside BERTopic: coherence, diversity, agreement with labels and seconds, on the same embeddings.

    python -m benchmarks.topics [--sets tweet searchsnippets …] [--seed 0] [--no-estimates] [--peer-python PYTHON]

Encoding is not in the seconds, words and assignment are. c_npmi: mean normalised pointwise mutual information of pairs
among the ten words of a topic, a word being there or not in a text of the set itself (Lau et al., EACL 2014;
Bouma 2009), averaged over topics; diversity: share of different words among those of all topics (Dieng et al., TACL
2020). ACC and NMI with the outliers of HDBSCAN and of BERTopic in the cluster with the nearest centre.

BERTopic needs packages of its own (umap-learn, hdbscan, numba): install it in another environment that also holds
numpy and scikit-learn, and name its interpreter by --peer-python. It runs as it comes, UMAP seeded so that it repeats.

"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix
from sklearn.feature_extraction.text import CountVectorizer
from tabulate import tabulate

from clustering.kmeans import means, nearest, unit_rows
from clustering.methods import DenseWordsClustering, DensityClustering, KMeansClustering, TwoViewClustering
from clustering.number import estimate_num_clusters
from clustering.scores import clustering_scores
from clustering.topics import TOKEN, top_words
from clustering.vectors import WordVectors
from engine.identify import compose_config
from engine.plan import Plan

SETS = (
    *("tweet", "searchsnippets", "agnews8000", "stackoverflow", "biomedical"),
    *("googlenews_ts", "googlenews_t", "googlenews_s"),
)
WORDS = 10
HEADER = ("data set", "method", "clusters", "outliers, %", "ACC", "NMI", "c_npmi", "diversity", "seconds")
PEER = """
import sys, time, numpy as np
started = time.perf_counter()
from bertopic import BERTopic
from umap import UMAP
folder, seed = sys.argv[1], int(sys.argv[2])
vectors = np.load(folder + "/vectors.npy")
texts = open(folder + "/texts.txt", encoding="utf-8").read().split("\\n")
loaded = time.perf_counter()
reducer = UMAP(n_neighbors=15, n_components=5, min_dist=0.0, metric="cosine", random_state=seed, n_jobs=1)
topics, _ = BERTopic(umap_model=reducer).fit_transform(texts, vectors)
np.save(folder + "/clusters.npy", np.array(topics))
print(loaded - started, time.perf_counter() - loaded)
"""


def texts_of(name: str) -> tuple[list[str], NDArray, NDArray[np.float32]]:
    """Texts, labels (N,) and embeddings (N, D) of MiniLM as it comes, of length 1."""
    plan = Plan.make(compose_config(["task=cluster", "method=sbert_kmeans", f"dataset={name}"]))
    corpus = plan.corpus(whole=True)
    table = corpus.table("train")
    vectors = np.array(plan.features(plan.datamodule(corpus))["train"][0])
    return table["text"].to_pylist(), table["label"].to_numpy(), unit_rows(vectors)


def coherence(words: Sequence[Sequence[str]], texts: Sequence[str]) -> float:
    """Mean c_npmi over topics, -1 to 1; of two words that are never together -1."""
    vocabulary = sorted({word for topic in words for word in topic})
    counter = CountVectorizer(token_pattern=TOKEN, vocabulary=vocabulary, binary=True)
    present = csc_matrix(counter.transform(texts), dtype=np.float64)
    together = (present.T @ present).toarray() / len(texts)
    place = {word: number for number, word in enumerate(vocabulary)}
    scores = [
        np.mean([_npmi(together, place[a], place[b]) for a, b in combinations(topic, 2)])
        for topic in words
        if len(topic) > 1
    ]
    return float(np.mean(scores))


def _npmi(together: NDArray[np.float64], first: int, second: int) -> float:
    both, one, other = together[first, second], together[first, first], together[second, second]
    if not both:
        return -1.0
    return 1.0 if both == 1 else float(np.log(both / (one * other)) / -np.log(both))


def diversity(words: Sequence[Sequence[str]]) -> float:
    """Share of different words among all, 0 to 1."""
    listed = [word for topic in words for word in topic]
    return len(set(listed)) / len(listed)


def figures(
    texts: list[str], labels: NDArray, vectors: NDArray[np.float32], clusters: NDArray[np.int64], seconds: float
) -> tuple:
    """A row of the table; -1 among `clusters` (N,) are outliers, who have no words."""
    started = time.perf_counter()
    outliers = clusters < 0
    count = int(clusters.max()) + 1
    centres = means(vectors, np.where(outliers, count, clusters), count + 1)[:count]
    assigned = np.where(outliers, nearest(vectors, centres)[0], clusters)
    inside = np.flatnonzero(~outliers)
    words = top_words([texts[row] for row in inside], clusters[inside], WORDS)
    seconds += time.perf_counter() - started
    topics = [topic for topic in words.values() if topic]
    scores = clustering_scores(labels, assigned)
    measured = (100 * outliers.mean(), 100 * scores["acc"], 100 * scores["nmi"], 100 * coherence(topics, texts))
    return (count, *measured, 100 * diversity(topics), seconds)


def ours(
    texts: list[str], labels: NDArray, vectors: NDArray[np.float32], seed: int, estimates: bool
) -> dict[str, tuple]:
    """Rows of k-means and of `sbert_words` with the number of labels, and where `estimates` with an estimated one; of
    HDBSCAN, and of `dense_words`."""
    numbers = [(len(np.unique(labels)), "K of the labels", 0.0)]
    if estimates:
        started = time.perf_counter()
        estimated = estimate_num_clusters(vectors, np.random.default_rng(seed)).number
        numbers.append((estimated, "auto", time.perf_counter() - started))
    rows = {}

    def add(name: str, by: Callable[[], NDArray[np.int64]], before: float = 0.0) -> None:
        started = time.perf_counter()
        clusters = by()
        rows[name] = figures(texts, labels, vectors, clusters, before + time.perf_counter() - started)

    for number, of, before in numbers:
        for name, method in (("sbert_kmeans", _by_kmeans), ("sbert_words", _by_two_views)):
            how = partial(method, texts, vectors, number, np.random.default_rng(seed))
            add(f"{name}, {of}", how, before)
    add("hdbscan", partial(DensityClustering("hdbscan"), vectors))
    add("dense_words", partial(_by_dense_words, texts, vectors, np.random.default_rng(seed)))
    return rows


def _by_kmeans(
    texts: list[str], vectors: NDArray[np.float32], number: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    return KMeansClustering("sbert_kmeans", "encoder")(vectors, number, rng).assignments


def _by_two_views(
    texts: list[str], vectors: NDArray[np.float32], number: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    words = WordVectors.fit("tfidf", texts)(texts)
    return TwoViewClustering("sbert_words")(vectors, words, number, rng).assignments


def _by_dense_words(texts: list[str], vectors: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.int64]:
    words = WordVectors.fit("tfidf", texts)(texts)
    return DenseWordsClustering("dense_words").agreed(vectors, words, rng).assignments


def bertopic_row(
    python: str, texts: list[str], labels: NDArray, vectors: NDArray[np.float32], seed: int
) -> tuple[float, tuple]:
    """Seconds that its packages take to load, and its row, with words by the same formula and stop words as ours."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/vectors.npy", vectors)
        Path(folder, "texts.txt").write_text("\n".join(" ".join(text.split()) for text in texts), encoding="utf-8")
        Path(folder, "peer.py").write_text(PEER)
        command = [python, f"{folder}/peer.py", folder, str(seed)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True)
        loading, seconds = map(float, answer.stdout.split()[-2:])
        clusters = np.load(f"{folder}/clusters.npy").astype(np.int64)
    return loading, figures(texts, labels, vectors, clusters, seconds)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.topics", description=__doc__)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peer-python", help="interpreter of an environment with BERTopic")
    parser.add_argument("--no-estimates", dest="estimates", action="store_false", help="without `auto`, in less time")
    parser.add_argument("--results", help="file to add the rows to, as JSON lines")
    options = parser.parse_args(arguments)
    rows = []
    for name in options.sets:
        texts, labels, vectors = texts_of(name)
        results = ours(texts, labels, vectors, options.seed, options.estimates)
        if options.peer_python:
            loading, row = bertopic_row(options.peer_python, texts, labels, vectors, options.seed)
            results[f"BERTopic ({loading:.0f} s more to load)"] = row
        rows += [(name, method, *row) for method, row in results.items()]
        if options.results:
            with open(options.results, "a", encoding="utf-8") as file:
                file.writelines(json.dumps((name, method, *row)) + "\n" for method, row in results.items())
    print(tabulate(rows, HEADER, floatfmt=("", "", "d", ".0f", ".1f", ".1f", ".1f", ".1f", ".1f"), tablefmt="github"))


if __name__ == "__main__":
    main(sys.argv[1:])
