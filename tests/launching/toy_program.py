"""A small program with Hydra's sweeps of this house, and what calls it."""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
TOY = """
import json, os, sys, time
import hydra
import engine  # its resolvers
from storage.run_store import RunFolder

def write_job_result(run, status, error=None):
    with open(os.environ.get("KONTRAST_JOB_RESULT", os.devnull), "w") as file:
        json.dump({"run": str(run), "status": status, "error": error}, file)

@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config):
    run = RunFolder(f"{config.paths.runs}/toy-{config.x}")
    try:
        run.write_metrics(status="running", pid=os.getpid(), threads=os.environ.get("OMP_NUM_THREADS"))
        print("hello from", config.x, flush=True)
        time.sleep(config.sleep)
        while len(os.listdir(config.paths.runs)) <= config.begun:  # "sweeps" is there too
            time.sleep(0.05)
        if config.x == 13:
            raise ValueError("x: found 13, allowed any other")
        run.write_metrics(status="finished", started=time.time(), **{"test/accuracy": config.x / 10})
        write_job_result(run.path, "finished")
    except ValueError as error:
        write_job_result(run.path, "failed", str(error))
        sys.exit(2)
    except KeyboardInterrupt:
        run.write_metrics(status="interrupted")
        write_job_result(run.path, "interrupted")
        sys.exit(130)

main()
"""
CONFIG = """
defaults: [_self_, {hydra: default}, {kind: good}, {optional sweep: null}]
paths:
  runs: ???
x: 1
sleep: 0.0
begun: 0 # how many jobs must have begun before one ends
"""


def write_program(folder: Path) -> None:
    (folder / "toy.py").write_text(TOY)
    shutil.copytree(REPOSITORY / "conf/hydra", folder / "conf/hydra")
    (folder / "conf/config.yaml").write_text(CONFIG)
    (folder / "conf/sweep").mkdir()
    (folder / "conf/kind").mkdir()
    (folder / "conf/kind/good.yaml").write_text("weight: 1.0")
    grid = "# @package _global_\nhydra:\n  mode: MULTIRUN\n  sweeper: {params: {x: '4,5'}}\n"
    (folder / "conf/sweep/grid.yaml").write_text(grid)


def command(folder: Path, *arguments: str) -> dict:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "HYDRA_FULL_ERROR": "0"}
    line = [sys.executable, "toy.py", *arguments, f"paths.runs={folder}/runs"]
    return {"args": line, "cwd": folder, "env": environment, "text": True, "stdout": subprocess.PIPE}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(**command(folder, *arguments), stderr=subprocess.STDOUT, timeout=60, check=False)


def sweep_rows(folder: Path) -> list[dict]:
    (file,) = folder.glob("runs/sweeps/*/sweep.csv")
    return list(csv.DictReader(file.open()))
