"""Fine-tuning by pairs or by cross-entropy where rows are few, and for how many epochs: on train rows alone.

    python -m benchmarks.pairs_choice [--settings trec:100:1 …] [--drawings 1] [--epochs 6 9 15] [--results FILE]
        [--beside pairs_words cross-entropy linear_words]

A setting is NAME:ROWS:IR as in `benchmarks.auto`. MiniLM's upper half learns from all drawn rows, by SetFit's pairs for
so many epochs, and, as `task=auto` has it, by cross-entropy, a fifth of the rows choosing the epoch; `linear_words`
does not train it, and `pairs_words` has the last number of epochs. Macro-F1 is that of 600 further train rows. A line
of `--results` (`runs/pairs_choice.jsonl`) is one finished drawing with these words; started again, the rest goes on.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tabulate import tabulate

from benchmarks._measure import ROOT
from benchmarks.auto import columns
from benchmarks.epoch_choice import every_drawing, write_rows
from kontrast import TextClassifier, auto
from reporting.metrics import classification_metrics
from tasks.auto.candidates.plans import INNER_SHARE
from tasks.auto.comparison.runs import epochs_and_batch

DATASETS = ("agnews", "cr", "dblp", "searchsnippets", "stackoverflow", "trec")
SETTINGS = tuple(f"{name}:{rows}:1" for rows in (100, 300) for name in DATASETS)
BESIDE = CROSS_ENTROPY, LINEAR_WORDS, PAIRS_WORDS = "cross-entropy", "linear_words", "pairs_words"


def candidates(rows: int, epochs: Sequence[int], beside: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Settings of `kontrast.TextClassifier` by name, for so many rows; of `linear_words` those of `kontrast.auto`."""
    upper_half = {"encoder__train": "top_layers", "encoder__num_top_layers": 3}
    number, batch = epochs_and_batch(rows)
    of_cross_entropy = {
        "method": "ce",
        "protocol__val_fraction": INNER_SHARE,
        "protocol__ties": "latest",
        "sampler__batch_size": batch,
        "trainer__max_epochs": number,
    }
    of_pairs = upper_half | {"method": "setfit_pairs", "protocol__monitor": None, "protocol__val_fraction": 0}
    by_epochs = {f"pairs, {number} epochs": of_pairs | {"trainer__max_epochs": number} for number in epochs}
    of_linear_words: dict[str, Any] = {"methods": [LINEAR_WORDS]}
    of_pairs_words = of_pairs | {"trainer__max_epochs": epochs[-1], "method": "pairs_words"}
    others = {
        CROSS_ENTROPY: upper_half | of_cross_entropy,
        LINEAR_WORDS: of_linear_words,
        PAIRS_WORDS: of_pairs_words,
    }
    return by_epochs | {name: others[name] for name in beside}


def measured(
    setting: str, drawing: int, epochs: Sequence[int], beside: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """Macro-F1 on the further rows and seconds of training, of each candidate."""
    figures = {}
    with tempfile.TemporaryDirectory() as place:
        write_rows(setting, drawing, Path(place))
        (texts, labels), (asked, truth) = (columns(Path(place, f"{split}.csv")) for split in ("train", "test"))
        shared: dict[str, Any] = {f"paths__{name}": f"{place}/{name}" for name in ("runs", "data", "cache")}
        of_fits = shared | {"rival": None, "logger": None, "protocol": "kfold", "protocol__fold": None}
        of_fits |= {"dataset__singleton_classes": "keep_in_train"}
        for name, settings in candidates(len(texts), epochs, beside).items():
            started = time.perf_counter()
            if name == LINEAR_WORDS:
                frame = pd.DataFrame({"text": texts, "label": labels})
                model = auto(frame, minutes=2, **shared | settings).model
            else:
                model = TextClassifier(**of_fits | settings).fit(texts, labels)
            seconds = time.perf_counter() - started
            places = {label: number for number, label in enumerate(model.classes_)}
            own, answers = (np.array([places[label] for label in some]) for some in (truth, model.predict(asked)))
            figures[name] = classification_metrics(own, answers, len(places))["macro_f1"], seconds
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="+", default=SETTINGS)
    parser.add_argument("--drawings", type=int, default=1)
    parser.add_argument("--epochs", type=int, nargs="+", default=(6, 9, 15))
    parser.add_argument("--beside", nargs="+", default=BESIDE[:1], choices=BESIDE)
    parser.add_argument("--results", type=Path, default=ROOT / "runs/pairs_choice.jsonl")
    options = parser.parse_args()
    asked = {"epochs": list(options.epochs), "beside": list(options.beside)}
    of_drawing = partial(measured, epochs=options.epochs, beside=options.beside)
    lines = every_drawing(options, lambda *drawing: {"figures": of_drawing(*drawing)}, asked)
    names = list(lines[0]["figures"])
    table: list[list[Any]] = []
    for line in lines:
        table.append([line["setting"], line["drawing"], *(100 * line["figures"][name][0] for name in names)])
    for number, what in enumerate(("macro-F1", "seconds")):
        means = (np.mean([line["figures"][name][number] for line in lines]) for name in names)
        table.append([f"mean {what}", "", *(mean if number else 100 * mean for mean in means)])
    print(tabulate(table, headers=["train rows", "drawing", *names], tablefmt="github", floatfmt=".1f"))


if __name__ == "__main__":
    main()
