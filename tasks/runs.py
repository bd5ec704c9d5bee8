"""List the runs of a run store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig

from reporting.grouping import lookup
from reporting.tables import MISSING, Table, marks
from storage.errors import ReportError
from storage.run_store import QUESTION, REPEAT, RunFolder, list_answers, list_runs

FILTERS = ("method", "dataset", "encoder", "protocol", "seed")  # figures of a run that a word may ask for
OWN_FILES = ("csv", "jsonl")  # data sets that are called so where nobody names them
FIGURES = ("val/macro_f1", "test/macro_f1")


def runs(config: DictConfig, overrides: list[str]) -> Path:
    """Print the runs of `paths.runs`, the latest last; `method=ce seed=0` and the like show those that fit.

    Answers of `task=auto` are among them. `dataset.name=tickets`, `method.name=auto`: names that no config file has.
    `reads` stands there where a run read the names of the classes (N) or texts without a label (U).

    Raises:
        ValueError: a word that is no filter.
    """
    typed = OverridesParser.create().parse_overrides(
        [word for word in overrides if not word.startswith(("task=", "paths."))]
    )
    words = [(word.key_or_group.removesuffix(".name"), str(word.value())) for word in typed]
    if unknown := [key for key, _ in words if key not in FILTERS]:
        raise ValueError(f"{unknown[0]}: task=runs lists runs; allowed: {', '.join(FILTERS)}, paths.runs")
    known = [*_read(list_runs(config.paths.runs), _metrics)]
    known += _read(list_answers(config.paths.runs), _asked)
    fitting = [(run, values) for run, values in known if all(str(values.get(name)) == value for name, value in words)]
    fitting.sort(key=lambda pair: (pair[0].path / "metrics.json").stat().st_mtime)
    title = f"{len(fitting)} of {len(known)} runs in {config.paths.runs}"
    reads = ("reads",) if marks(values for _, values in fitting) else ()
    shown = (*FILTERS, *reads, *FIGURES)
    rows = tuple(_row(run, values | {"reads": marks([values])}, shown) for run, values in fitting)
    Table(title, ("run", "written", "status", *shown), rows).show()
    return Path(config.paths.runs)


def _read(
    folders: Iterable[RunFolder], values_of: Callable[[RunFolder], dict[str, Any]]
) -> Iterator[tuple[RunFolder, dict[str, Any]]]:
    """Those that can be read, with a warning for each other."""
    for run in folders:
        try:
            yield run, values_of(run) | {"status": run.status}
        except ReportError as error:
            print(f"warning: left out: {error}", file=sys.stderr)


def _metrics(run: RunFolder) -> dict[str, Any]:
    """Those of a run; `file` is the name of a person's own file, where its data set has no other."""
    metrics = run.read_metrics()
    if metrics.get("dataset") not in OWN_FILES or not run.has("config.yaml"):
        return metrics
    file = lookup(run.read_config(), "dataset.train")
    return metrics | ({"file": Path(file).name} if isinstance(file, str) else {})


def _asked(run: RunFolder) -> dict[str, Any]:
    """Of an answer of `task=auto`, what a run's metrics call so. Raises ReportError: it is damaged."""
    question = run.read_json(QUESTION)
    if not isinstance(question, dict) or not {"name", "encoder", "seed"} <= question.keys():
        raise ReportError(f"run {run.id}: {QUESTION}: no name, encoder or seed; {REPEAT}")
    asked = {"method": "auto", "dataset": question["name"], "protocol": "kfold", "test/macro_f1": _figure(run)}
    return asked | {name: question[name] for name in ("encoder", "seed")}


def _figure(run: RunFolder) -> float | None:
    """Macro-F1 out of fold of what an answer recommends, if it is there yet."""
    if not run.has("ranking.csv"):
        return None
    rows = run.read_csv("ranking.csv", "macro_f1", "recommended")
    try:
        return next((float(row["macro_f1"]) for row in rows if row["recommended"] == "True"), None)
    except ValueError as error:
        raise ReportError(f"run {run.id}: ranking.csv: {error}; {REPEAT}") from error


def _row(run: RunFolder, values: dict[str, Any], shown: Sequence[str]) -> tuple[str, ...]:
    written = datetime.fromtimestamp((run.path / "metrics.json").stat().st_mtime).strftime("%Y-%m-%d %H:%M")
    values = values | ({"dataset": f"{values['dataset']}: {values['file']}"} if "file" in values else {})
    return run.id, written, values["status"], *(_shown(values.get(name)) for name in shown)


def _shown(value: object) -> str:
    return MISSING if value is None else f"{100 * value:.2f} %" if isinstance(value, float) else str(value)
