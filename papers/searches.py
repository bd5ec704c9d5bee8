"""Searches for the settings of a budget's cells: the records that are kept, what won, and the table of a report.

A budget with ``searches`` has a file a table there, with a line a cell as `search=halving` leaves it: the space, every
trial and what won.
`conf/method_dataset` cannot stand for it: two rows of a table may be one method, with one view and with two, a column
may be a thinned data set, and what is frozen there changes what every other budget runs.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from papers.grid import Budget, Cell, Grid, cells, last_wins
from reporting.tables import MISSING, Table, percent
from storage.files import write_text

WORDS_OF_A_MACHINE = {"trainer=gpu"}  # in the line of a search, not in the cell
NOT_TUNED = "not tuned yet: make gpu-campaign"
HEADER = ("row", "column", "budget", "space", "what won", "as it stands", "what won, mean of its seeds")
Record = Mapping[str, Any]


def read_searches(folder: Path) -> list[Record]:
    """The kept records, by name of their files; none where there is no such folder."""
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def search_of(cell: Cell, records: Sequence[Record]) -> Record | None:
    """The record of the search for the settings of a cell."""
    asked = set(cell.overrides)
    return next((one for one in records if set(shlex.split(one["line"])) - WORDS_OF_A_MACHINE == asked), None)


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
    """The cells of a budget; of one that keeps searches with what won, and one that has no search is not run.

    Settings as they stand beside tuned ones would be no comparison on equal terms.
    """
    every_cell = cells(grid, budget)
    if budget.searches is None:
        return every_cell
    records = read_searches(Path(budget.searches))
    return [cell if cell.skipped else _tuned(cell, search_of(cell, records)) for cell in every_cell]


def _tuned(cell: Cell, record: Record | None) -> Cell:
    if record is None:
        return replace(cell, skipped=NOT_TUNED)
    return replace(cell, overrides=last_wins((*cell.overrides, *settings_of(record))))


def searches_table(grids: Sequence[Grid], budget: Budget) -> Table | None:
    """Budget, space and winner of every search that a cell of these tables rests on; None where none does."""
    records = [] if budget.searches is None else read_searches(Path(budget.searches))
    rows: dict[str, tuple[str, ...]] = {}
    for grid in grids:
        titles = {line.key: line.title for line in (*grid.rows, *grid.columns)}
        for cell in cells(grid, budget):
            if (record := search_of(cell, records)) is not None:
                rows.setdefault(record["line"], (titles[cell.row], titles[cell.column], *_columns(record)))
    metrics = sorted({str(record["metric"]) for record in records})
    title = f"Settings, chosen on validation rows by {' or '.join(metrics)} (%); test rows are not read"
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
    """Mean over the seeds of a finalist; of another the best so far on the first, and after which share it stopped."""
    if trial["mean"] is not None:
        return percent(trial["mean"])
    if trial["score"] is None:
        return MISSING
    return f"{percent(trial['score'])} on one seed, {100 * trial['share']:.0f} % of its epochs"
