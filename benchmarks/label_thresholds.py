"""How much rare labels gain in `task=auto` where texts have several: rules for thresholds, on train rows alone.

    python -m benchmarks.label_thresholds [--datasets reuters21578 goemotions] [--rows 300 1000] [--drawings 4]

Rows of a train split are drawn at random; labels that fewer than two of them have are left out. Each candidate is
fitted as `task=auto` fits it, without the names of the labels; inner validation rows choose the thresholds. Figures are
macro-F1 and micro-F1 of up to 2,000 further train rows.

| rule | threshold of a label |
|---|---|
| shared | the one of best micro-F1, for all |
| by itself | its own of best F1 from 20 validation rows on, otherwise the shared one |
| between N | in log-odds between its own and the one of best macro-F1 for all; of n rows its own counts n / (n + N) |
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from tabulate import tabulate
from threadpoolctl import threadpool_limits

from benchmarks.rare_classes import MOST_TEXTS, Texts, text_rows
from reporting.multilabel_metrics import best_threshold, multilabel_metrics
from tasks.auto.candidates import cheap
from tasks.auto.candidates.calibration import best_scale, label_thresholds
from tasks.auto.candidates.folds import inner_logits
from tasks.auto.candidates.plans import plan_of

FURTHER, LEAST_OF_A_LABEL, MANY = 2000, 2, 20
BETWEEN = (2.0, 5.0, 20.0)
CANDIDATES: dict[str, Any] = {
    "logistic": ("embeddings", cheap.label_by_label, True),
    "neighbours": ("embeddings", cheap.neighbours, False),
    "linear_words": (None, cheap.Stacked(None), True),
}  # the part that it reads, its path, whether its scores are rescaled


def encoded(dataset: str) -> Texts:
    """At most 6,000 train rows."""
    plan = plan_of([f"dataset={dataset}", "method=bce"])
    corpus = plan.corpus()
    table = corpus.table("train")
    kept = np.random.default_rng(0).permutation(len(table))[:MOST_TEXTS]
    texts = [table["text"][int(row)].as_py() for row in kept]
    labels = np.zeros((len(kept), len(corpus.label_names)), np.int64)
    for place, row in enumerate(kept):
        labels[place, table["label"][int(row)].as_py()] = 1
    return Texts(text_rows(plan, texts), labels, texts)


def drawn_labels(texts: Texts, drawn: NDArray) -> tuple[NDArray, NDArray[np.bool_]]:
    """Rows that keep a label, of those drawn, and which labels are kept: (C,)."""
    kept = texts.labels[drawn].sum(axis=0) >= LEAST_OF_A_LABEL
    return drawn[texts.labels[drawn][:, kept].any(axis=1)], kept


def thresholds(labels: NDArray[np.int64], probabilities: NDArray) -> dict[str, NDArray[np.floating]]:
    """Of each label (C,), by each rule."""
    shared = np.full(labels.shape[1], best_threshold(labels, probabilities, "global"))
    own = best_threshold(labels, probabilities, "per_label")
    rules = {"shared": shared, "by itself": np.where(labels.sum(axis=0) >= MANY, own, shared)}
    return rules | {f"between {rows:g}": label_thresholds(labels, probabilities, rows) for rows in BETWEEN}


def measured(texts: Texts, drawn: NDArray, further: NDArray, name: str) -> dict[str, tuple[float, float]]:
    """Macro-F1 and micro-F1 on the further rows, in percent, by each rule."""
    part, path, is_rescaled = CANDIDATES[name]
    drawn, kept = drawn_labels(texts, drawn)
    labels, own = texts.labels[drawn][:, kept], texts.labels[further][:, kept]
    rows, asked = texts.rows[drawn], texts.rows[further]
    if part is not None:
        rows, asked = getattr(rows, part), getattr(asked, part)
    with threadpool_limits(1):
        drawn_texts = [texts.texts[row] for row in drawn]
        scorer, _, logits, truth = inner_logits(path, rows, labels, drawn_texts, labels.shape[1])
        scores = scorer(asked)
    scale = best_scale(logits, truth) if is_rescaled else 1.0
    result = {}
    for rule, chosen in thresholds(truth, expit(logits * scale)).items():
        metrics = multilabel_metrics(own, expit(scores * scale), chosen)
        result[rule] = 100 * metrics["macro_f1"], 100 * metrics["micro_f1"]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=("reuters21578", "goemotions"))
    parser.add_argument("--rows", nargs="+", type=int, default=(300, 1000))
    parser.add_argument("--drawings", type=int, default=4)
    options = parser.parse_args()
    table, rules = [], []
    for dataset in options.datasets:
        texts = encoded(dataset)
        for rows in options.rows:
            orders = [np.random.default_rng([d, 29]).permutation(len(texts.labels)) for d in range(options.drawings)]
            for name in CANDIDATES:
                pairs = [measured(texts, order[:rows], order[rows : rows + FURTHER], name) for order in orders]
                rules = list(pairs[0])
                means = [np.mean([pair[rule] for pair in pairs], axis=0) for rule in rules]
                table.append([f"{dataset}:{rows}", name, *(f"{macro:.1f} / {micro:.1f}" for macro, micro in means)])
    print(tabulate(table, ["rows", "candidate", *rules], tablefmt="github"))


if __name__ == "__main__":
    main()
