"""Start-up: `run.py --help`, the first line of a run, its first training step on a prepared data set; with --first-run
the line of `make run` on nothing prepared, to its first epoch's figures and to its end.

    python -m benchmarks.startup [--repeats 5] [--first-run]

Limits, on two slow cores that do nothing else: 1 s, 2 s, 16 s, 60 s and 240 s.
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
# run.py, with a callback that a config may not name otherwise
WITH_FIRST_STEP = """
import runpy, sys
from engine.allowed_targets import MODULES
MODULES["callbacks"] += ("benchmarks.startup",)
sys.argv[0] = "run.py"
runpy.run_path("run.py", run_name="__main__")
"""


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


def first_line_seconds() -> float:
    """From the command to its first line; the run is ended there."""
    start = time.perf_counter()
    command = [sys.executable, "run.py", "method=ce", "dataset=docstrings"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        seconds = time.perf_counter() - start
        process.kill()
    return seconds


def first_run_seconds() -> tuple[float, float]:
    """From the line of `make run` to the figures of its first epoch, and to its end; data and caches are made too."""
    recipe = subprocess.run(["make", "-n", "run"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    words = recipe.replace("\\\n", " ").split("run.py", 1)[1].split()
    start, first = time.perf_counter(), None
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"paths.{name}={folder}/{name}" for name in ("data", "cache", "runs")]
        command = [sys.executable, "run.py", *words, *paths]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if first is None and line.startswith("epoch 1/"):
                    first = time.perf_counter() - start
    if process.returncode or first is None:
        sys.exit(f"the run ended with code {process.returncode}")
    return first, time.perf_counter() - start


def first_step_seconds(folder: Path) -> float:
    """Data and caches lie in `folder`; the run itself is new each time."""
    paths = [f"paths.{name}={folder / name}" for name in ("data", "cache")]
    with tempfile.TemporaryDirectory() as runs:
        start = time.time()
        output = subprocess.run(
            [sys.executable, "-c", WITH_FIRST_STEP, "method=sharprecl", "dataset=ohsumed", f"paths.runs={runs}", *paths]
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
    parser.add_argument("--first-run", action="store_true")
    arguments = parser.parse_args()
    repeats = arguments.repeats
    with tempfile.TemporaryDirectory() as folder:
        first_step_seconds(Path(folder))  # prepares the data and warms the disk's cache
        timed = {
            "run.py --help": ([help_seconds() for _ in range(repeats)], 1.0),
            "first line": ([first_line_seconds() for _ in range(repeats)], 2.0),
            "first training step": ([first_step_seconds(Path(folder)) for _ in range(repeats)], 16.0),
        }
    if arguments.first_run:
        first, whole = first_run_seconds()
        timed |= {"make run: first epoch": ([first], 60.0), "make run: end": ([whole], 240.0)}
    rows = [(name, statistics.median(s), min(s), max(s), limit) for name, (s, limit) in timed.items()]
    print(tabulate(rows, headers=("", "median s", "min", "max", "limit"), floatfmt=".2f"))


if __name__ == "__main__":
    main()
