"""Fine-tuning MiniLM on Ohsumed titles: samples a second against the Hugging Face Trainer with dynamic padding.

    python -m benchmarks.fine_tuning [--epochs 5] [--batch-size 64]

Same rows, batch size, epochs, learning rates, weight decay, linear warm-up, fused AdamW and clipping; cross-entropy on
the mean-pooled embedding. The Trainer pads each batch to its longest text; it runs in its default float32 and, second,
in bf16. The three run in processes of their own (the Trainer's precision is a process-wide state) and take turns epoch
by epoch, so that a noisy machine treats them alike; the ratio is taken epoch by epoch. Test accuracy is printed because
speed at another accuracy would mean nothing.
"""

import argparse
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from lightning.pytorch import Callback
from tabulate import tabulate
from torch import nn
from transformers import DataCollatorWithPadding, Trainer, TrainerCallback, TrainingArguments

from engine.plan import Plan, instantiate_partial
from lightning_modules.encoders.transformer import TextEncoder
from lightning_modules.schedules import linear_warmup

ROOT = Path(__file__).resolve().parents[1]
OURS = "kontrast"
PEERS = {"Trainer, float32": False, "Trainer, bf16": True}  # name -> bf16


class Turns:
    """Lets several trainings, each in a process of its own, take turns epoch by epoch."""

    def __init__(self, names: list[str], context) -> None:
        self.names, self.now, self.condition = names, context.Value("i", 0), context.Condition()
        self.all_trained = context.Barrier(len(names))  # nobody evaluates while another trains
        self.seconds: list[float] = []  # of this process's own epochs
        self.since = 0.0

    def start(self, name: str) -> None:
        with self.condition:
            self.condition.wait_for(lambda: self.names[self.now.value] == name)
        self.since = time.perf_counter()

    def end(self) -> None:
        self.seconds.append(time.perf_counter() - self.since)
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
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return Plan.make(compose("config", overrides=overrides))


def ours(plan, datamodule, turns: Turns) -> float:
    module = plan.bare_module(datamodule.class_counts, datamodule.label_names)
    folder = Path(tempfile.mkdtemp())
    build_trainer = instantiate_partial(plan.config.trainer)
    trainer = build_trainer(run_folder=folder, callbacks=[OurTurns(turns)], logger=False, plugins=[])
    trainer.limit_val_batches = 0  # the peer does not validate either
    trainer.fit(module, datamodule)
    turns.all_trained.wait()
    return trainer.test(module, datamodule, verbose=False)[0]["test/accuracy"]


def theirs(name: str, bf16: bool, plan, datamodule, turns: Turns) -> float:
    encoder, tokenizer, config = plan.encoder.load(), plan.encoder.tokenizer(), plan.config
    model = Classifier(encoder, datamodule.num_classes)
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
    logits = np.asarray(trainer.predict(rows["test"]).predictions)  # type: ignore[arg-type]  # takes any list
    predicted = logits.argmax(-1)
    return float(np.mean(predicted == datamodule.labels["test"]))


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


def race(entry: tuple[str, int, int, Path]) -> tuple[str, tuple[list[float], float, int]]:
    """Name, and seconds of each epoch, test accuracy and number of training rows of one contestant."""
    name, epochs, batch_size, folder = entry
    plan = make_plan(epochs, batch_size, folder)
    datamodule = plan.datamodule(plan.corpus())
    if name == OURS:
        accuracy = ours(plan, datamodule, TURNS)
    else:
        accuracy = theirs(name, PEERS[name], plan, datamodule, TURNS)
    return name, (TURNS.seconds, accuracy, len(datamodule.labels["train"]))


TURNS: Turns  # of this process


def take_part(turns: Turns) -> None:
    global TURNS
    TURNS = turns


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    options = parser.parse_args()
    names, context = [OURS, *PEERS], multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, context.Pool(len(names), take_part, (Turns(names, context),)) as pool:
        entries = [(name, options.epochs, options.batch_size, Path(folder)) for name in names]
        results = dict(pool.imap_unordered(race, entries))  # the first failure ends all: the others wait for a turn

    table = []
    for name in names:
        seconds, accuracy, rows = results[name]
        ratios = [their / our for our, their in zip(results[OURS][0], seconds, strict=True)]
        rates = [rows / epoch for epoch in seconds]
        table.append((name, *_spread(rates), *_spread(ratios), 100 * accuracy))
    header = ("", "samples/s", "min", "max", "time, ours = 1", "min", "max", "test accuracy, %")
    print(tabulate(table, headers=header, floatfmt=".2f"))


if __name__ == "__main__":
    main()
