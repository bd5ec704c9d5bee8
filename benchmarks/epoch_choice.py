"""Which epoch to keep where few rows validate: rules side by side, on train rows alone.

    python -m benchmarks.epoch_choice [--settings trec:300:1 cr:300:5 …] [--drawings 2] [--results FILE]

A setting is NAME:ROWS:IR as in `benchmarks.auto`. MiniLM's upper half is fine-tuned on the drawn rows as `task=auto`
does it; a fifth of them validates. Each epoch is measured on 600 further train rows, so that every rule can be looked
up afterwards: the lowest validation loss, the best macro-F1, the latest of the best, the last epoch. A line of
`--results` (`runs/epoch_choice.jsonl`) is one finished drawing; started again, the rest goes on.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import lightning.pytorch as pl
import numpy as np
import torch
from tabulate import tabulate

from benchmarks._measure import ROOT
from benchmarks.auto import thinned
from datamodules.datamodule import DataModule
from reporting.metrics import classification_metrics
from tasks import fit
from tasks.auto.candidates.declarations import by_name
from tasks.auto.candidates.plans import plan_of

SETTINGS = ("agnews:300:13", "trec:300:1", "cr:300:5", "stackoverflow:300:1", "r52:300:own", "trec:300:20")
FURTHER = 600
EPOCHS, BATCH = 6, 16


class EveryEpoch(pl.Callback):
    """Macro-F1 on the test split of each epoch, kept aside."""

    def __init__(self, datamodule: DataModule) -> None:
        self.datamodule = datamodule
        self.figures: list[float] = []

    @torch.no_grad()
    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        labels, answers = [], []
        for batch in self.datamodule.test_dataloader():
            labels.append(batch["labels"])
            answers.append(pl_module(batch)["logits"].argmax(1))
        figures = classification_metrics(torch.cat(labels).numpy(), torch.cat(answers).numpy(), pl_module.num_classes)
        self.figures.append(figures["macro_f1"])


def write_rows(setting: str, drawing: int, folder: Path) -> None:
    """`train.csv` of the drawn rows and `test.csv` of further ones, both of the train split."""
    name, rows, ratio = setting.split(":")
    corpus = plan_of([f"dataset={name}", "method=logistic"]).corpus()
    table = corpus.table("train")
    texts, labels = np.array(table["text"].to_pylist(), object), table["label"].to_numpy()
    rng = np.random.default_rng([drawing, 99])
    drawn = thinned(labels, int(rows), None if ratio == "own" else float(ratio), rng)
    rest = np.setdiff1d(np.arange(len(labels)), drawn)
    rest = rng.permutation(rest[~np.isin(texts[rest], texts[drawn])])[:FURTHER]
    for split, positions in (("train", drawn), ("test", rest)):
        with (folder / f"{split}.csv").open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow(["text", "label"])
            lines.writerows((texts[row], corpus.label_names[labels[row]]) for row in positions)


def measured(setting: str, drawing: int) -> dict[str, float]:
    """Macro-F1 on the further rows at the epoch of each rule."""
    with tempfile.TemporaryDirectory() as place:
        write_rows(setting, drawing, Path(place))
        plan = plan_of([
            *by_name(several=False)["ce_half"].words_of(blocks=6),
            *("dataset=csv", f"dataset.train={place}/train.csv", f"dataset.test={place}/test.csv"),
            *("protocol.val_fraction=0.2", "dataset.singleton_classes=keep_in_train", f"trainer.max_epochs={EPOCHS}"),
            *(f"sampler.batch_size={BATCH}", "callbacks.early_stopping=null", "callbacks.progress=null", "rival=null"),
            *("logger=null", f"seed={drawing}", f"paths.runs={place}/runs", f"paths.data={place}/data"),
            f"paths.cache={place}/cache",
        ])  # fmt: skip
        watched = fit.watched_trainer
        watchers: list[EveryEpoch] = []

        def with_watcher(plan: Any, run: Any, datamodule: DataModule) -> pl.Trainer:
            trainer: Any = watched(plan, run, datamodule)
            watchers.append(EveryEpoch(datamodule))
            trainer.callbacks.insert(0, watchers[0])
            return trainer

        with patch.object(fit, "watched_trainer", with_watcher):
            run = fit.trained_run(plan)
        with (run.path / "history.csv").open(newline="") as file:
            history = list(csv.DictReader(file))
    further = np.array(watchers[0].figures)[-len(history) :]
    loss, macro_f1 = (np.array([float(row[f"val/{name}"]) for row in history]) for name in ("loss", "macro_f1"))
    chosen: dict[str, Any] = {
        "lowest loss": loss.argmin(),
        "best macro-F1": macro_f1.argmax(),
        "latest of the best": len(history) - 1 - macro_f1[::-1].argmax(),
        "last": -1,
    }
    return {rule: float(further[epoch]) for rule, epoch in chosen.items()} | {"best of all": float(further.max())}


def every_drawing(
    options: argparse.Namespace,
    measured: Callable[[str, int], Mapping[str, Any]],
    asked: Mapping[str, Any] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """What is measured of every drawing of every setting; a line of `options.results` each, those there are kept.

    Args:
        asked: further values of JSON, which a line has too: those of a line decide whether it is an answer.
    """
    options.results.parent.mkdir(parents=True, exist_ok=True)
    known = [json.loads(line) for line in options.results.open()] if options.results.exists() else []
    lines: list[dict[str, Any]] = []
    for drawing, setting in product(range(options.drawings), options.settings):
        question = {"setting": setting, "drawing": drawing, **asked}
        line = next((line for line in known if question.items() <= line.items()), None)
        if line is None:
            line = question | dict(measured(setting, drawing))
            with options.results.open("a") as file:
                print(json.dumps(line), file=file, flush=True)
        lines.append(line)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="+", default=SETTINGS)
    parser.add_argument("--drawings", type=int, default=2)
    parser.add_argument("--results", type=Path, default=ROOT / "runs/epoch_choice.jsonl")
    options = parser.parse_args()
    lines = every_drawing(options, measured)
    rules = [name for name in lines[0] if name not in ("setting", "drawing")]
    rows = [[line["setting"], line["drawing"], *(100 * line[rule] for rule in rules)] for line in lines]
    rows.append(["mean", "", *(100 * np.mean([line[rule] for line in lines]) for rule in rules)])
    print(tabulate(rows, headers=["train rows", "drawing", *rules], tablefmt="github", floatfmt=".1f"))


if __name__ == "__main__":
    main()
