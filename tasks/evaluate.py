"""Evaluate a finished run again, from its checkpoint."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from engine.finished import load_weights, open_run
from engine.results import show_figures
from tasks.fit import measure, run_names


def evaluate(config: DictConfig, overrides: list[str]) -> Path:
    """Read the data and the selected weights again and print the figures; `evaluation.json` holds them.

    With retrieval the datastore counts as it is now, with what was added to it since.
    """
    run, plan = open_run(config)
    datamodule = plan.datamodule(plan.corpus())
    module = plan.module(datamodule)
    load_weights(module, run)
    figures = run_names(plan) | measure(plan, run, module, datamodule, keep_store=True)
    run.write_json("evaluation.json", figures)
    show_figures(figures, "test" if "test/accuracy" in figures else "val")
    return run.path
