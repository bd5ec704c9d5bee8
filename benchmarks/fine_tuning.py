"""Fine-tuning MiniLM on Ohsumed titles: samples a second against the Hugging Face Trainer with dynamic padding.

    python -m benchmarks.fine_tuning [--epochs 5] [--batch-size 64] [--profile]

Same rows, batch size, epochs, learning rates, weight decay, linear warm-up, fused AdamW and clipping; cross-entropy on
the mean-pooled embedding. The Trainer pads each batch to its longest text; it runs in its default float32 and, second,
in bf16. The three run in processes of their own (the Trainer's precision is a process-wide state) and take turns epoch
by epoch, so that a noisy machine treats them alike; the ratio is taken epoch by epoch. Test accuracy is printed because
speed at another accuracy would mean nothing.

Share of the matrix peak: multiply-adds of forward and backward, padding included where it is multiplied (ours leaves it
out; a batch counts as the first of its shape), over the seconds of an epoch, of what
`torch.matmul` reaches in the same process, threads and precision: the best of a large square product and those of the
encoder's layers.

`--profile` trains ours alone for some steps and prints the share of time by kind of operator.
"""

import argparse
import multiprocessing
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from lightning.pytorch import Callback
from tabulate import tabulate
from torch import nn
from transformers import DataCollatorWithPadding, Trainer, TrainerCallback, TrainingArguments

from benchmarks._peak import Work, time_by_kind
from engine.identify import compose_config
from engine.plan import Plan, instantiate_partial
from lightning_modules.encoders.transformer import TextEncoder
from lightning_modules.schedules import linear_warmup

OURS = "kontrast"
PEERS = {"Trainer, float32": False, "Trainer, bf16": True}  # name -> bf16
WARM_UP, PROFILED = 3, 20  # steps
HEADER = (
    *("", "samples/s", "min", "max", "time, ours = 1", "min", "max"),
    *("share of matrix peak, %", "min", "max", "test accuracy, %"),
)


@dataclass
class Outcome:
    """Of one contestant: seconds and share of the matrix peak epoch by epoch, test accuracy, training rows."""

    seconds: list[float]
    shares: list[float]
    accuracy: float
    rows: int


class Turns:
    """Lets several trainings, each in a process of its own, take turns epoch by epoch."""

    def __init__(self, names: list[str], context) -> None:
        self.names, self.now, self.condition = names, context.Value("i", 0), context.Condition()
        self.all_trained = context.Barrier(len(names))  # nobody evaluates while another trains
        self.seconds: list[float] = []  # of this process's own epochs
        self.since = 0.0
        self.work: Work  # of this process, set before its training begins

    def start(self, name: str) -> None:
        with self.condition:
            self.condition.wait_for(lambda: self.names[self.now.value] == name)
        self.since = time.perf_counter()

    def end(self) -> None:
        self.seconds.append(time.perf_counter() - self.since)
        self.work.end_epoch(self.seconds[-1])
        with self.condition:
            self.now.value = (self.now.value + 1) % len(self.names)
            self.condition.notify_all()


class OurTurns(Callback):
    """Times the epochs of our trainer."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns

    def on_train_epoch_start(self, trainer, pl_module) -> None:
        self.turns.start(OURS)

    def on_train_epoch_end(self, trainer, pl_module) -> None:
        self.turns.end()


class TheirTurns(TrainerCallback):
    """Times the epochs of a trainer of transformers."""

    def __init__(self, turns: Turns, name: str) -> None:
        self.turns, self.name = turns, name

    def on_epoch_begin(self, *_, **__) -> None:
        self.turns.start(self.name)

    def on_epoch_end(self, *_, **__) -> None:
        self.turns.end()


class Classifier(nn.Module):
    """The peer's model: the same encoder and linear layer, in the form that the Trainer takes."""

    def __init__(self, encoder: TextEncoder, num_classes: int) -> None:
        super().__init__()
        self.encoder, self.dropout = encoder, nn.Dropout(0.1)
        self.classifier = nn.Linear(encoder.hidden_size, num_classes)

    def forward(self, input_ids, attention_mask, labels=None):
        logits = self.classifier(self.dropout(self.encoder(input_ids, attention_mask))).float()
        output = {"logits": logits}
        return output if labels is None else {"loss": nn.functional.cross_entropy(logits, labels), **output}


def make_plan(epochs: int, batch_size: int, folder: Path):
    overrides = ["method=ce", "dataset=ohsumed", f"sampler.batch_size={batch_size}", f"trainer.max_epochs={epochs}"]
    overrides += [f"paths.{name}={folder / name}" for name in ("runs", "data", "cache")]
    return Plan.make(compose_config(overrides))


def our_trainer(plan, *callbacks: Callback):
    build_trainer = instantiate_partial(plan.config.trainer)
    trainer = build_trainer(run_folder=Path(tempfile.mkdtemp()), callbacks=[*callbacks], logger=False, plugins=[])
    trainer.limit_val_batches = 0  # the peer does not validate either
    return trainer


def ours(plan, datamodule, turns: Turns) -> tuple[list[float], float]:
    """Shares of the matrix peak, and test accuracy."""
    module = plan.bare_module(datamodule.class_counts, datamodule.label_names)
    trainer = our_trainer(plan, OurTurns(turns))
    turns.work = Work(module, module.encoder, torch.bfloat16 if trainer.precision == "bf16-mixed" else torch.float32)
    trainer.fit(module, datamodule)
    turns.all_trained.wait()

    def step(input_ids, attention_mask) -> None:
        batch = {"input_ids": input_ids, "attention_mask": attention_mask, "num_views": 1}
        module.training_losses(batch | {"labels": input_ids.new_zeros(len(input_ids))})["loss"].backward()

    shares = turns.work.shares(step)
    return shares, trainer.test(module, datamodule, verbose=False)[0]["test/accuracy"]


def theirs(name: str, bf16: bool, plan, datamodule, turns: Turns) -> tuple[list[float], float]:
    """The same of a peer."""
    encoder, tokenizer, config = plan.encoder.load(), plan.encoder.tokenizer(), plan.config
    model = Classifier(encoder, datamodule.num_classes)
    turns.work = Work(model, encoder, torch.bfloat16 if bf16 else torch.float32)
    rows = {split: _rows(datamodule, tokenizer, split) for split in ("train", "test")}
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=config.sampler.batch_size,
        per_device_eval_batch_size=config.sampler.eval_batch_size,
        num_train_epochs=config.trainer.max_epochs,
        max_grad_norm=config.trainer.gradient_clip_val,
        use_cpu=True,
        bf16=bf16,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    optimizer = torch.optim.AdamW(
        [
            {"params": model.encoder.parameters(), "lr": config.optimizer.lr},
            {"params": model.classifier.parameters(), "lr": config.method.head_lr},
        ],
        weight_decay=config.optimizer.weight_decay,
        fused=True,
    )
    steps = config.trainer.max_epochs * -(-len(rows["train"]) // config.sampler.batch_size)
    schedule = linear_warmup(optimizer, steps, config.scheduler.warmup_ratio)
    trainer = Trainer(
        model,
        arguments,
        data_collator=DataCollatorWithPadding(tokenizer),
        train_dataset=rows["train"],
        optimizers=(optimizer, schedule),
        callbacks=[TheirTurns(turns, name)],
    )
    trainer.train()
    turns.all_trained.wait()

    def step(input_ids, attention_mask) -> None:
        model(input_ids, attention_mask, input_ids.new_zeros(len(input_ids)))["loss"].backward()

    shares = turns.work.shares(step)
    logits = np.asarray(trainer.predict(rows["test"]).predictions)  # type: ignore[arg-type]  # takes any list
    predicted = logits.argmax(-1)
    return shares, float(np.mean(predicted == datamodule.labels["test"]))


def _rows(datamodule, tokenizer, split: str) -> list[dict]:
    texts = datamodule.corpus.table(split).column("text").take(datamodule.indices[split]).to_pylist()
    tokens = tokenizer(texts, truncation=True, max_length=datamodule.max_length, return_token_type_ids=False)
    labels = datamodule.labels[split].tolist()
    return [
        {"input_ids": ids, "attention_mask": mask, "labels": label}
        for ids, mask, label in zip(tokens["input_ids"], tokens["attention_mask"], labels, strict=True)
    ]


def _spread(values: list[float]) -> tuple[float, float, float]:
    return statistics.median(values), min(values), max(values)


def race(entry: tuple[str, int, int, Path]) -> tuple[str, Outcome]:
    """Name and outcome of one contestant."""
    name, epochs, batch_size, folder = entry
    plan = make_plan(epochs, batch_size, folder)
    datamodule = plan.datamodule(plan.corpus())
    if name == OURS:
        shares, accuracy = ours(plan, datamodule, TURNS)
    else:
        shares, accuracy = theirs(name, PEERS[name], plan, datamodule, TURNS)
    return name, Outcome(TURNS.seconds, shares, accuracy, len(datamodule.labels["train"]))


TURNS: Turns  # of this process


def take_part(turns: Turns) -> None:
    global TURNS
    TURNS = turns


def table(outcomes: dict[str, Outcome]) -> str:
    """A row for each contestant, ours first."""
    lines = []
    for name, outcome in outcomes.items():
        rates = [outcome.rows / epoch for epoch in outcome.seconds]
        ratios = [their / our for our, their in zip(outcomes[OURS].seconds, outcome.seconds, strict=True)]
        shares = [100 * share for share in outcome.shares]
        lines.append((name, *_spread(rates), *_spread(ratios), *_spread(shares), 100 * outcome.accuracy))
    return tabulate(lines, headers=HEADER, floatfmt=".2f")


class Profile(Callback):
    """Records some steps after the first ones, the loading of their batches included."""

    def __init__(self) -> None:
        self.recorder = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        self.seconds = 0.0

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx) -> None:
        if batch_idx == WARM_UP - 1:
            self.recorder.start()
            self.seconds -= time.perf_counter()
        elif batch_idx == WARM_UP + PROFILED - 1:
            self.seconds += time.perf_counter()
            self.recorder.stop()


def profile(plan) -> str:
    """Share of time by kind of operator, of our training."""
    datamodule, recorded = plan.datamodule(plan.corpus()), Profile()
    module = plan.bare_module(datamodule.class_counts, datamodule.label_names)
    trainer = our_trainer(plan, recorded)
    trainer.limit_train_batches = WARM_UP + PROFILED
    trainer.fit(module, datamodule)
    lines = [
        (kind, 100 * share, largest)
        for kind, share, largest in time_by_kind(recorded.recorder.events(), recorded.seconds)
    ]
    return tabulate(lines, headers=("kind", "share of time, %", "largest operators"), floatfmt=".1f")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--profile", action="store_true", help="where our training spends its time, without the race")
    options = parser.parse_args()
    if options.profile:
        with tempfile.TemporaryDirectory() as folder:
            print(profile(make_plan(1, options.batch_size, Path(folder))))
        return
    names, context = [OURS, *PEERS], multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, context.Pool(len(names), take_part, (Turns(names, context),)) as pool:
        entries = [(name, options.epochs, options.batch_size, Path(folder)) for name in names]
        outcomes = dict(pool.imap_unordered(race, entries))  # the first failure ends all: the others wait for a turn
    print(table({name: outcomes[name] for name in names}))


if __name__ == "__main__":
    main()
