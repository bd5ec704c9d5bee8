"""Cost of a training step of every method that trains on texts of one label, relative to cross-entropy.

    python -m benchmarks.method_cost [--steps 8] [--rounds 3] [--methods ce sharprecl ...]

MiniLM on Ohsumed with each method's defaults (batches of 64 texts, as many views as the method has), forward, backward
and optimizer. Methods take turns, so that a noisy machine treats them alike; the first steps of a turn are not counted.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import yaml
from hydra.utils import get_object
from lightning.pytorch import Callback
from tabulate import tabulate

from benchmarks._measure import ROOT, spread
from engine.choices import choices
from engine.identify import compose_config
from engine.plan import Plan, instantiate_partial
from lightning_modules.base import ClassifierModule
from lightning_modules.methods.supervised.two_stages import TwoStageModule

WARM_UP = 2
OF_STAGE_ONE = ["method.representation_share=1"]  # so few steps would soon be in the second one


class StepTimes(Callback):
    """Milliseconds of each step after the first ones."""

    def __init__(self) -> None:
        self.milliseconds: list[float] = []

    def on_train_batch_start(self, *_) -> None:
        self.start = time.perf_counter()

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx) -> None:
        if batch_idx >= WARM_UP:
            self.milliseconds.append(1000 * (time.perf_counter() - self.start))


def methods() -> list[str]:
    """Methods for texts of one label that train, on labelled texts alone."""
    classes = {name: get_object(target) for name, target in choices("method").items()}
    of_one_label = {name: kind for name, kind in classes.items() if issubclass(kind, ClassifierModule)}
    return [name for name, kind in of_one_label.items() if not kind.multilabel and _trains(name, kind)]


def _trains(name: str, kind: type[ClassifierModule]) -> bool:
    """Whether it has training steps, on batches of labelled texts alone."""
    own = yaml.safe_load((ROOT / f"conf/method/{name}.yaml").read_text())
    is_frozen = own.get("encoder", {}).get("train") == "frozen"  # such a method's classifier is solved
    return not (is_frozen or kind.is_solved is True or kind.trains_unlabelled)


def turn(method: str, steps: int, folder: Path) -> tuple[list[float], int]:
    """Step times of a fresh module, and the views of its batches."""
    overrides = [f"method={method}", "dataset=ohsumed", f"trainer.max_steps={WARM_UP + steps}"]
    overrides += OF_STAGE_ONE if issubclass(get_object(choices("method")[method]), TwoStageModule) else []
    overrides += [f"paths.{name}={folder / name}" for name in ("runs", "data", "cache")]
    plan = Plan.make(compose_config(overrides))
    datamodule, times = plan.datamodule(plan.corpus()), StepTimes()
    module = plan.module(datamodule)
    with tempfile.TemporaryDirectory() as runs:
        build = instantiate_partial(plan.config.trainer)
        trainer = build(run_folder=Path(runs), callbacks=[times], logger=False, plugins=[])
        trainer.limit_val_batches = 0
        trainer.fit(module, datamodule)
    return times.milliseconds, plan.config.method.num_views


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=methods())
    options = parser.parse_args()
    names = ["ce", *(name for name in options.methods if name != "ce")]
    times: dict[str, list[float]] = {name: [] for name in names}
    views = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for name in names:
                seconds, views[name] = turn(name, options.steps, Path(folder))
                times[name].append(statistics.median(seconds))
    table = []
    for name in names:
        ratios = [own / base for own, base in zip(times[name], times["ce"], strict=True)]
        table.append((name, views[name], statistics.median(times[name]), spread(ratios)))
    table.sort(key=lambda row: row[2])
    header = ("method", "views", "ms a step", "times cross-entropy")
    print(tabulate(table, headers=header, tablefmt="github", floatfmt=".0f"))


if __name__ == "__main__":
    main()
