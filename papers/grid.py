"""The papers' tables as grids of runs: what each cell runs under a budget, and what the paper prints there.

A table is a file in ``definitions/tables``; a budget an entry of ``definitions/budgets.yaml``.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from storage.errors import ReportError

HERE = Path(__file__).parent
TABLES = HERE / "definitions" / "tables"
REPORTED = HERE / "reported"


@dataclass(frozen=True)
class Metric:
    """A figure of a run (key of its metrics.json), the name that the reported CSV gives it, and with which setting.

    Shown times `scale`, which makes fractions %. `marked`: whether the highest of a column, with `lower` the lowest, is
    called best.
    """

    title: str
    key: str
    reported: str | None = None
    setting: Mapping[str, Any] = field(default_factory=dict)
    marked: bool = True
    scale: float = 100
    lower: bool = False

    @property
    def is_share(self) -> bool:
        """Whether it is shown in %: a figure of another kind times 100 says so in its title."""
        return self.scale == 100 and "×100" not in self.title


@dataclass(frozen=True)
class Line:
    """A row or a column: what it adds to the command line, and what it is called in the reported CSV.

    `by_budget`: what it adds under a budget, a row's after a column's, both after the rest. Of a row: `reads`, metric
    key -> the key that it takes in its place, where one run has the figures of several rows; `not_ranked`, budget ->
    why its figures there are neither best nor what others are held against.
    """

    key: str
    title: str
    overrides: tuple[str, ...] = ()
    reported: Mapping[str, Any] = field(default_factory=dict)
    priority: int = 1
    not_in: Mapping[str, str] = field(default_factory=dict)
    by_budget: Mapping[str, Sequence[str]] = field(default_factory=dict)
    x: float | None = None
    reads: Mapping[str, str] = field(default_factory=dict)
    not_ranked: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Grid:
    """One table of a paper.

    `statistics`: key of a data set's card -> title, of a table that is counted and not run; `reported_as`: such a key
    -> its name in the reported CSV, where that is another.
    """

    key: str
    title: str
    rows: tuple[Line, ...]
    columns: tuple[Line, ...] = ()
    metrics: tuple[Metric, ...] = ()
    reported: str | None = None
    reference: str | None = None
    proposed: tuple[str, ...] = ()
    priority: int = 1
    overrides: tuple[str, ...] = ()
    footnotes: tuple[str, ...] = ()
    statistics: Mapping[str, str] = field(default_factory=dict)
    reported_as: Mapping[str, str] = field(default_factory=dict)
    curve: str | None = None


@dataclass(frozen=True)
class Budget:
    """How much is run: overrides of every cell, seeds by row, table or default, and which columns and rows.

    `searches`: the folder of kept searches, each as `search=halving` says, whose winners the cells run with
    (`papers.searches`).
    """

    key: str
    title: str
    overrides: tuple[str, ...]
    seeds: Mapping[str, int]
    columns: tuple[str, ...] | None = None
    rows: tuple[str, ...] | None = None
    records: str | None = None
    by_table: Mapping[str, Sequence[str]] = field(default_factory=dict)
    needs: str | None = None
    warm: bool = False  # short runs: fork them from one process
    searches: str | None = None


@dataclass(frozen=True)
class Cell:
    """One cell under a budget: its command line without the seed, its seeds, or why it is not run."""

    table: str
    row: str
    column: str
    overrides: tuple[str, ...]
    seeds: tuple[int, ...]
    priority: int
    skipped: str | None = None


def table_names() -> list[str]:
    """What `table=` may name, by name."""
    return sorted(path.stem for path in TABLES.glob("*.yaml"))


def load_grid(name: str) -> Grid:
    """Raises ReportError: no such table."""
    file = TABLES / f"{name}.yaml"
    if not file.is_file():
        raise ReportError(f"table={name}: no such table; allowed: {', '.join(table_names())}")
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    for axis in ("rows", "columns"):
        content[axis] = tuple(_line(key, node) for key, node in content.get(axis, {}).items())
    content["metrics"] = tuple(Metric(**node) for node in content.get("metrics", ()))
    for key in ("proposed", "overrides", "footnotes"):
        content[key] = tuple(content.get(key, ()))
    return Grid(key=name, **content)


def _line(key: str, node: Mapping[str, Any]) -> Line:
    return Line(str(key), **{**node, "overrides": tuple(node.get("overrides", ()))})


def load_budget(name: str) -> Budget:
    """Raises ReportError: no such budget."""
    budgets = yaml.safe_load((HERE / "definitions" / "budgets.yaml").read_text(encoding="utf-8"))
    if name not in budgets:
        raise ReportError(f"budget={name}: no such budget; allowed: {', '.join(budgets)}")
    node = budgets[name]
    for key in ("overrides", "columns", "rows"):
        node[key] = None if node.get(key) is None else tuple(map(str, node[key]))
    return Budget(key=name, **node)


def cells(grid: Grid, budget: Budget) -> list[Cell]:
    """The cells that a budget computes, row by row, before any search; a reason where the definition rules one out."""
    extra = tuple(budget.by_table.get(grid.key, ()))
    selected = []
    for row in _selected(grid.rows, budget.rows):
        for column in _selected(grid.columns, budget.columns):
            if not column.overrides:
                continue  # a column of printed figures
            words = (*budget.overrides, *extra, *grid.overrides, *column.overrides, *row.overrides)
            words += (*column.by_budget.get(budget.key, ()), *row.by_budget.get(budget.key, ()))
            priority = max(grid.priority, row.priority, column.priority)
            by_table = budget.seeds.get(grid.key, budget.seeds["default"])
            seeds = tuple(range(budget.seeds.get(row.key, by_table)))
            skipped = row.not_in.get(budget.key) or column.not_in.get(budget.key)
            selected.append(Cell(grid.key, row.key, column.key, last_wins(words), seeds, priority, skipped))
    return selected


def _selected(lines: Sequence[Line], names: Sequence[str] | None) -> list[Line]:
    return [line for line in lines if names is None or line.key in names]


def last_wins(overrides: Sequence[str]) -> tuple[str, ...]:
    """Overrides with each key once: the last value, where the key came first."""
    return tuple(f"{key}={value}" for key, value in dict(word.split("=", 1) for word in overrides).items())


@dataclass(frozen=True)
class Printed:
    """A figure as the paper prints it (text, so that trailing zeros stay); empty where it prints a dash."""

    mean: str
    std: str = ""
    note: str = ""

    def __str__(self) -> str:
        return f"{self.mean} ± {self.std}" if self.std else self.mean


def printed(grid: Grid, row: Line, column: Line, metric: Metric) -> Printed | None:
    """What the paper prints in a cell; None where it prints nothing comparable."""
    if grid.reported is None or metric.reported is None or not (row.reported and column.reported):
        return None
    setting = {key: str(value) for key, value in {**column.reported, **row.reported, **metric.setting}.items()}
    lines = [line for line in reported_lines(grid.reported) if line["metric"] == metric.reported]
    lines = [line for line in lines if _setting(line) == setting]
    if len(lines) > 1:
        raise ReportError(f"{grid.reported}: {len(lines)} lines for {setting}, {metric.reported}; allowed: one")
    return Printed(lines[0]["mean"], lines[0].get("std", ""), lines[0].get("note", "")) if lines else None


def _setting(line: Mapping[str, str]) -> dict[str, str]:
    pairs = dict(pair.split("=", 1) for pair in line["setting"].split(";") if pair)
    return {"dataset": line["dataset"], "method": line["method"]} | pairs


@cache
def reported_lines(name: str) -> tuple[dict[str, str], ...]:
    """The lines of a reported CSV. Raises ReportError: no such file."""
    file = REPORTED / name
    if not file.is_file():
        raise ReportError(f"{name}: no such file in {REPORTED}")
    with file.open(newline="", encoding="utf-8") as stream:
        return tuple({key: value or "" for key, value in line.items()} for line in csv.DictReader(stream))


def footnote_texts() -> dict[str, str]:
    """Footnotes by name: what is inconsistent in print, and what differs here."""
    return yaml.safe_load((HERE / "definitions" / "footnotes.yaml").read_text(encoding="utf-8"))
