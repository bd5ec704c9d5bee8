"""The choices inside `method=sbert_words`, made anew on sets that no figure of it is quoted for.

    python -m benchmarks.two_views_choice [--sets trec dblp r52 ohsumed docstrings] [--rows 2000] [--seeds 100 101]

Every setting of a grid clusters a draw of train rows of each set; the choice is the one with the largest mean of ACC
and NMI over all sets and seeds, the default where it is as good. The grid holds all that was settled by hand before:
how many small clusters average linkage starts from (2 K, 4 K), how much more a grouping of both views must be agreed
on (0, 0.01, 0.03, or no such grouping), which texts are fitted to (the surest after k-means and Ward's linkage alone,
always, never), and the steps (3, 10).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import cache
from itertools import product
from math import inf
from typing import get_args

import numpy as np
from tabulate import tabulate

from benchmarks.two_views import train_rows
from clustering import agreement
from clustering.scores import clustering_scores
from clustering.two_views import Fit, Start, agreed_clusters, most_agreed_start
from clustering.vectors import WordVectors

SMALL, MARGINS, STEPS = (2, 4), (0.0, 0.01, 0.03, inf), (3, 10)
DEFAULT = (2, 0.01, "by_start", 10)


class Rows:
    """Train rows of a set, clustered by any setting of the grid from one seed."""

    def __init__(self, name: str, number: int, seed: int) -> None:
        texts, self.labels, self.vectors = train_rows(name, number)
        self.words, self.seed = WordVectors.fit("tfidf", texts)(texts), seed
        self.num_clusters = len(np.unique(self.labels))
        self.clustered = cache(self._clustered)
        self.agreements = cache(self._agreements)

    def score(self, small: int, margin: float, fit: Fit, steps: int) -> float:
        """Mean of ACC and NMI, in percent."""
        start = most_agreed_start(dict(self.agreements(small)), margin)
        fits_all = fit == "all" or (fit == "by_start" and start.removesuffix("_of_both") == "ward_average")
        return self.clustered(small, start, "all" if fits_all else "surest", steps)

    def _agreements(self, small: int) -> tuple[tuple[str, float], ...]:
        agreement.SMALL_CLUSTERS = small
        rng = np.random.default_rng(self.seed)
        figures = agreed_clusters(self.vectors, self.words, self.num_clusters, rng, steps=1).figures
        return tuple((name.removeprefix("agreement/"), value) for name, value in figures.items())

    def _clustered(self, small: int, start: Start, fit: Fit, steps: int) -> float:
        agreement.SMALL_CLUSTERS = small
        rng = np.random.default_rng(self.seed)
        agreed = agreed_clusters(self.vectors, self.words, self.num_clusters, rng, start, steps, fit=fit)
        scores = clustering_scores(self.labels, agreed.assignments)
        return 50 * (scores["acc"] + scores["nmi"])


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.two_views_choice", description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["trec", "dblp", "r52", "ohsumed", "docstrings"])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 101])
    options = parser.parse_args(arguments)
    grid = list(product(SMALL, MARGINS, get_args(Fit), STEPS))
    by_set: dict[str, list[np.ndarray]] = {}
    for name, seed in product(options.sets, options.seeds):
        rows = Rows(name, options.rows, seed)
        by_set.setdefault(name, []).append(np.array([rows.score(*setting) for setting in grid]))
        agreed = ", ".join(f"{start} {value:.3f}" for start, value in rows.agreements(2))
        print(f"{name}, seed {seed}: {agreed}", file=sys.stderr, flush=True)
    means = np.array([np.mean(scores, axis=0) for scores in by_set.values()])
    overall = means.mean(axis=0)
    order = sorted(range(len(grid)), key=lambda place: (-overall[place].round(6), grid[place] != DEFAULT))
    shown = [*order[:10], *(place for place in order[10:] if grid[place] == DEFAULT)]
    lines = [
        (order.index(place) + 1, *grid[place], *(f"{value:.2f}" for value in (overall[place], *means[:, place])))
        for place in shown
    ]
    head = ("rank", "small, K", "margin", "fit", "steps", "mean", *by_set)
    print(tabulate(lines, head, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main(sys.argv[1:])
