"""Names and few texts without a label: nearest name, and EM from the names with and without them as rows.

    python -m benchmarks.few_texts [--datasets stackoverflow r52 …] [--texts 40 200 1000] [--labels-per-class 0 8]

Of each train split so many rows are drawn as they are, embedded by MiniLM as it comes; macro-F1 / accuracy on 2,000
further train rows, mean of the drawings. `method.name_rows`, the least shrinkage and what holds of uneven classes
(`lightning_modules.heads.discriminant`) were chosen on other drawings of stackoverflow, trec, cr, searchsnippets, r52.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from tabulate import tabulate
from torch import Tensor

from benchmarks.two_views import train_rows
from datamodules.splits import rank_in_class
from engine.identify import compose_config
from engine.plan import Plan
from lightning_modules.heads.discriminant import best_discriminant, nearest_prototype
from reporting.metrics import classification_metrics

DATASETS = ("agnews", "biomedical", "cr", "dblp", "ohsumed", "r52", "searchsnippets", "stackoverflow", "trec")
MOST_TEXTS, FURTHER = 4000, 2000


def anchors_of(dataset: str) -> Tensor:
    """(C, D) embeddings of the names of the classes."""
    plan = Plan.make(compose_config(["method=prototypes", f"dataset={dataset}"]))
    names = plan.class_names(plan.corpus().label_names)
    assert names is not None
    with torch.no_grad():
        return names(plan.encoder.load(0).eval())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--texts", type=int, nargs="+", default=[40, 200, 1000])
    parser.add_argument("--labels-per-class", type=int, nargs="+", default=[0, 8])
    parser.add_argument("--drawings", type=int, default=3)
    options = parser.parse_args()
    lines = []
    for dataset in options.datasets:
        _, labels, vectors = train_rows(dataset, MOST_TEXTS)
        anchors, truth, rows = anchors_of(dataset), torch.from_numpy(labels.astype(np.int64)), torch.from_numpy(vectors)
        for texts in options.texts:
            for per_class in options.labels_per_class:
                figures = [drawing(rows, truth, anchors, texts, per_class, seed) for seed in range(options.drawings)]
                cells = [f"{100 * f1:.1f} / {100 * accuracy:.1f}" for f1, accuracy in np.mean(figures, axis=0)]
                lines.append((dataset, len(anchors), texts, per_class, *cells))
    head = ("", "classes", "texts", "labels a class", "nearest name", "EM", "EM, names as rows")
    print(tabulate(lines, head, tablefmt="github"))


def drawing(
    rows: Tensor, truth: Tensor, anchors: Tensor, texts: int, per_class: int, seed: int
) -> list[tuple[float, float]]:
    """Macro-F1 and accuracy of the three on further rows."""
    rng, num_classes = np.random.default_rng([seed, texts, per_class]), len(anchors)
    order = rng.permutation(len(truth))
    drawn, further = order[:texts], order[texts : texts + FURTHER]
    is_known = torch.from_numpy(rank_in_class(truth[drawn].numpy(), rng) < per_class)
    known, embeddings = truth[drawn].where(is_known, -1), rows[drawn]
    solutions = [nearest_prototype(embeddings, known, anchors, num_classes)]
    solutions += [best_discriminant(embeddings, known, anchors, num_classes, name_rows=n) for n in (0.0, 10.0)]
    figures = []
    for solution in solutions:
        answers = solution.scores(rows[further]).argmax(1)
        metrics = classification_metrics(truth[further].numpy(), answers.numpy(), num_classes)
        figures.append((metrics["macro_f1"], metrics["accuracy"]))
    return figures


if __name__ == "__main__":
    main()
