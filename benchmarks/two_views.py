"""Clusters of labelled train rows: k-means, the grouping that halves agree on, and embeddings with words.

    python -m benchmarks.two_views [--sets trec dblp r52 ohsumed] [--rows 5000] [--start agreement] [--steps 10]

Of each set at most `--rows` train rows are drawn and encoded by MiniLM as it comes; no other row is read. Cells hold
ACC / NMI in percent, seed 0. What `clustering.two_views` does was chosen on rows of these sets and
on searchsnippets and tweet.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from clustering.agreement import most_agreed
from clustering.kmeans import kmeans, unit_rows
from clustering.scores import clustering_scores
from clustering.two_views import GROUPINGS, agreed_clusters
from clustering.vectors import WordVectors
from engine.assign import Embeddings
from engine.identify import compose_config
from engine.plan import Plan

SETS = ("trec", "dblp", "r52", "ohsumed")
STARTS = (*GROUPINGS, *(f"{by}_of_both" for by in GROUPINGS))


def train_rows(name: str, number: int) -> tuple[list[str], NDArray[np.int64], NDArray[np.float32]]:
    """Texts, labels (n,) and embeddings (n, 384) of length 1 of a draw of train rows."""
    plan = Plan.make(compose_config(["method=logistic", f"dataset={name}"]))
    table = plan.corpus().table("train")
    drawn = np.sort(np.random.default_rng(0).permutation(len(table))[:number])
    texts = [plan.dataset.cleaned(table["text"][int(row)].as_py()) for row in drawn]
    return texts, table["label"].to_numpy()[drawn], unit_rows(Embeddings(plan)(texts))


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.two_views", description=__doc__)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--start", choices=("agreement", *STARTS), default="agreement")
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args(arguments)
    rows = []
    for name in options.sets:
        texts, labels, vectors = train_rows(name, options.rows)
        number, words = len(np.unique(labels)), WordVectors.fit("tfidf", texts)(texts)
        first = kmeans(vectors, number, np.random.default_rng(0))
        agreed = most_agreed(vectors, number, np.random.default_rng(0))
        started = time.perf_counter()
        both = agreed_clusters(vectors, words, number, np.random.default_rng(0), options.start, options.steps)
        seconds = time.perf_counter() - started
        clusterings = (first.assignments, agreed.assignments, both.assignments)
        scores = [clustering_scores(labels, clusters) for clusters in clusterings]
        cells = [f"{100 * score['acc']:.1f} / {100 * score['nmi']:.1f}" for score in scores]
        rows.append((name, len(texts), number, *cells, f"{seconds:.0f}"))
    head = ("", "rows", "labels", "sbert_kmeans", "sbert_agreement", "sbert_words", "seconds")
    print(tabulate(rows, head, tablefmt="github"))


if __name__ == "__main__":
    main(sys.argv[1:])
