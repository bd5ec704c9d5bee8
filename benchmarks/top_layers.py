"""Race: a training step of MiniLM's top layers over hidden states that are remembered, against the whole forward pass.

    python -m benchmarks.top_layers [--threads 2] [--texts 100] [--tokens 16] [--layers 2]

Embeddings must agree to 0.01 before anything is timed; a step is forward and backward, in bf16 where the CPU has
it.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable

import torch
from hydra.utils import instantiate
from tabulate import tabulate
from torch import Tensor

from benchmarks._measure import paired_milliseconds, ratio, spread
from engine.identify import compose_config
from engine.trainer import multiplies_bf16
from lightning_modules.encoders.transformer import TextEncoder

REPEATS = 10
REMEMBERED, WHOLE = "states below remembered", "whole forward pass"


def cases(encoder: TextEncoder, batch: dict[str, Tensor]) -> dict[str, Callable[[], Tensor]]:
    """{way: one forward and backward, which returns the embeddings}."""
    top_layers = encoder.top_layers
    assert top_layers is not None
    remembered, nothing = top_layers.remembered, dict[bytes, Tensor]()

    def step(states: dict[bytes, Tensor]) -> Tensor:
        top_layers.remembered = states
        encoder.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=multiplies_bf16("cpu")):
            embeddings = encoder(**batch)
        embeddings.square().sum().backward()
        return embeddings.detach()

    return {REMEMBERED: lambda: step(remembered), WHOLE: lambda: step(nothing)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("threads", 2), ("texts", 100), ("tokens", 16), ("layers", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    config = compose_config(["encoder.train=top_layers", f"encoder.num_top_layers={options.layers}"])
    encoder = instantiate(config.encoder).load()
    tokens = torch.randint(1000, 20_000, (options.texts, options.tokens), generator=torch.Generator().manual_seed(0))
    batch = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    encoder.top_layers.remember([batch])
    ways = cases(encoder.eval(), batch)
    if (ways[REMEMBERED]() - ways[WHOLE]()).abs().max() > 0.01:
        raise SystemExit("the two ways of computing the embeddings differ")
    encoder.train()
    times = paired_milliseconds(ways, REPEATS)
    print(f"torch {torch.__version__}, {options.threads} thread(s), {platform.machine()}, {tuple(tokens.shape)} tokens")
    rows = [[name, spread(times[name]), ratio(times[WHOLE], times[name])] for name in times]
    headers = ["step", "ms: median (min to max)", "times faster than the whole"]
    print(tabulate(rows, headers, tablefmt="github"))


if __name__ == "__main__":
    main()
