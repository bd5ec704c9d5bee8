"""Peak memory and time of a contrastive step with gradient caching, by rows that the encoder sees at a time.

    python -m benchmarks.gradient_cache [--batch-size 256] [--length 32] [--chunks 256 64 16] [--method bcl]

One step, forward and backward, of two views of a batch of random tokens through MiniLM, each in a process of its own
after a small step to warm up. The loss of every line is the same up to rounding, and is printed.
"""

import argparse
import json
import time

import torch
from tabulate import tabulate

from benchmarks._measure import extra_peak_mib, in_own_process
from engine.identify import compose_config
from engine.plan import Plan
from engine.trainer import keep_freed_memory

NUM_CLASSES = 20


def make_batch(size: int, length: int) -> dict:
    generator = torch.Generator().manual_seed(0)
    return {
        "input_ids": torch.randint(1000, 20_000, (2 * size, length), generator=generator),
        "attention_mask": torch.ones(2 * size, length, dtype=torch.long),
        "labels": torch.arange(size) % NUM_CLASSES,
        "indices": torch.arange(size),
        "num_views": 2,
    }


def measure(method: str, size: int, length: int, chunk: int | None) -> dict[str, float]:
    """Peak MiB above the model and its gradients, seconds, and the loss of one step."""
    torch.set_num_threads(1)
    keep_freed_memory()
    config = compose_config([f"method={method}", "dataset=cr"])
    torch.manual_seed(0)
    counts = torch.full((NUM_CLASSES,), 100)
    module = Plan.make(config).bare_module(counts, [str(label) for label in range(NUM_CLASSES)])
    for part in module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    measured: dict[str, float] = {}

    def step(batch: dict) -> None:
        started = time.perf_counter()
        loss = module.training_losses(batch)["loss"]
        loss.backward()
        measured.update(seconds=time.perf_counter() - started, loss=loss.item())

    step(make_batch(4, length))
    module.gradient_cache_chunk = chunk
    batch = make_batch(size, length)
    return {"MiB": extra_peak_mib(lambda: step(batch)), **measured}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=256, help="texts of the batch; the encoder sees two views")
    parser.add_argument("--length", type=int, default=32, help="tokens of a text")
    parser.add_argument("--chunks", type=int, nargs="+", default=[256, 64, 16])
    parser.add_argument("--method", default="bcl")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measure(options.method, options.batch_size, options.length, int(options.one) or None)))
        return
    size = ["--method", options.method, "--batch-size", str(options.batch_size), "--length", str(options.length)]
    lines = []
    for chunk in [0, *options.chunks]:
        figures = json.loads(in_own_process("benchmarks.gradient_cache", *size, "--one", str(chunk)))
        lines.append([chunk or "whole batch", figures["MiB"], figures["seconds"], figures["loss"]])
    print(f"{options.method}, {2 * options.batch_size} rows of {options.length} tokens, one thread, float32")
    print(tabulate(lines, ["rows at a time", "peak, MiB", "seconds", "loss"], floatfmt=("", ".0f", ".1f", ".5f")))


if __name__ == "__main__":
    main()
