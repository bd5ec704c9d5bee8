"""How long a sweep of 100 frozen-encoder runs takes: temperature x weight x hard examples x imbalance on Ohsumed.

    python -m benchmarks.frozen_sweep [--jobs 4] [--epochs 6] [--cold] [--values N]

A fresh run store and cache, so that encoding the texts is part of the time. `--cold` starts each job anew; `--values`
takes only the first N values of each key.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from storage.run_store import list_runs

ROOT = Path(__file__).resolve().parents[1]
SWEEP = ROOT / "conf/sweep/mu_tau_K_ir.yaml"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--values", type=int, default=None)
    options = parser.parse_args()
    grid = yaml.safe_load(SWEEP.read_text())["hydra"]["sweeper"]["params"]
    grid = {key: str(values).split(",")[: options.values] for key, values in grid.items()}
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "run.py", "sweep=mu_tau_K_ir", "method=sharprecl", "dataset=ohsumed"),
            *("encoder.train=frozen", f"trainer.max_epochs={options.epochs}", "logger=none"),
            *(f"hydra.launcher.n_jobs={options.jobs}", f"hydra.launcher.warm={str(not options.cold).lower()}"),
            *(f"paths.runs={folder}/runs", f"paths.cache={folder}/cache"),
            *(f"{key}={','.join(values)}" for key, values in grid.items()),
        ]
        started = time.perf_counter()
        code = subprocess.run(command, cwd=ROOT).returncode
        seconds = time.perf_counter() - started
        finished = sum(run.status == "finished" for run in list_runs(Path(folder, "runs")))
    print(f"{finished} runs in {seconds:.0f} s, {options.jobs} at a time: {seconds / max(1, finished):.1f} s a run")
    return code


if __name__ == "__main__":
    sys.exit(main())
