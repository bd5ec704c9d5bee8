"""Fine-tuning MiniLM on Ohsumed titles: samples a second against the Hugging Face Trainer with dynamic padding.

    python -m benchmarks.fine_tuning [--epochs 5] [--batch-size 64]

Same rows, batch size, epochs, learning rates, weight decay, linear warm-up, fused AdamW and clipping; cross-entropy on
the mean-pooled embedding. The Trainer pads each batch to its longest text; it runs in its default float32 and, second,
in bf16. Epochs of the three alternate in one process, so that a noisy machine treats them alike; the ratio is taken
epoch by epoch. Test accuracy is printed because speed at another accuracy would mean nothing.
"""

import argparse
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from lightning.pytorch import Callback
from tabulate import tabulate
from torch import nn
from transformers import DataCollatorWithPadding, Trainer, TrainerCallback, TrainingArguments

from lightning_modules.schedules import linear_warmup
from tasks.build import Plan, partial_of

ROOT = Path(__file__).resolve().parents[1]


class Turns:
    """Lets several trainings, each in a thread of its own, take turns epoch by epoch."""

    def __init__(self, names: list[str]) -> None:
        self.names, self.now, self.since, self.condition = names, 0, 0.0, threading.Condition()
        self.all_trained = threading.Barrier(len(names))  # nobody evaluates while another trains
        self.seconds: dict[str, list[float]] = {name: [] for name in names}

    def start(self, name: str) -> None:
        with self.condition:
            self.condition.wait_for(lambda: self.names[self.now] == name)
        self.since = time.perf_counter()

    def end(self, name: str) -> None:
        self.seconds[name].append(time.perf_counter() - self.since)
        with self.condition:
            self.now = (self.now + 1) % len(self.names)
            self.condition.notify_all()


class OurTurns(Callback):
    def __init__(self, turns: Turns) -> None:
        self.turns = turns

    def on_train_epoch_start(self, trainer, pl_module) -> None:
        self.turns.start("kontrast")

    def on_train_epoch_end(self, trainer, pl_module) -> None:
        self.turns.end("kontrast")


class TheirTurns(TrainerCallback):
    def __init__(self, turns: Turns, name: str) -> None:
        self.turns, self.name = turns, name

    def on_epoch_begin(self, *_, **__) -> None:
        self.turns.start(self.name)

    def on_epoch_end(self, *_, **__) -> None:
        self.turns.end(self.name)


class Classifier(nn.Module):
    """The peer's model: the same encoder and linear layer, in the form that the Trainer takes."""

    def __init__(self, encoder: nn.Module, num_classes: int) -> None:
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


def ours(plan, datamodule, turns: Turns, results: dict) -> None:
    module = plan.bare_module(datamodule.class_counts)
    folder = Path(tempfile.mkdtemp())
    trainer = partial_of(plan.config.trainer)(run_folder=folder, callbacks=[OurTurns(turns)], logger=False, plugins=[])
    trainer.limit_val_batches = 0  # the peer does not validate either
    trainer.fit(module, datamodule)
    turns.all_trained.wait()
    results["kontrast"] = trainer.test(module, datamodule, verbose=False)[0]["test/accuracy"]


def theirs(name: str, bf16: bool, plan, datamodule, turns: Turns, results: dict) -> None:
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
    predicted = trainer.predict(rows["test"]).predictions.argmax(-1)
    results[name] = float(np.mean(predicted == datamodule.labels["test"]))


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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    options = parser.parse_args()
    peers = {"Trainer, float32": False, "Trainer, bf16": True}
    turns, results = Turns(["kontrast", *peers]), {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1 + len(peers)) as threads:
        plan = make_plan(options.epochs, options.batch_size, Path(folder))
        datamodule = plan.datamodule(plan.corpus())
        races = [threads.submit(ours, plan, datamodule, turns, results)]
        for name, bf16 in peers.items():
            races.append(threads.submit(theirs, name, bf16, plan, datamodule, turns, results))
        for race in races:
            race.result()

    rows = len(datamodule.labels["train"])
    table = []
    for name, seconds in turns.seconds.items():
        ratios = [theirs / ours for ours, theirs in zip(turns.seconds["kontrast"], seconds, strict=True)]
        rates = [rows / one for one in seconds]
        table.append((name, *_spread(rates), *_spread(ratios), 100 * results[name]))
    header = ("", "samples/s", "min", "max", "time, ours = 1", "min", "max", "test accuracy, %")
    print(tabulate(table, headers=header, floatfmt=".2f"))


if __name__ == "__main__":
    main()
