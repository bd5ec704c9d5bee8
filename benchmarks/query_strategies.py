"""Races: query strategies against small-text and scikit-activeml; memory; a pool of a million.

    python -m benchmarks.query_strategies [--threads 1] [--only entropy coreset] [--size 20000] [--memory]
    python -m benchmarks.query_strategies --large [--threads 1] [--only ...]

A pool of 5,000 x 384 with 10 classes (BADGE also alone with 50), 100 labelled, 100 to choose. All get the same
embeddings and predictions, so no model runs, and take turns in one process. `--memory`: peak memory above the
pool too, in a process a case; that and 20,000 rows take a quarter of an hour, most of it the peers'.
`--large`: every strategy on 1,000,000 x 384 in a process of its own, peak memory above the inputs.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version

import numpy as np
from tabulate import tabulate

from active_learning import strategies
from active_learning.selection import needed_by
from benchmarks._measure import extra_peak_mib, in_own_process, paired_milliseconds, ratio, spread

QUERY, LABELLED, CLASSES, DIMENSION, LARGE = 100, 100, 10, 384, 1_000_000
OURS, SMALL_TEXT, SCIKIT = "kontrast", "small-text", "scikit-activeml"
MODULE = "benchmarks.query_strategies"
WRAPPERS = {
    "class_balanced": functools.partial(strategies.class_balanced, strategy=strategies.entropy),
    "subsample": functools.partial(strategies.subsample, strategy=strategies.badge),
}
NAMES = strategies.__all__


def drawn_pool(size: int, classes: int = CLASSES, passes: int = 10) -> dict:
    """Every input of a strategy: 50 groups of texts around unit centres, predictions by distance to class means."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(50, DIMENSION)).astype(np.float32) / DIMENSION**0.5
    directions = 20 * rng.normal(size=(DIMENSION, classes)).astype(np.float32) / DIMENSION**0.5
    embeddings = np.empty((size, DIMENSION), np.float32)
    probabilities = np.empty((size, classes), np.float32)
    mc_probabilities = np.empty((passes, size, classes), np.float32)
    for start in range(0, size, 50_000):
        part = slice(start, min(start + 50_000, size))
        count = part.stop - start
        noise = rng.standard_normal((count, DIMENSION), dtype=np.float32) / DIMENSION**0.5
        embeddings[part] = centres[rng.integers(50, size=count)] + noise
        logits = embeddings[part] @ directions
        probabilities[part] = softmax(logits)
        for number in range(passes):
            mc_probabilities[number, part] = softmax(logits + rng.standard_normal(logits.shape, dtype=np.float32))
    order = rng.permutation(size)
    return {
        "embeddings": embeddings,
        "probabilities": probabilities,
        "mc_probabilities": mc_probabilities,
        "labelled": order[:LABELLED],
        "labels": probabilities[order[:LABELLED]].argmax(axis=1),
        "unlabelled": np.sort(order[LABELLED:]),
        "num_classes": classes,
        "num_labels": 1,
        "query_size": QUERY,
    }


def softmax(logits: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def ours(name: str, pool: dict) -> Callable[[], np.ndarray]:
    strategy = WRAPPERS.get(name, getattr(strategies, name))
    inputs = {key: pool[key] for key in needed_by(strategy) - {"rng"}}
    return lambda: strategy(**inputs, rng=np.random.default_rng(0)).indices


def small_text(name: str, pool: dict) -> Callable[[], np.ndarray] | None:
    import small_text as peer
    from small_text.integrations.pytorch.query_strategies import BADGE

    class Predictions:
        """A classifier that has its predictions already."""

        def predict_proba(self, rows, dropout_sampling=1):
            if dropout_sampling > 1:
                return pool["mc_probabilities"].transpose(1, 0, 2)
            return pool["probabilities"] if len(rows) == len(pool["embeddings"]) else pool["probabilities"][rows]

    place = (pool["embeddings"], pool["unlabelled"], pool["labelled"], pool["labels"], QUERY)
    by_prediction = {
        "random": peer.RandomSampling,
        "entropy": peer.PredictionEntropy,
        "least_confidence": peer.LeastConfidence,
        "margin": peer.BreakingTies,
        "bald": functools.partial(peer.BALD, dropout_samples=10),
    }
    if name in by_prediction:
        return lambda: by_prediction[name]().query(Predictions(), *place)
    by_embedding = {
        "kmeans": functools.partial(peer.EmbeddingKMeans, normalize=False),
        "coreset": functools.partial(peer.GreedyCoreset, normalize=False),
        "badge": functools.partial(BADGE, pool["num_classes"]),
        "cal": functools.partial(peer.ContrastiveActiveLearning, normalize=False),
    }
    if name not in by_embedding:
        return None
    proba = {"embeddings_proba": pool["probabilities"]} if name in ("badge", "cal") else {}
    return lambda: by_embedding[name]().sample(Predictions(), *place, pool["embeddings"], **proba)


def scikit_activeml(name: str, pool: dict) -> Callable[[], np.ndarray] | None:
    from skactiveml import pool as peer
    from skactiveml.base import SkactivemlClassifier
    from skactiveml.classifier import SklearnClassifier
    from sklearn.linear_model import LogisticRegression

    rows, classes = pool["embeddings"], list(range(pool["num_classes"]))
    labels = np.full(len(rows), np.nan)
    labels[pool["labelled"]] = pool["labels"]
    by_length = {
        len(pool[key]): pool["probabilities"][pool[key]].astype(np.float64) for key in ("labelled", "unlabelled")
    } | {len(rows): pool["probabilities"].astype(np.float64)}

    class Predictions(SkactivemlClassifier):
        """A classifier that has its predictions already."""

        def fit(self, X, y, sample_weight=None):
            self.classes_ = np.array(classes)
            return self

        def predict_proba(self, X):
            return by_length[len(X)]

    model = Predictions(classes=classes).fit(rows, labels)
    predictions = {"clf": model, "fit_clf": False}
    uncertainty = functools.partial(functools.partial, peer.UncertaintySampling)
    cases = {
        "random": (peer.RandomSampling, {}),
        "entropy": (uncertainty(method="entropy"), predictions),
        "least_confidence": (uncertainty(method="least_confident"), predictions),
        "margin": (uncertainty(method="margin_sampling"), predictions),
        "coreset": (peer.CoreSet, {}),
        "badge": (peer.Badge, predictions),
        "cal": (peer.ContrastiveAL, predictions),
        "typiclust": (peer.TypiClust, {}),
        "probcover": (functools.partial(peer.ProbCover, n_classes=len(classes)), {}),
        "discriminative": (
            peer.DiscriminativeAL,
            {"discriminator": SklearnClassifier(LogisticRegression(), classes=[0, 1])},
        ),
    }
    if name not in cases:
        return None
    strategy, arguments = cases[name]
    return lambda: strategy(random_state=0).query(rows, labels, batch_size=QUERY, **arguments)


def cases(name: str, pool: dict) -> dict[str, Callable[[], np.ndarray]]:
    contenders = {OURS: ours(name, pool), SMALL_TEXT: small_text(name, pool), SCIKIT: scikit_activeml(name, pool)}
    return {who: case for who, case in contenders.items() if case}


def race(name: str, classes: int, size: int, threads: int, with_memory: bool) -> list[list[str]]:
    """Rows of the table: one for each implementation of the strategy."""
    pool = drawn_pool(size, classes)
    contenders = cases(name, pool) if classes == CLASSES else {OURS: ours(name, pool)}
    rough = {}
    for who, case in contenders.items():
        start = time.perf_counter()
        chosen = case()
        rough[who] = time.perf_counter() - start
        if len(np.unique(chosen)) != QUERY:
            print(f"{name}, {who}: {len(np.unique(chosen))} different texts of {QUERY}", file=sys.stderr)
    repeats = int(np.clip(10 / sum(rough.values()), 3, 100))
    times = paired_milliseconds(contenders, repeats, warm_up=1)
    rows = []
    for who in contenders:
        memory = ""
        place = ("--threads", str(threads), "--size", str(size))
        if with_memory:
            memory = in_own_process(MODULE, *place, "--memory-of", name, str(classes), who)
        label = name if classes == CLASSES else f"{name}, C = {classes}"
        rows.append([label, who, spread(times[who]), "" if who == OURS else ratio(times[who], times[OURS]), memory])
    return rows


def large(name: str) -> str:
    """'seconds peak-MiB' of one strategy on a million texts."""
    pool = drawn_pool(LARGE, passes=2)
    ours(name, drawn_pool(500))()  # libraries' own first-call memory is no case's
    case = ours(name, pool)
    start = time.perf_counter()
    memory = extra_peak_mib(lambda: len(np.unique(case())) == QUERY or sys.exit(f"{name}: not {QUERY} texts"))
    return f"{time.perf_counter() - start:.2f} {memory:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--size", type=int, default=5_000)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--memory-of", nargs=3, metavar=("STRATEGY", "C", "WHO"), help="print one case's peak MiB")
    parser.add_argument("--large-of", help="print one strategy's seconds and peak MiB on the large pool")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    import faiss
    from threadpoolctl import threadpool_limits

    faiss.omp_set_num_threads(arguments.threads)
    with threadpool_limits(arguments.threads):
        if arguments.memory_of:
            name, classes, who = arguments.memory_of
            cases(name, drawn_pool(1000, int(classes)))[who]()
            print(f"{extra_peak_mib(cases(name, drawn_pool(arguments.size, int(classes)))[who]):.0f}")
        elif arguments.large_of:
            print(large(arguments.large_of))
        elif arguments.large:
            rows, threads = [], ("--threads", str(arguments.threads))
            for name in arguments.only:
                rows.append([name, *in_own_process(MODULE, *threads, "--large-of", name).split()])
                print(*rows[-1], file=sys.stderr, flush=True)
            print(tabulate(rows, ["strategy", "seconds", "peak MiB above the inputs"], tablefmt="github"))
        else:
            table = []
            for name in arguments.only:
                for classes in (CLASSES, 50) if name == "badge" else (CLASSES,):
                    table += race(name, classes, arguments.size, arguments.threads, arguments.memory)
                    print(tabulate(table[-3:]), file=sys.stderr, flush=True)
            peers = ", ".join(f"{who} {version(who)}" for who in (SMALL_TEXT, SCIKIT))
            print(f"{peers}, {arguments.threads} thread(s), {arguments.size} x {DIMENSION}, {QUERY} chosen")
            headers = ["strategy", "", "ms: median (min to max)", "times ours", "peak MiB above the pool"]
            print(tabulate(table, headers, tablefmt="github"))


if __name__ == "__main__":
    main()
