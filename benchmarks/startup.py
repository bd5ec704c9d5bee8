"""Start-up: `run.py --help`, and from the command to the end of the first training step on a prepared data set.

    python -m benchmarks.startup [--repeats 5]

Limits (on 4 quiet cores): 1.5 s for the help, 8 s to the first step of `method=sharprecl dataset=ohsumed`.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lightning.pytorch import Callback
from tabulate import tabulate

ROOT = Path(__file__).resolve().parents[1]
MARK = "first step at"


class FirstStep(Callback):
    """Prints the time of day at the end of the first training step, and ends the process there."""

    def __init__(self, run, protocol) -> None:
        pass

    def on_train_batch_end(self, *_) -> None:
        print(MARK, time.time(), flush=True)
        os._exit(0)


def help_seconds() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "run.py", "--help"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def first_step_seconds(folder: Path) -> float:
    """Data and caches lie in `folder`; the run itself is new each time."""
    paths = [f"paths.{name}={folder / name}" for name in ("data", "cache")]
    with tempfile.TemporaryDirectory() as runs:
        start = time.time()
        output = subprocess.run(
            [sys.executable, "run.py", "method=sharprecl", "dataset=ohsumed", f"paths.runs={runs}", *paths]
            + ["+callbacks.first._target_=benchmarks.startup.FirstStep"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    line = next(line for line in output.splitlines() if line.startswith(MARK))
    return float(line.removeprefix(MARK)) - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as folder:
        first_step_seconds(Path(folder))  # prepares the data and warms the disk's cache
        timed = {
            "run.py --help": ([help_seconds() for _ in range(repeats)], 1.5),
            "first training step": ([first_step_seconds(Path(folder)) for _ in range(repeats)], 8.0),
        }
    rows = [(name, statistics.median(s), min(s), max(s), limit) for name, (s, limit) in timed.items()]
    print(tabulate(rows, headers=("", "median s", "min", "max", "limit"), floatfmt=".2f"))


if __name__ == "__main__":
    main()
