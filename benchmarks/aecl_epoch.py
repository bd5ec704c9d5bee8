"""Where the time of AECL's training goes: the encoder, the rest of a step, and what lies between steps.

    python -m benchmarks.aecl_epoch [--dataset tweet] [--train top_layers|full|frozen] [--threads 2] [--steps 12]

As many steps of each stage are timed as `--steps` says, after two that are not. The encoder's share is its forward
pass and, from the moment when the gradient of its embeddings is there, the rest of the backward pass. `other` is
attention, heads, losses and optimizer; `between` is the wait for the next batch and the work before an epoch (k-means
of the second stage), spread over the steps.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import Any

from lightning.pytorch import Callback
from tabulate import tabulate

from engine.identify import compose_config
from engine.plan import Plan, instantiate_partial

WARM_UP = 2


class Shares(Callback):
    """Seconds of each step by what they went to: {stage: [(encoder, other, between)]}."""

    def __init__(self) -> None:
        self.seconds: dict[int, list[tuple[float, float, float]]] = {}
        self.ended, self.gradient = time.perf_counter(), 0.0

    def setup(self, trainer, pl_module, stage) -> None:
        pl_module.encoder.register_forward_pre_hook(self._begin)
        pl_module.encoder.register_forward_hook(self._end)

    def _begin(self, *_: Any) -> None:
        self.started = time.perf_counter()

    def _end(self, module: Any, inputs: Any, embeddings: Any) -> None:
        self.encoder += time.perf_counter() - self.started
        if embeddings.requires_grad:
            embeddings.register_hook(self._gradient_is_there)

    def _gradient_is_there(self, gradient: Any) -> None:
        self.gradient = self.gradient or time.perf_counter()  # of the first piece of a batch

    def on_train_batch_start(self, *_: Any) -> None:
        self.batch_started, self.encoder, self.gradient = time.perf_counter(), 0.0, 0.0

    def on_after_backward(self, *_: Any) -> None:
        if self.gradient:
            self.encoder += time.perf_counter() - self.gradient

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx) -> None:
        now = time.perf_counter()
        parts = (self.encoder, now - self.batch_started - self.encoder, self.batch_started - self.ended)
        self.seconds.setdefault(pl_module.stage_of(trainer.current_epoch), []).append(parts)
        self.ended = now


def measured(options: argparse.Namespace, folder: Path) -> Shares:
    """Train as long as every stage needs to have its steps."""
    words = ["task=cluster", "method=aecl", f"dataset={options.dataset}", f"encoder.train={options.train}"]
    words += [f"paths.runs={folder}", f"trainer.num_threads={options.threads}", "~callbacks.clustering_curve"]
    plan = Plan.make(compose_config(words))
    corpus = plan.corpus(whole=True)
    batches = len(plan.datamodule(corpus).train_dataloader())
    epochs = -(-(options.steps + WARM_UP) // batches)
    words += [f"method.stage{stage}_epochs={epochs}" for stage in (1, 2)] + [f"trainer.max_epochs={3 * epochs}"]
    plan = Plan.make(compose_config(words))
    datamodule, shares = plan.datamodule(corpus), Shares()
    module = plan.clustering_module(len(corpus.label_names))
    plan.encode_once(module.encoder, datamodule)
    trainer = instantiate_partial(plan.config.trainer)(run_folder=folder, callbacks=[shares], logger=False, plugins=[])
    trainer.limit_val_batches = 0
    trainer.fit(module, datamodule)
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="tweet")
    parser.add_argument("--train", choices=("top_layers", "full", "frozen"), default="top_layers")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shares = measured(options, Path(folder))
    rows = []
    for stage, steps in shares.seconds.items():
        timed = steps[WARM_UP : WARM_UP + options.steps]
        encoder, other, between = (mean(parts) for parts in zip(*timed, strict=True))
        whole = encoder + other + between
        rows.append((stage, 1000 * whole, *(100 * part / whole for part in (encoder, other, between))))
    header = ("stage", "ms a step", "encoder, %", "other, %", "between, %")
    print(tabulate(rows, header, tablefmt="github", floatfmt=".0f"))


if __name__ == "__main__":
    main()
