"""Searches for the settings of a budget's cells: the records that are kept, what won, and the table of a report.

A budget with ``searches`` has a file a table there, with a line a cell as `search=halving` leaves it: the space, every
trial, what won, and the commits of its runs (older records have none). A record counts where it searched what
`search=halving` says without further words.
`conf/method_dataset` cannot stand for it: two rows of a table may be one method, with one view and with two, a column
may be a thinned data set, and what is frozen there changes what every other budget runs.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from engine.allowed_targets import CONF
from papers.grid import Budget, Cell, Grid, cells, last_wins
from reporting.tables import MISSING, Table, percent
from storage.files import write_text

WORDS_OF_A_MACHINE = {"trainer=gpu"}  # in the line of a search, not in the cell
NOT_TUNED = "not tuned yet: make gpu-campaign"
SEARCHED = ("trials", "finalists", "space", "shares", "metric", "seeds")
HEADER = ("row", "column", "budget", "space", "what won", "as it stands", "what won, mean of its seeds")
Record = Mapping[str, Any]


def read_searches(folder: Path) -> list[Record]:
    """The kept records, by name of their files; none where there is no such folder."""
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


@cache
def declared_search() -> Mapping[str, Any]:
    """What is searched for every cell, in the words of `SEARCHED`: that of `search=halving`."""
    from omegaconf import OmegaConf

    node: Any = OmegaConf.to_container(OmegaConf.load(CONF / "search" / "halving.yaml"))
    seeds = [node["first_seed"] + place for place in range(3)]
    return {key: {**node, "seeds": seeds}[key] for key in SEARCHED}


def other_search(record: Record) -> str | None:
    """What was searched otherwise than declared, in one line; None where nothing was."""
    trials = record.get("trials", [])
    to_their_end = sum(trial["share"] == 1 for trial in trials)
    content = {"finalists": to_their_end, **record, "trials": len(trials)}
    for key, declared in declared_search().items():
        if (searched := content.get(key)) != declared:
            return f"tuned by another search: {key} {json.dumps(searched)}, declared {json.dumps(declared)}"
    return None


def search_of(cell: Cell, records: Sequence[Record]) -> Record | None:
    """The record of the search for the settings of a cell, where it is the declared one."""
    return next((record for record in _searches_of(cell, records) if other_search(record) is None), None)


def _searches_of(cell: Cell, records: Sequence[Record]) -> list[Record]:
    asked = set(cell.overrides)
    return [record for record in records if set(shlex.split(record["line"])) - WORDS_OF_A_MACHINE == asked]


def settings_of(record: Record) -> tuple[str, ...]:
    """What won, as overrides."""
    return tuple(f"{key}={value}" for key, value in record["settings"].items())


def keep_search(cell: Cell, record: Record, folder: Path) -> None:
    """Add the record of a cell's search to those that are kept in a folder, unless one is kept already."""
    if search_of(cell, read_searches(folder)) is not None:
        return
    file = folder / f"{cell.table}.jsonl"
    kept = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    write_text(file, "".join(f"{line}\n" for line in sorted([*kept, json.dumps(record)])))


def tuned_cells(grid: Grid, budget: Budget) -> list[Cell]:
    """The cells of a budget; of one that keeps searches with what won, and one without the declared search is not run.

    Settings as they stand beside tuned ones would be no comparison on equal terms.
    """
    every_cell = cells(grid, budget)
    if budget.searches is None:
        return every_cell
    records = read_searches(Path(budget.searches))
    return [cell if cell.skipped else _tuned(cell, records) for cell in every_cell]


def _tuned(cell: Cell, records: Sequence[Record]) -> Cell:
    if (record := search_of(cell, records)) is None:
        others = [why for record in _searches_of(cell, records) if (why := other_search(record))]
        return replace(cell, skipped=others[0] if others else NOT_TUNED)
    return replace(cell, overrides=last_wins((*cell.overrides, *settings_of(record))))


def searches_table(grids: Sequence[Grid], budget: Budget) -> Table | None:
    """Budget, space and winner of every search that a cell of these tables rests on; None where none does."""
    records = [] if budget.searches is None else read_searches(Path(budget.searches))
    rows: dict[str, tuple[str, ...]] = {}
    metrics: set[str] = set()
    for grid in grids:
        titles = {line.key: line.title for line in (*grid.rows, *grid.columns)}
        for cell in cells(grid, budget):
            if (record := search_of(cell, records)) is not None:
                rows.setdefault(record["line"], (titles[cell.row], titles[cell.column], *_columns(record)))
                metrics.add(record["metric"])
    title = f"Settings, chosen on validation rows by {' or '.join(sorted(metrics))} (%); test rows are not read"
    return Table(title, HEADER, tuple(rows.values())) if rows else None


def _columns(record: Record) -> tuple[str, ...]:
    trials, seeds = record["trials"], record["seeds"]
    finalists = sum(trial["share"] == 1 for trial in trials)
    spent = f"{len(trials)} settings, {finalists} to their end; seeds {seeds[0]} to {seeds[-1]}"
    space = "; ".join(f"{key} {_range_text(range_)}" for key, range_ in record["space"].items())
    won = ", ".join(settings_of(record)) if record["best"] else "the method as it stands"
    return spent, space, won, _score_text(trials[0]), percent(trials[record["best"]]["mean"])


def _range_text(range_: Mapping[str, Any]) -> str:
    if choices := range_.get("choices"):
        return ", ".join(map(str, choices))
    return f"{range_['low']:g} to {range_['high']:g}" + (" (log)" if range_.get("log") else "")


def _score_text(trial: Mapping[str, Any]) -> str:
    """Mean over the seeds of a finalist; of another the best so far on the first, and after how many epochs it stopped.

    A share of the epochs is rounded up (`tasks.search.halving.Trial`).
    """
    if trial["mean"] is not None:
        return percent(trial["mean"])
    if trial["score"] is None:
        return MISSING
    share, epochs = trial["share"], trial["settings"].get("trainer.max_epochs")
    trained = f"{ceil(share * epochs)} of {epochs}" if epochs else f"{100 * share:.0f} % (rounded up) of its"
    return f"{percent(trial['score'])} on one seed, {trained} epochs"
