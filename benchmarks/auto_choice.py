"""How often the intervals of `task=auto` cover, and how good what it recommends is, by simulation.

python -m benchmarks.auto_choice [--trials 50] [--rows 100 300 1000] [--dataset dblp]

Each trial draws labelled rows of Gaussian classes, the smallest 20 times rarer than the largest, predicts them out of
fold by five candidates of scikit-learn, ranks them as `task=auto` does, and reads the truth off 20,000 further
rows: the mean macro-F1 of the very models of the folds, and that of one model fitted to all rows. With `--dataset` rows
are embeddings of its train rows by MiniLM as it comes, split anew in each trial, and the truth is read off those that
were not drawn, each class weighted by what was drawn of it; of classes that would have fewer than `LEAST_TEST` of those
the data set has none. Logistic regression is ranked once more by three of its folds alone.
`benchmarks/label_intervals.py` is for texts of several labels.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.random_projection import GaussianRandomProjection

from benchmarks.two_views import train_rows
from reporting.auto.ranking import OutOfFold, rank
from reporting.calibration import abstention
from reporting.resampling import difference_test, interval

SHARES = np.array([0.5, 0.25, 0.15, 0.075, 0.025])
SOME_FOLDS, LEAST_TEST = 3, 20
DIMENSION, FOLDS, REPEATS, TEST, MOST_TEXTS = 24, 5, 2, 20_000, 25_000
CANDIDATES = {  # cheapest first
    "majority": DummyClassifier(),
    "bayes": GaussianNB(),
    "projected": make_pipeline(GaussianRandomProjection(8, random_state=0), LogisticRegression()),
    "logistic": LogisticRegression(C=0.3, class_weight="balanced"),
    "neighbours": KNeighborsClassifier(15, weights="distance"),
}


class World:
    """Classes whose means are drawn once, with rows around them."""

    def __init__(self, rows: int, rng: np.random.Generator) -> None:
        self.rng, self.classes = rng, len(SHARES)
        self.counts = np.maximum(np.round(SHARES * rows).astype(int), FOLDS)
        self.means = rng.normal(0, 0.62, (len(SHARES), DIMENSION))
        self.test = self.draw(round(TEST / rows))
        self.test_weights = np.ones(len(self.test[1]))

    def draw(self, times: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Features (N, D) and labels (N,), `times` as many rows as are labelled, each class at least `FOLDS` times."""
        labels = np.repeat(np.arange(len(SHARES)), times * self.counts)
        return self.means[labels] + self.rng.normal(size=(len(labels), DIMENSION)), labels


class Texts:
    """Embeddings of a data set, of which some are drawn and the others are the truth.

    A class of which fewer than `FOLDS` rows are drawn gets so many. `test_weights` brings the classes of the truth to
    the shares that were drawn.

    Args:
        vectors, labels: (N, D) and (N,), all rows there are.
        rows: that are labelled.
    """

    def __init__(self, vectors: np.ndarray, labels: np.ndarray, rows: int, rng: np.random.Generator) -> None:
        kept = np.bincount(labels)[labels] >= FOLDS + LEAST_TEST
        vectors, labels = vectors[kept], np.unique(labels[kept], return_inverse=True)[1]
        self.classes = int(labels.max()) + 1
        order = rng.permutation(len(labels))
        of_class = [order[labels[order] == label][:FOLDS] for label in range(self.classes)]
        drawn = np.unique(np.concatenate([*of_class, order[:rows]]))
        others = np.setdiff1d(order, drawn)
        self.drawn = vectors[drawn], labels[drawn]
        self.test = vectors[others][:TEST], labels[others][:TEST]
        shares = [np.bincount(part, minlength=self.classes) / len(part) for part in (self.drawn[1], self.test[1])]
        self.test_weights = (shares[0] / shares[1])[self.test[1]]

    def draw(self) -> tuple[np.ndarray, np.ndarray]:
        """Embeddings (n, D) and labels (n,) that are labelled."""
        return self.drawn


def whole(model, features: np.ndarray, classes: int) -> np.ndarray:
    """Probabilities (N, C), with 0 for classes that the model was not fitted to."""
    probabilities = np.zeros((len(features), classes))
    probabilities[:, model.classes_] = model.predict_proba(features)
    return probabilities


def cross_validated(name: str, world: World | Texts, features: np.ndarray, labels: np.ndarray, seed: int):
    """Out-of-fold table of a candidate, and on the test rows: macro-F1 of the folds' models, accuracy, F1 a class, the
    predictions of a model fitted to all rows, and its probabilities."""
    classes, tables, true = world.classes, [], []
    test_features, test_labels = world.test
    splitter = RepeatedStratifiedKFold(n_splits=FOLDS, n_repeats=REPEATS, random_state=seed)
    for number, (train, held) in enumerate(splitter.split(features, labels)):
        model = clone(CANDIDATES[name]).fit(features[train], labels[train])
        table = pd.DataFrame(whole(model, features[held], classes), columns=[f"p_{c}" for c in range(classes)])
        tables.append(table.assign(row=held, repeat=number // FOLDS, fold=number % FOLDS, label=labels[held]))
        answers = model.predict(test_features)
        weights = {"sample_weight": world.test_weights}
        f1 = f1_score(test_labels, answers, average=None, labels=range(classes), zero_division=0, **weights)
        true.append([f1.mean(), accuracy_score(test_labels, answers, **weights), *f1])
    refit = clone(CANDIDATES[name]).fit(features, labels)
    return OutOfFold.of(pd.concat(tables)), np.mean(true, axis=0), whole(refit, test_features, classes)


def trial(world: World | Texts, rows: int, seed: int, counts: dict[str, list[float]]) -> None:
    """Adds what happened in one simulated question to `counts`."""
    features, labels = world.draw()
    out_of_fold, true, refitted = {}, {}, {}
    for name in CANDIDATES:
        out_of_fold[name], true[name], refitted[name] = cross_validated(name, world, features, labels, seed)
    entries = [
        {"candidate": name, "title": name, "status": "finished", "train_seconds": cost,
         "texts_per_second": 100 / (1 + cost), "size_mib": 1 + cost, "can_be_recommended": name != "majority"}
        for cost, name in enumerate(CANDIDATES)
    ]  # fmt: skip
    test_labels = world.test[1]
    how = {"average": "macro", "sample_weight": world.test_weights}
    refit_f1 = {name: f1_score(test_labels, p.argmax(axis=1), **how) for name, p in refitted.items()}
    rankings = {prefer: rank(entries, out_of_fold, prefer, seed) for prefer in ("quality", "speed")}
    recommended = {
        prefer: ranking.loc[ranking["recommended"], "candidate"].item() for prefer, ranking in rankings.items()
    }
    for prefer, chosen in recommended.items():
        counts[f"regret of prefer={prefer}"].append(max(refit_f1.values()) - refit_f1[chosen])
        counts[f"worse than another on {rows} new rows, prefer={prefer}"].append(
            is_worse(chosen, refitted, test_labels, min(rows, len(test_labels)), seed)
        )
    rows_of_ranking: list[Any] = list(rankings["quality"].itertuples())  # the default preference, here and below
    for row in rows_of_ranking:
        if row.candidate != "majority":
            counts["macro-F1 covered"].append(row.macro_f1_lower <= true[row.candidate][0] <= row.macro_f1_upper)
            counts["macro-F1 width"].append(row.macro_f1_upper - row.macro_f1_lower)
            counts["accuracy covered"].append(row.accuracy_lower <= true[row.candidate][1] <= row.accuracy_upper)
            refit = refit_f1[row.candidate]
            counts["macro-F1 of the refit covered"].append(row.macro_f1_lower <= refit <= row.macro_f1_upper)
            oof = out_of_fold[row.candidate]
            lower, upper = interval(oof.resampled(seed).f1, oof.estimate().f1[0])
            for label, value in enumerate(true[row.candidate][2:7]):
                counts[f"F1 of class {label} covered"].append(lower[label] <= value <= upper[label])
        if row.recommended:
            counts["recommended: macro-F1 covered"].append(
                row.macro_f1_lower <= true[row.candidate][0] <= row.macro_f1_upper
            )
    beside = {"projected": out_of_fold["projected"], "logistic": some_folds(out_of_fold["logistic"])}
    part = rank([entry for entry in entries if entry["candidate"] in beside], beside, "quality", seed)
    row = part.set_index("candidate").loc["logistic"]
    for what, value in (("macro-F1", true["logistic"][0]), ("macro-F1 of the refit", refit_f1["logistic"])):
        covered = row["macro_f1_lower"] <= value <= row["macro_f1_upper"]
        counts[f"{SOME_FOLDS} folds alone: {what} covered"].append(covered)
    chosen = recommended["quality"]
    for precision in (0.9, 0.95):
        sure, right = out_of_fold[chosen].surest()
        rule = abstention(sure, right, precision)
        if rule.reached:
            kept = refitted[chosen].max(axis=1) >= rule.threshold
            right = refitted[chosen][kept].argmax(axis=1) == test_labels[kept]
            counts[f"precision {precision} missed"].append(right.mean() < precision)
            counts[f"precision {precision} missed by 1 point"].append(right.mean() < precision - 0.01)
            counts[f"precision {precision} coverage"].append(kept.mean())


def some_folds(out_of_fold: OutOfFold) -> OutOfFold:
    """What a candidate has that had no time for the others: the first of one drawing."""
    first = out_of_fold.part(out_of_fold.folds[0] < SOME_FOLDS)
    return replace(first, probabilities=first.probabilities[:1], answers=first.answers[:1], repeats=first.repeats[:1])


def is_worse(chosen: str, refitted: dict[str, np.ndarray], labels: np.ndarray, rows: int, seed: int) -> bool:
    """Whether, on as many new rows as were labelled, any other candidate is better at 0.05, Holm's correction in."""
    rng = np.random.default_rng([seed, 3])
    sample = rng.choice(len(labels), rows, replace=False)
    others = [name for name in refitted if name != chosen]
    for name in others:
        first, second = (refitted[side][sample].argmax(axis=1)[:, None] for side in (chosen, name))
        difference, p, _ = difference_test(labels[sample], first, second, refitted[chosen].shape[1], rng, draws=400)
        if difference < 0 and p * len(others) < 0.05:
            return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--dataset", help="in place of Gaussian classes; one label a text")
    options = parser.parse_args()
    texts = train_rows(options.dataset, MOST_TEXTS)[1:] if options.dataset else None
    for rows in options.rows:
        counts: dict[str, list[float]] = defaultdict(list)
        for seed in range(options.trials):
            rng = np.random.default_rng([rows, seed])
            trial(Texts(texts[1], texts[0], rows, rng) if texts else World(rows, rng), rows, seed, counts)
        print(f"{options.dataset or 'Gaussian classes'}, {rows} rows, {options.trials} trials")
        for name, values in counts.items():
            print(f"  {name:60s} {100 * np.mean(values):6.1f} %  (n = {len(values)})")


if __name__ == "__main__":
    main()
