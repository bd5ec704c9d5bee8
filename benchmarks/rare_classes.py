"""How much rare classes gain in `task=auto`: rules for the strength of the logit adjustment, on train rows alone.

    python -m benchmarks.rare_classes [--datasets agnews trec …] [--drawings 3]

Rows of a train split are drawn so that the largest class has 1 to 50 times as many as the smallest, or as the set has
them. Each candidate is fitted as `task=auto` fits it; every strength is then measured on up to 1,500 further train
rows: as they are, and weighted so that their classes have the sizes of the drawn ones. Rules see inner validation rows.

| rule | strength |
|---|---|
| least | the weakest within 0.005 of the best macro-F1 |
| usual | the nearest to 0.75 within 0.7 / sqrt(rows) of it (`tasks.auto.candidates.calibration`) |
| a number | that one |
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate
from threadpoolctl import threadpool_limits

from benchmarks.auto import encoder_folder, thinned
from datamodules.labels import class_counts
from engine.plan import Plan
from lightning_modules.heads.tfidf import token_counts
from tasks.auto.candidates import cheap
from tasks.auto.candidates.calibration import STRENGTHS, Calibration, best_scale, calibrated
from tasks.auto.candidates.folds import inner_logits
from tasks.auto.candidates.plans import plan_of

DATASETS = ("agnews", "trec", "cr", "dblp", "searchsnippets", "ohsumed")
DRAWN = ((300, 1.0), (300, 5.0), (300, 20.0), (1000, 10.0), (1000, 50.0), (300, None), (1000, None))
MOST_TEXTS, FURTHER = 6000, 1500
RULES = {"least": False, "usual": True}  # is_solved
CANDIDATES: dict[str, Any] = {
    "logistic": ("embeddings", cheap.logistic),
    "tfidf_linear": ("counts", cheap.words),
    "prototypes": ("embeddings", cheap.prototypes(None)),
    "linear_words": (None, cheap.Added((("embeddings", cheap.logistic), ("embeddings", cheap.prototypes(None)),
                                        ("counts", cheap.words)))),
}  # fmt: skip


class Texts(NamedTuple):
    """Train rows of a data set; labels (N,), or (N, C) of 0 and 1."""

    rows: cheap.TextRows
    labels: NDArray[np.int64]
    texts: list[str]


def encoded(dataset: str) -> Texts:
    """At most 6,000 labelled train rows, as embeddings and as token counts."""
    plan = plan_of([f"dataset={dataset}", "method=logistic"])
    table = plan.corpus().table("train")
    labels = table["label"].to_numpy()
    kept = np.random.default_rng(0).permutation(np.flatnonzero(labels >= 0))[:MOST_TEXTS]
    texts = [table["text"][int(row)].as_py() for row in kept]
    return Texts(text_rows(plan, texts), labels[kept].astype(np.int64), texts)


def text_rows(plan: Plan, texts: list[str]) -> cheap.TextRows:
    """Embeddings of unit length, and token counts."""
    from sentence_transformers import SentenceTransformer

    embeddings = SentenceTransformer(encoder_folder(), device="cpu").encode(texts, normalize_embeddings=True)
    tokenizer = plan.encoder.tokenizer()
    ids = tokenizer(texts, truncation=True, max_length=plan.dataset.max_length)["input_ids"]
    return cheap.TextRows(embeddings, token_counts([np.array(row, np.int32) for row in ids], len(tokenizer)))


def weighted_macro_f1(labels: NDArray, answers: NDArray, weights: NDArray[np.floating]) -> float:
    """Macro-F1 in percent of rows that count as often as their weights say, over the classes that they have."""
    counts = np.zeros((labels.max() + answers.max() + 1,) * 2)
    np.add.at(counts, (labels, answers), weights)
    is_there = counts.sum(1) > 0
    return 100 * float(np.mean((2 * np.diag(counts) / np.maximum(counts.sum(0) + counts.sum(1), 1e-12))[is_there]))


def measured(texts: Texts, drawn: NDArray, further: NDArray, name: str) -> dict[str, tuple[float, float]]:
    """Macro-F1 on the further rows by each rule: as they are, and weighted to the class sizes of those drawn."""
    part, path = CANDIDATES[name]
    labels, num_classes = texts.labels[drawn], int(texts.labels.max()) + 1
    rows, asked = texts.rows[drawn], texts.rows[further]
    if part is not None:
        rows, asked = getattr(rows, part), getattr(asked, part)
    with threadpool_limits(1):
        scorer, _, logits, truth = inner_logits(path, rows, labels, [texts.texts[row] for row in drawn], num_classes)
        scores = scorer(asked)
    scale, counts = best_scale(logits, truth), class_counts(labels, num_classes)
    prior = np.log(np.maximum(counts, 1) / len(labels))
    own = texts.labels[further]
    weights = (counts / class_counts(own, num_classes).clip(1))[own]
    pairs: dict[float, tuple[float, float]] = {}
    for strength in STRENGTHS:
        answers = (scores * scale - strength * prior).argmax(1)
        natural = weighted_macro_f1(own, answers, np.ones(len(own)))
        pairs[strength] = natural, weighted_macro_f1(own, answers, weights)
    rules = {name: calibrated(logits, truth, counts, is_solved) for name, is_solved in RULES.items()}
    chosen = {name: pairs[cast(Calibration, rule).strength] for name, rule in rules.items()}
    return chosen | {f"{strength:g}": pair for strength, pair in pairs.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--drawings", type=int, default=3)
    options = parser.parse_args()
    results: dict[str, list[dict[str, tuple[float, float]]]] = {name: [] for name in CANDIDATES}
    for dataset in options.datasets:
        texts = encoded(dataset)
        for rows, ratio in DRAWN:
            for drawing in range(options.drawings):
                rng = np.random.default_rng([drawing, 23])
                drawn = thinned(texts.labels, rows, ratio, rng)
                further = rng.permutation(np.setdiff1d(np.arange(len(texts.labels)), drawn))[:FURTHER]
                for name in CANDIDATES:
                    results[name].append(measured(texts, drawn, further, name))
    names = list(results["logistic"][0])
    table = []
    for name, lines in results.items():
        means = {rule: np.mean([line[rule] for line in lines], axis=0) for rule in names}
        table.append([name, *(f"{natural:.1f} / {alike:.1f}" for natural, alike in means.values())])
    print(f"macro-F1, {len(lines)} drawings: further rows as they are / weighted to the class sizes of those drawn")
    print(tabulate(table, ["candidate", *names], tablefmt="github"))


if __name__ == "__main__":
    main()
