"""Keep the small part of finished runs: what a report needs, without checkpoints and predictions.

    python -m storage.records RUNS FOLDER

Copies metrics.json, config.yaml (less the paths), environment.json and history.csv of every finished run below RUNS,
and what its callbacks counted.
The folder is small enough for version control, and everything that reads a run store reads it too.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from storage.files import write_text
from storage.run_store import RunFolder, list_runs

FILES = ("environment.json", "history.csv", "metrics.json", "gradient_conflict.csv", "curve.csv")


def keep_records(runs: Path, folder: Path) -> list[str]:
    """Ids of the runs that were copied."""
    finished = [run for run in list_runs(runs) if run.status == "finished"]
    for run in finished:
        keep_record(run, folder)
    return [run.id for run in finished]


def keep_record(run: RunFolder, folder: Path) -> None:
    """Copy one run's record into ``folder``."""
    config = {key: node for key, node in run.read_config().items() if key != "paths"}
    write_text(folder / run.id / "config.yaml", yaml.safe_dump(config, sort_keys=False))
    for name in FILES:
        if (run.path / name).exists():
            write_text(folder / run.id / name, (run.path / name).read_text())


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(f"{len(keep_records(Path(sys.argv[1]), Path(sys.argv[2])))} records kept in {sys.argv[2]}")
