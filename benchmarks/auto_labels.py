"""Race where texts have several labels: what `task=auto` recommends, beside what people would type.

    python -m benchmarks.auto_labels [--minutes 2] [--only reuters21578:1000 --only …] [--peers auto svm logistic …]
                                     [--results FILE] [--stop-after MINUTES]

A setting is NAME:ROWS, train rows drawn at random; labels that fewer than two of them have are left out, and so are
rows that are left without one.

| peer | what |
|---|---|
| auto | `task=auto`, then `task=predict` by what it recommends |
| svm | TF-IDF of words and pairs with a linear SVM of each label; C, pairs and class weights by 5-fold macro-F1 |
| logistic | the frozen encoder with logistic regression of each label, C and class weights chosen alike |
| logistic_thresholds | the same, and each label's threshold the one of best F1 on five folds of the train rows |
| setfit | SetFit with one classifier a label, otherwise its defaults, stopped after the minutes |

Macro-F1 over the labels on at most 1,000 test rows that nothing chooses by, with 95 % intervals; the difference of auto
and the best peer by paired resampling of those rows. Otherwise as `benchmarks.auto`.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

from benchmarks._measure import ROOT
from benchmarks.auto import (
    FOLDS,
    LEAST_OF_A_CLASS,
    MOST_TEST,
    PENALTIES,
    Answer,
    Line,
    auto,
    cell,
    columns,
    encoder_folder,
    race,
    race_parser,
    results_of,
    setfit_fitted,
    tuned,
)
from reporting import several_labels
from reporting.multilabel_metrics import best_threshold

SETTINGS = ("reuters21578:300", "reuters21578:1000", "goemotions:300", "goemotions:1000")
PEERS = ("auto", "svm", "logistic", "logistic_thresholds", "setfit")
SEPARATOR = "|"


def write_setting(setting: str, folder: Path, seed: int) -> None:
    """`train.csv` and `test.csv` of a setting."""
    from tasks.auto.candidates.plans import plan_of

    name, rows = setting.split(":")
    corpus = plan_of([f"dataset={name}", "method=bce", f"paths.data={ROOT / 'data'}"]).corpus()
    rng = np.random.default_rng([seed, 19])
    train, test = (corpus.table(split) for split in ("train", "test"))
    drawn = rng.permutation(len(train))[: int(rows)].tolist()
    counts = np.bincount([label for row in drawn for label in train["label"][row].as_py()])
    allowed = set(np.flatnonzero(counts >= LEAST_OF_A_CLASS).tolist())
    folder.mkdir(parents=True, exist_ok=True)
    for split, table, places in (("train", train, drawn), ("test", test, rng.permutation(len(test))[:MOST_TEST])):
        with (folder / f"{split}.csv").open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow(["text", "label"])
            for row in map(int, places):
                labels = [corpus.label_names[label] for label in table["label"][row].as_py() if label in allowed]
                if labels or split == "test":
                    lines.writerow([table["text"][row].as_py(), SEPARATOR.join(labels)])


# --- the peers


def indicators(cells: list[str], names: list[str]) -> np.ndarray:
    """(N, C) of 0 and 1."""
    places = {name: place for place, name in enumerate(names)}
    bits = np.zeros((len(cells), len(names)), int)
    for row, names_of_row in enumerate(cells):
        bits[row, [places[name] for name in names_of_row.split(SEPARATOR) if name in places]] = 1
    return bits


def names_of(cells: list[str]) -> list[str]:
    return sorted({name for cell in cells for name in cell.split(SEPARATOR) if name})


def joined(bits: np.ndarray, names: list[str]) -> list[str]:
    return [SEPARATOR.join(names[place] for place in np.flatnonzero(row)) for row in np.asarray(bits)]


def svm(folder: Path, minutes: float, options: argparse.Namespace) -> Answer:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import Pipeline
    from sklearn.svm import LinearSVC

    texts, cells = columns(folder / "train.csv")
    names = names_of(cells)
    started = time.perf_counter()
    one_a_label = OneVsRestClassifier(LinearSVC(max_iter=20_000))
    model = Pipeline([("words", TfidfVectorizer(sublinear_tf=True)), ("svm", one_a_label)])
    grid = {"words__ngram_range": [(1, 1), (1, 2)], "svm__estimator__C": PENALTIES,
            "svm__estimator__class_weight": [None, "balanced"]}  # fmt: skip
    search = tuned(model, grid, texts, indicators(cells, names))
    seconds = time.perf_counter() - started
    answers = search.predict(columns(folder / "test.csv")[0])
    return joined(answers, names), seconds, str(search.best_params_["svm__estimator__C"])


def logistic(folder: Path, minutes: float, options: argparse.Namespace, tune_thresholds: bool = False) -> Answer:
    from sentence_transformers import SentenceTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from sklearn.multiclass import OneVsRestClassifier

    texts, cells = columns(folder / "train.csv")
    names = names_of(cells)
    started = time.perf_counter()
    encoder = SentenceTransformer(encoder_folder(), device="cpu")
    rows, labels = encoder.encode(texts, normalize_embeddings=True), indicators(cells, names)
    grid = {"estimator__C": PENALTIES, "estimator__class_weight": [None, "balanced"]}
    search = tuned(OneVsRestClassifier(LogisticRegression(max_iter=1000)), grid, rows, labels)
    thresholds: Any = 0.5
    if tune_thresholds:
        held_out = cross_val_predict(search.best_estimator_, rows, labels, cv=FOLDS, method="predict_proba")
        thresholds = best_threshold(labels, held_out, "per_label")
    seconds = time.perf_counter() - started
    asked = encoder.encode(columns(folder / "test.csv")[0], normalize_embeddings=True)
    return joined(search.predict_proba(asked) > thresholds, names), seconds, str(search.best_params_)


def setfit(folder: Path, minutes: float, options: argparse.Namespace) -> Answer:
    texts, cells = columns(folder / "train.csv")
    names = names_of(cells)
    started = time.perf_counter()
    targets = indicators(cells, names).tolist()
    model = setfit_fitted(texts, targets, started + 54 * minutes, multi_target_strategy="one-vs-rest")
    seconds = time.perf_counter() - started
    return joined(model.predict(columns(folder / "test.csv")[0], show_progress_bar=False), names), seconds, ""


def auto_lists(folder: Path, minutes: float, options: argparse.Namespace) -> Answer:
    """What it predicts comes as JSON lists."""
    cells, seconds, chosen = auto(folder, minutes, options)
    return [SEPARATOR.join(json.loads(cell)) for cell in cells], seconds, chosen


CASES = {"auto": auto_lists, "svm": svm, "logistic": logistic, "setfit": setfit}
CASES["logistic_thresholds"] = partial(logistic, tune_thresholds=True)


# --- figures


def bits_of(line: Line, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Labels (N, C) and answers (1, N, C)."""
    labels, answers = (indicators(line[key], names).astype(bool) for key in ("labels", "predictions"))
    return labels, answers[None]


def figures(line: Line) -> str:
    """Macro-F1 with its interval, and micro-F1, in percent."""
    labels, answers = bits_of(line, names_of([*line["labels"], *line["predictions"]]))
    values = several_labels.estimate(labels, answers)
    draws = several_labels.bootstrap(labels, answers, np.random.default_rng(0)).macro_f1
    lower, upper = 100 * np.quantile(draws, [0.025, 0.975])
    return f"{100 * values.macro_f1[0]:.1f} ({lower:.0f} to {upper:.0f}), micro {100 * values.micro_f1[0]:.1f}"


def difference(first: Line, second: Line) -> str:
    """Macro-F1 of the first less that of the second, with the interval of resampled test rows."""
    names = names_of([*first["labels"], *first["predictions"], *second["predictions"]])
    rng = np.random.default_rng(0)
    rows = len(first["labels"])
    weights = np.vstack([np.ones(rows), rng.multinomial(rows, np.full(rows, 1 / rows), 500)])
    figures = []
    for line in (first, second):
        labels, answers = bits_of(line, names)
        counts = several_labels.counted(labels, answers[0], weights)
        figures.append(100 * several_labels.scores(counts[:, None]).macro_f1)
    value, *draws = figures[0] - figures[1]
    lower, upper = np.quantile(draws, [0.025, 0.975])
    return f"{value:+.1f} ({lower:+.1f} to {upper:+.1f})"


def macro_f1(line: Line) -> float:
    names = names_of([*line["labels"], *line["predictions"]])
    return float(several_labels.estimate(*bits_of(line, names)).macro_f1[0])


def show(lines: list[Line]) -> None:
    peers = [peer for peer in PEERS if any(line["peer"] == peer for line in lines)]
    table = []
    for setting in dict.fromkeys(line["setting"] for line in lines):
        own = {line["peer"]: line for line in lines if line["setting"] == setting}
        row: list[Any] = [setting]
        for peer in peers:
            chosen = f" {own[peer]['chosen']}" if peer == "auto" and peer in own else ""
            row.append(f"{figures(own[peer])}, {own[peer]['seconds']:.0f} s{chosen}" if peer in own else "")
        rivals = [line for peer, line in own.items() if peer != "auto"]
        row.append(difference(own["auto"], max(rivals, key=macro_f1)) if "auto" in own and rivals else "")
        table.append(row)
    print(tabulate(table, ["setting", *peers, "auto minus the best peer"], tablefmt="github"))


def main() -> None:
    parser = race_parser(__doc__, "race_auto_labels")
    parser.add_argument("--peers", nargs="+", default=PEERS, choices=PEERS)
    options = parser.parse_args()
    race(options.only or SETTINGS, partial(cell, write=write_setting, cases=CASES), options)
    show(results_of(options))


if __name__ == "__main__":
    main()
