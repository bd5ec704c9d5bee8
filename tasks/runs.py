"""List the runs of a run store."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from omegaconf import DictConfig

from reporting.tables import MISSING, Table
from storage.run_store import RunFolder, list_runs

FILTERS = ("method", "dataset", "encoder", "protocol", "seed")  # figures of a run that a word may ask for
SHOWN = (*FILTERS, "val/macro_f1", "test/macro_f1")


def runs(config: DictConfig, overrides: list[str]) -> Path:
    """Print the runs of `paths.runs`, the latest last; `method=ce seed=0` and the like show those that fit.

    Raises:
        ValueError: a word that is no filter.
    """
    words = [word.split("=", 1) for word in overrides if not word.startswith(("task=", "paths."))]
    if unknown := [word[0] for word in words if word[0] not in FILTERS]:
        raise ValueError(f"{unknown[0]}: task=runs lists runs; allowed: {', '.join(FILTERS)}, paths.runs")
    metrics = [(run, run.read_metrics()) for run in list_runs(config.paths.runs)]
    fitting = [run for run, values in metrics if all(str(values.get(name)) == value for name, value in words)]
    fitting.sort(key=lambda run: (run.path / "metrics.json").stat().st_mtime)
    title = f"{len(fitting)} of {len(metrics)} runs in {config.paths.runs}"
    Table(title, ("run", "written", "status", *SHOWN), tuple(map(_row, fitting))).show()
    return Path(config.paths.runs)


def _row(run: RunFolder) -> tuple[str, ...]:
    values = run.read_metrics()
    written = datetime.fromtimestamp((run.path / "metrics.json").stat().st_mtime).strftime("%Y-%m-%d %H:%M")
    return run.id, written, run.status, *(_shown(values.get(name)) for name in SHOWN)


def _shown(value: object) -> str:
    return MISSING if value is None else f"{100 * value:.2f} %" if isinstance(value, float) else str(value)
