"""A page of all runs of a run store."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from reporting.board.build import write_board


def board(config: DictConfig, overrides: list[str]) -> Path:
    """Write the page of `paths.runs`; returns its folder.

    Raises:
        ValueError: a word that it does not read.
    """
    for word in overrides:
        if not word.startswith(("task=", "paths.runs=", "paths.data=")):
            raise ValueError(f"{word.partition('=')[0]}: task=board shows all runs; allowed: paths.runs, paths.data")
    return write_board(Path(config.paths.runs), Path(config.paths.data)).parent
