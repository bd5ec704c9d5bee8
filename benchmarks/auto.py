"""Race: what `task=auto` recommends, beside what people would type, on the same rows, encoder and minutes.

    python -m benchmarks.auto [--minutes 2] [--only trec:300:1 --only …] [--peers auto svm logistic …]
                              [--autogluon PYTHON] [--results FILE] [--stop-after MINUTES]

A setting is NAME:ROWS:IR, labelled train rows drawn class by class so that the largest has IR times as many as the
smallest; IR "own" keeps the shares of the data set. ROWS "all" takes all of them.

| peer | what |
|---|---|
| auto | `task=auto`, then `task=predict` by what it recommends |
| majority | the commonest label of the train rows |
| svm | TF-IDF of words and pairs with a linear SVM; C, pairs and class weights by 5-fold macro-F1 on the train rows |
| logistic | the frozen encoder with logistic regression, C and class weights chosen alike |
| setfit | SetFit with its defaults, stopped after the minutes |
| autogluon | AutoGluon on features of the text, by the interpreter of `--autogluon` |
| autogluon_text | its text model on the same encoder, likewise |

Macro-F1 on test rows of the set (at most 1,000) that nothing chooses by, with 95 % intervals; the difference of auto
and the best peer by paired resampling of those rows. A line of `--results` is one finished cell; started again, the
race goes on. Beside the rows of a setting lies the `ranking.csv` of auto. `--stop-after` begins no cell after so many
minutes.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

from benchmarks._measure import ROOT
from datamodules.splits import rank_in_class
from reporting.intervals import bootstrap_intervals
from reporting.metrics import classification_metrics
from reporting.resampling import DRAWS

SETTINGS = (
    *("docstrings:300:1", "trec:300:1", "trec:300:20", "cr:300:5", "agnews:300:13", "agnews:1000:50"),
    *("r52:1000:own", "ohsumed:300:own", "ohsumed:1000:own", "dblp:300:10", "dblp:100:1"),
    *("stackoverflow:300:1", "searchsnippets:300:5", "searchsnippets:100:1", "tweet:300:own", "trec:all:own"),
)
PEERS = ("auto", "majority", "svm", "logistic", "setfit", "autogluon", "autogluon_text")
MOST_TEST = 1000
LEAST_OF_A_CLASS = 2
FOLDS = 5
PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0)  # C of scikit-learn


def thinned(labels: np.ndarray, rows: int | None, ratio: float | None, rng: np.random.Generator) -> np.ndarray:
    """Positions of about `rows` rows: `ratio` to 1 from the largest to the smallest class, geometrically between.

    Args:
        labels: (N,) class indices.
        rows: None takes all that the ratio allows.
        ratio: None keeps the shares of the classes.
    """
    sizes = np.bincount(labels)
    order = np.argsort(-sizes, kind="stable")
    shares = sizes.astype(float)
    if ratio is not None:
        shares[order] = ratio ** -np.linspace(0, 1, len(sizes))
    wanted = shares / shares.sum() * (rows or len(labels))
    quota = np.minimum(np.maximum(np.round(wanted), LEAST_OF_A_CLASS), sizes)
    return np.sort(np.flatnonzero(rank_in_class(labels, rng) < quota[labels]))


def write_setting(setting: str, folder: Path, seed: int) -> None:
    """`train.csv` and `test.csv` of a setting."""
    from tasks.auto.candidates.plans import plan_of

    name, rows, ratio = setting.split(":")
    words = [f"dataset={name}", "method=logistic", f"paths.data={ROOT / 'data'}"]
    corpus = plan_of(words).corpus()
    rng = np.random.default_rng([seed, 17])
    tables = {}
    for split in ("train", "test"):
        if split not in corpus.splits:
            corpus = plan_of(words).corpus(whole=True)
        table = corpus.table(split if split in corpus.splits else "train")
        tables[split] = (np.array(table["text"].to_pylist(), object), table["label"].to_numpy())
    texts, labels = tables["train"]
    test_texts, test_labels = tables["test"]
    held = rng.permutation(len(test_labels))[:MOST_TEST]
    test_texts, test_labels = test_texts[held], test_labels[held]
    kept = (labels >= 0) & ~np.isin(texts, test_texts)
    texts, labels = texts[kept], labels[kept]
    drawn = thinned(labels, None if rows == "all" else int(rows), None if ratio == "own" else float(ratio), rng)
    folder.mkdir(parents=True, exist_ok=True)
    for split, values in (("train", (texts[drawn], labels[drawn])), ("test", (test_texts, test_labels))):
        with (folder / f"{split}.csv").open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow(["text", "label"])
            lines.writerows((text, corpus.label_names[label]) for text, label in zip(*values, strict=True))


def columns(path: Path) -> tuple[list[str], list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], [row["label"] for row in rows]


# --- the peers: folder of a setting, minutes -> predicted labels of the test rows, and seconds of learning

Answer = tuple[list[str], float, str]
Line = dict[str, Any]  # a cell of the table


def auto(folder: Path, minutes: float, options: argparse.Namespace) -> Answer:
    with tempfile.TemporaryDirectory() as place:
        run = [sys.executable, str(ROOT / "run.py")]
        where = [f"paths.{name}={place}/{name}" for name in ("runs", "data", "cache")]
        words = ["task=auto", f"input={folder / 'train.csv'}", f"minutes={minutes}", *where]
        started = time.perf_counter()
        result = subprocess.run([*run, *words], check=True, capture_output=True, text=True, cwd=ROOT)
        seconds = time.perf_counter() - started
        answer = Path(result.stdout.splitlines()[-1])
        metrics = json.loads((answer / "metrics.json").read_text())
        shutil.copy(answer / "ranking.csv", folder)
        words = ["task=predict", f"run={answer}", f"input={folder / 'test.csv'}", f"output={place}/predicted.csv"]
        subprocess.run([*run, *words, *where], check=True, capture_output=True, cwd=ROOT)
        with Path(place, "predicted.csv").open(newline="", encoding="utf-8") as file:
            return [row["prediction"] for row in csv.DictReader(file)], seconds, metrics["recommended"]


def majority(folder: Path, minutes: float, options: argparse.Namespace) -> Answer:
    labels = columns(folder / "train.csv")[1]
    most = max(sorted(set(labels)), key=labels.count)
    return [most] * len(columns(folder / "test.csv")[1]), 0.0, most


def tuned(model: Any, grid: dict[str, Any], inputs: Any, labels: Any) -> Any:
    """The model with the settings of best macro-F1 on folds of the train rows, fitted to all of them."""
    from sklearn.metrics import f1_score, make_scorer
    from sklearn.model_selection import GridSearchCV

    scoring = make_scorer(f1_score, average="macro", pos_label=None, zero_division=0)  # of two classes too
    return GridSearchCV(model, grid, scoring=scoring, cv=FOLDS).fit(inputs, labels)


def svm(folder: Path, minutes: float, options: argparse.Namespace) -> Answer:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import Pipeline
    from sklearn.svm import LinearSVC

    texts, labels = columns(folder / "train.csv")
    started = time.perf_counter()
    model = Pipeline([("words", TfidfVectorizer(sublinear_tf=True)), ("svm", LinearSVC(max_iter=20_000))])
    grid = {"words__ngram_range": [(1, 1), (1, 2)], "svm__C": PENALTIES, "svm__class_weight": [None, "balanced"]}
    search = tuned(model, grid, texts, labels)
    seconds = time.perf_counter() - started
    return search.predict(columns(folder / "test.csv")[0]).tolist(), seconds, str(search.best_params_["svm__C"])


def encoder_folder() -> str:
    from tasks.auto.candidates.plans import plan_of

    encoder: Any = plan_of(["method=logistic"]).encoder
    return str(encoder.folder())


def logistic(folder: Path, minutes: float, options: argparse.Namespace) -> Answer:
    from sentence_transformers import SentenceTransformer
    from sklearn.linear_model import LogisticRegression

    texts, labels = columns(folder / "train.csv")
    started = time.perf_counter()
    encoder = SentenceTransformer(encoder_folder(), device="cpu")
    rows = encoder.encode(texts, normalize_embeddings=True)
    grid = {"C": PENALTIES, "class_weight": [None, "balanced"]}
    search = tuned(LogisticRegression(max_iter=1000), grid, rows, labels)
    seconds = time.perf_counter() - started
    asked = encoder.encode(columns(folder / "test.csv")[0], normalize_embeddings=True)
    return search.predict(asked).tolist(), seconds, str(search.best_params_)


def setfit(folder: Path, minutes: float, options: argparse.Namespace) -> Answer:
    texts, labels = columns(folder / "train.csv")
    started = time.perf_counter()
    names = sorted(set(labels))
    targets = [names.index(label) for label in labels]
    model = setfit_fitted(texts, targets, started + 54 * minutes, labels=names)
    seconds = time.perf_counter() - started
    asked = columns(folder / "test.csv")[0]
    return [str(label) for label in model.predict(asked, show_progress_bar=False)], seconds, ""


def setfit_fitted(texts: list[str], targets: list[Any], stop_at: float, **settings: Any) -> Any:
    """SetFit's model; the pairs end at `stop_at` of `time.perf_counter`, its head is fitted afterwards."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer
    from setfit import SetFitModel, Trainer, TrainingArguments
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from transformers import TrainerCallback

    class Stop(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> Any:
            control.should_training_stop = time.perf_counter() > stop_at
            return control

    head: Any = LogisticRegression(max_iter=1000)
    if "multi_target_strategy" in settings:
        head = OneVsRestClassifier(head)
    body = SentenceTransformer(encoder_folder(), device="cpu")
    model = SetFitModel(model_body=body, model_head=head, **settings)
    rows = Dataset.from_dict({"text": texts, "label": targets})
    with tempfile.TemporaryDirectory() as place:
        quiet = {"report_to": "none", "show_progress_bar": False}
        trainer = Trainer(model=model, args=TrainingArguments(output_dir=place, **quiet), train_dataset=rows,
                          callbacks=[Stop()])  # fmt: skip
        trainer.train()
    return model


def _autogluon(folder: Path, minutes: float, options: argparse.Namespace, *more: str) -> Answer:
    if options.autogluon is None:
        raise FileNotFoundError("no interpreter that has AutoGluon: --autogluon PYTHON")
    output = folder / "autogluon.json"
    script = [options.autogluon, str(ROOT / "benchmarks" / "_autogluon.py")]
    started = time.perf_counter()
    files = [str(folder / "train.csv"), str(folder / "test.csv"), str(60 * minutes), str(output)]
    subprocess.run([*script, *files, *more], check=True, capture_output=True)
    return list(map(str, json.loads(output.read_text()))), time.perf_counter() - started, ""


def autogluon(folder: Path, minutes: float, options: argparse.Namespace) -> Answer:
    return _autogluon(folder, minutes, options)


def autogluon_text(folder: Path, minutes: float, options: argparse.Namespace) -> Answer:
    return _autogluon(folder, minutes, options, encoder_folder())


CASES: dict[str, Callable[[Path, float, argparse.Namespace], Answer]] = {
    "auto": auto,
    "majority": majority,
    "svm": svm,
    "logistic": logistic,
    "setfit": setfit,
    "autogluon": autogluon,
    "autogluon_text": autogluon_text,
}


def cell(
    setting: str,
    peer: str,
    options: argparse.Namespace,
    write: Callable[[str, Path, int], None] = write_setting,
    cases: Mapping[str, Callable[[Path, float, argparse.Namespace], Answer]] = CASES,
) -> Line:
    """One line of the results; in a process of its own, so that no peer warms another up."""
    folder = Path(options.folder) / f"{setting.replace(':', '-')}-{options.seed}"
    if not (folder / "test.csv").exists():
        write(setting, folder, options.seed)
    predictions, seconds, what = cases[peer](folder, options.minutes, options)
    return {"setting": setting, "peer": peer, "seed": options.seed, "minutes": options.minutes, "seconds": seconds,
            "chosen": what, "labels": columns(folder / "test.csv")[1], "predictions": predictions}  # fmt: skip


# --- figures


def indices(line: Line) -> tuple[np.ndarray, np.ndarray, int]:
    names = sorted(set(line["labels"]) | set(line["predictions"]))
    places = {name: place for place, name in enumerate(names)}
    labels, predictions = (np.array([places[name] for name in line[key]]) for key in ("labels", "predictions"))
    return labels, predictions, len(names)


def macro_f1(line: Line) -> tuple[float, float, float]:
    """Macro-F1 in percent with its interval."""
    labels, predictions, classes = indices(line)
    ends = bootstrap_intervals(labels, predictions, classes, np.random.default_rng(0))
    value = classification_metrics(labels, predictions, classes)["macro_f1"]
    return 100 * value, 100 * ends["macro_f1_low"], 100 * ends["macro_f1_high"]


def difference(first: Line, second: Line) -> str:
    """Macro-F1 of the first less that of the second, with the interval of resampled test rows."""
    both = {"labels": first["labels"] * 2, "predictions": first["predictions"] + second["predictions"]}
    labels, predictions, classes = indices(both)
    rows = len(labels) // 2
    rng = np.random.default_rng(0)
    draws = []
    for _ in range(DRAWS // 4):
        drawn = rng.integers(0, rows, rows)
        figures = [
            classification_metrics(labels[drawn], predictions[drawn + start], classes)["macro_f1"]
            for start in (0, rows)
        ]
        draws.append(100 * (figures[0] - figures[1]))
    lower, upper = np.quantile(draws, [0.025, 0.975])
    return f"{macro_f1(first)[0] - macro_f1(second)[0]:+.1f} ({lower:+.1f} to {upper:+.1f})"


def show(lines: list[Line]) -> None:
    peers = [peer for peer in PEERS if any(line["peer"] == peer for line in lines)]
    table = []
    for setting in dict.fromkeys(line["setting"] for line in lines):
        own = {line["peer"]: line for line in lines if line["setting"] == setting}
        row = [setting]
        for peer in peers:
            if peer in own:
                value, lower, upper = macro_f1(own[peer])
                chosen = f" {own[peer]['chosen']}" if peer == "auto" else ""
                row.append(f"{value:.1f} ({lower:.0f} to {upper:.0f}), {own[peer]['seconds']:.0f} s{chosen}")
            else:
                row.append("")
        rivals = [line for peer, line in own.items() if peer != "auto"]
        if "auto" in own and rivals:
            row.append(difference(own["auto"], max(rivals, key=lambda line: macro_f1(line)[0])))
        table.append(row)
    print(tabulate(table, ["setting", *peers, "auto minus the best peer"], tablefmt="github"))


def main() -> None:
    parser = race_parser(__doc__, "race_auto")
    parser.add_argument("--peers", nargs="+", default=PEERS[:5], choices=PEERS)
    parser.add_argument("--autogluon", help="interpreter of an environment that has AutoGluon")
    options = parser.parse_args()
    race(options.only or SETTINGS, cell, options)
    show(results_of(options))


def race_parser(description: str | None, results: str) -> argparse.ArgumentParser:
    """Words of a race; its cells go to `runs/RESULTS.jsonl` unless another file is named."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=raw)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--only", action="append", metavar="SETTING", help="may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="of the drawn rows")
    parser.add_argument("--results", type=Path, default=ROOT / "runs" / f"{results}.jsonl")
    parser.add_argument("--stop-after", type=float, default=np.inf, help="minutes after which no cell begins")
    return parser


def race(settings: Sequence[str], cell: Callable[[str, str, argparse.Namespace], Line], options: Any) -> None:
    """Runs the cells of `settings` and `options.peers` that `options.results` has not yet."""
    options.folder = str(options.results.with_suffix(""))
    options.results.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    for setting in settings:
        for peer in options.peers:
            if (setting, peer) in {(line["setting"], line["peer"]) for line in results_of(options)}:
                continue
            if time.perf_counter() - started > 60 * options.stop_after:
                return
            print(f"{setting}: {peer}", file=sys.stderr, flush=True)
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                line = pool.submit(cell, setting, peer, options).result()
            with options.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + os.linesep)


def results_of(options: argparse.Namespace) -> list[Line]:
    """Finished cells of this seed and as many minutes; a line that a kill cut short is none."""
    path = options.results
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    cells = [json.loads(line) for line in lines if line.endswith("}")]
    return [cell for cell in cells if (cell["seed"], cell["minutes"]) == (options.seed, options.minutes)]


if __name__ == "__main__":
    main()
