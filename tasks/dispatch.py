"""Choose the task, and hold what is given at the command line against it."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from engine.command_line import announce, importing
from engine.exit_code import report_job
from engine.identify import expand_home
from engine.validation import validate_top
from launching.interrupts import raised_interrupts
from storage.files import is_stdout
from storage.tables import check_source

# a task on a finished run takes the run's own config; anything else on the line would do nothing
READING = ("text_column", "encoding", "delimiter", "header", "sheet")
LABELLED = ("label_column", "label_separator", "missing", *READING)
THREADS = "trainer.num_threads"
ON_A_RUN = {
    "evaluate": ("run", "input", *LABELLED, THREADS),
    "predict": ("run", "input", "output", "probabilities", "explain", "sure", "missing", *READING, THREADS),
    "drift": ("run", "input", "output", *READING, THREADS),
    "datastore": ("run", "add", *LABELLED, THREADS),
    "serve": ("run", "host", "port", "sure", THREADS),
    "export": ("run", "output", "format", "quantize", "retrieval"),
}


def run_task(config: DictConfig, overrides: list[str]) -> None:
    """Do `config.task`; the last line on stdout is the folder that holds the result.

    Raises:
        ValueError: a bad value at the top of the config, or an override that the task would ignore.
    """
    plain: Any = OmegaConf.to_container(config, resolve=True)
    validate_top(plain)
    expand_home(config)
    task = config.task
    if task in ON_A_RUN:
        _refuse_idle_overrides(task, overrides)
        if config.run is None:
            raise ValueError(f"run: task={task} needs the run to work on, run=ID")
        for key in ("input", "output", "add"):  # in key=~/FILE the shell leaves it to us
            if config[key] is not None:
                config[key] = os.path.expanduser(config[key])
        if config.input is not None:
            check_source(config.input, "input", folder_allowed=True)  # before PyTorch and the model are loaded
    elif config.run is not None:
        raise ValueError(f"run: task={task} starts from a config, not from a run; allowed with: {', '.join(ON_A_RUN)}")
    if config.get("search") is not None:
        if task != "fit":
            raise ValueError(f"search: task={task} does not train; allowed with search: task=fit")
        task = "search"
    if task == "fit" and config.get("active") is not None:
        task = "active"
    announce(plain)
    work = _loaded(task)  # torch is imported only when there is something to do
    with raised_interrupts():
        folder: Path = work(config, overrides)
    report_job("finished", run=folder)
    print(folder, flush=True, file=sys.stderr if config.output is not None and is_stdout(config.output) else sys.stdout)


def _loaded(task: str) -> Callable[[DictConfig, list[str]], Path]:
    """The function of a task."""
    with importing():
        return getattr(importlib.import_module(f"tasks.{task}"), task)


def _refuse_idle_overrides(task: str, overrides: list[str]) -> None:
    allowed = ("task", "paths.runs", "paths.data", "paths.cache", "paths.source_mirror", *ON_A_RUN[task])
    typed = [override.lstrip("+~").split("=")[0].split("@")[0] for override in overrides]
    for key in typed:
        if key not in allowed:
            raise ValueError(f"{key}: task={task} takes everything else from the run; allowed: {', '.join(allowed)}")
    file = {"evaluate": "input", "datastore": "add"}.get(task)  # the others need one
    idle = [key for key in typed if key in LABELLED] if file is not None and file not in typed else []
    if idle:
        raise ValueError(f"{idle[0]}: has no effect without a file; allowed with task={task}: {file}=FILE beside it")
