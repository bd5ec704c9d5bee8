"""The papers' tables by runs of our own: run what is missing, keep the records, write the report.

    make reproduce-tables BUDGET=smoke|cpu|frozen|paper [TABLE=NAME,…] [DRY_RUN=1] [ARGS="key=value …"]
    python -m papers.reproduce budget=cpu [table=NAME,…] [dry_run=1] [runs=DIR] [records=DIR] [out=DIR] [jobs=1]
        [hours=H] [priority=3] [column=NAME,…] [row=NAME,…] [report_only=1]
        [paths.data=… paths.cache=… paths.source_mirror=… trainer.num_threads=… dataset.archive=…]

A run counts as done where the run store or the records hold it finished. Stopped at any moment, the same line goes on.
`hours` starts no further run after that time; `priority=1` leaves out the side tables, `column` runs those data alone,
`row` those methods.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.identify import ComposedRun, compose_run
from engine.overrides import SHARED_WORDS
from launching.sweep import NOT_STARTED, run_jobs
from papers.dataset_facts import train_rows
from papers.estimates import Estimate, Stopwatch
from papers.grid import Budget, Cell, Grid, Line, load_budget, load_grid, table_names
from papers.hub import unreachable
from papers.paper_report import GRID, read_grid, read_stores, write_report
from papers.searches import tuned_cells
from reporting.arguments import flag, run_command
from reporting.tables import MISSING, SweepJob, Table, duration
from storage.errors import ReportError
from storage.files import write_text
from storage.records import Run, add_records
from storage.run_store import list_runs

ROOT = Path(__file__).resolve().parents[1]
RATIOS = (None, 50, 20, 10)
PASSED_ON = ("logger", "trainer.num_threads", "dataset.archive")  # what a run id leaves out
PASSED_BELOW = ("paths.", "logger.")  # likewise, and all keys that begin so


@dataclass
class Options:
    """The command line."""

    budget: Budget
    tables: list[str]
    dry_run: bool = False
    report_only: bool = False
    runs: Path = Path("runs")
    records: Path | None = None
    out: Path = Path("reports")
    jobs: int = 1
    hours: float | None = None
    priority: int = 9
    columns: tuple[str, ...] = ()  # none stands for all
    rows: tuple[str, ...] = ()
    arguments: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Job:
    """A run that is missing."""

    id: str
    cell: Cell
    seed: int
    estimate: Estimate

    @property
    def overrides(self) -> tuple[str, ...]:
        return (*self.cell.overrides, f"seed={self.seed}")


def parse_options(words: Sequence[str]) -> Options:
    """Raises ReportError: a word that is unknown or malformed."""
    if malformed := [word for word in words if "=" not in word]:
        raise ReportError(f"{malformed[0]}: allowed: key=value, see `python -m papers.reproduce --help`")
    values = dict(word.partition("=")[::2] for word in words)
    passed = [word for word in words if _is_passed_on(word.partition("=")[0])]
    plain = {key: value for key, value in values.items() if value and not _is_passed_on(key)}
    allowed = set("budget table column row dry_run report_only runs records out jobs hours priority".split())
    if unknown := set(plain) - allowed:
        further = f"{', '.join(PASSED_ON)}, {', '.join(f'{key}…' for key in PASSED_BELOW)}"
        raise ReportError(f"{unknown.pop()}: unknown; allowed: {', '.join(sorted(allowed))}, {further}")
    budget = load_budget(plain.get("budget", "smoke"))
    names = plain.get("table", "all")
    tables = table_names() if names == "all" else names.split(",")
    grids = [load_grid(name) for name in tables]
    records = plain.get("records", budget.records)
    return Options(
        budget,
        tables,
        dry_run=flag("dry_run", plain.get("dry_run", "0")),
        report_only=flag("report_only", plain.get("report_only", "0")),
        runs=Path(plain.get("runs", "runs")),
        records=None if records is None else Path(records),
        out=Path(plain.get("out", "reports")),
        jobs=_number("jobs", plain, int) or 1,
        hours=_number("hours", plain, float),
        priority=_number("priority", plain, int) or 9,
        columns=_selected("column", plain, [column for grid in grids for column in grid.columns if column.overrides]),
        rows=_selected("row", plain, [row for grid in grids for row in grid.rows if row.overrides]),
        arguments=passed,
    )


def _is_passed_on(key: str) -> bool:
    return key in PASSED_ON or key.startswith(PASSED_BELOW)


def _number(key: str, values: Mapping[str, str], kind: Callable[[str], float]) -> Any:
    try:
        number = kind(values[key]) if key in values else None
    except ValueError:
        number = 0
    if number is not None and not number > 0:
        raise ReportError(f"{key}={values[key]}: allowed: a {'whole ' if kind is int else ''}number above 0")
    return number


def _selected(key: str, values: Mapping[str, str], lines: Sequence[Line]) -> tuple[str, ...]:
    """The columns or rows asked for."""
    names = values[key].split(",") if key in values else []
    keys = {line.key: None for line in lines}
    if unknown := [name for name in names if name not in keys]:
        raise ReportError(f"{key}: found {unknown[0]!r}; allowed: {', '.join(keys)}")
    return tuple(names)


def finished_runs(options: Options) -> dict[str, Run]:
    """Finished runs of the run store and of all records below the reports, by id; the record where both have one."""
    folders = sorted(folder for folder in options.out.glob("*") if folder.is_dir())
    kept = [options.records] if options.records else []
    return read_stores([*folders, *kept, options.runs], changed_too=options.records is None)


def missing_jobs(
    grids: Sequence[Grid], options: Options, known: Mapping[str, Run]
) -> tuple[list[Job], list[Cell], int]:
    """Runs still to do, in the order in which to do them, the cells that cannot be run here, and how many are done.

    Main tables before side tables, the first seed of everything before the second, cheap runs before dear ones.
    """
    stopwatch = Stopwatch(known.values(), train_rows(options.out / "cards", RATIOS))
    jobs: dict[str, Job] = {}
    skipped, finished = [], set()
    for grid in grids:
        for cell in tuned_cells(grid, options.budget):
            run = _composed_run(cell, options.budget)
            if run.problem:
                skipped.append(replace(cell, skipped=run.problem))
                continue
            estimate = stopwatch.estimate(run.config)
            for seed in cell.seeds:
                job = Job(run.id(seed), cell, seed, estimate)
                if not _is_selected(cell, options):
                    continue
                if job.id in known:
                    finished.add(job.id)
                else:
                    jobs[job.id] = min(jobs.get(job.id, job), job, key=lambda entry: entry.cell.priority)
    return sorted(jobs.values(), key=_order), skipped, len(finished)


def _is_selected(cell: Cell, options: Options) -> bool:
    in_lines = cell.column in (options.columns or [cell.column]) and cell.row in (options.rows or [cell.row])
    return in_lines and cell.priority <= options.priority


def _composed_run(cell: Cell, budget: Budget) -> ComposedRun:
    """The run of a cell without its seed, or why there can be none here. A budget for another machine asks no hub."""
    if cell.skipped is not None:
        return ComposedRun({}, cell.skipped)
    run = compose_run(cell.overrides)
    if run.problem:
        return ComposedRun({}, run.problem.split("; ")[0])  # a table has no room for all that is allowed
    if budget.needs is None and (why := unreachable(run.config)):
        return ComposedRun({}, why)
    return run


def _order(job: Job) -> tuple[Any, ...]:
    return job.cell.priority, job.seed, job.estimate.seconds or float("inf"), job.id


def table_cells(grids: Sequence[Grid], budget: Budget) -> dict[str, Any]:
    """Which run stands in which cell of each table: what a report needs besides the runs themselves."""
    return {grid.key: list(_cell_entries(grid, budget)) for grid in grids if not grid.statistics}


def _cell_entries(grid: Grid, budget: Budget) -> Iterator[dict[str, Any]]:
    for cell in tuned_cells(grid, budget):
        run = _composed_run(cell, budget)
        yield {
            "row": cell.row,
            "column": cell.column,
            "command": " ".join(cell.overrides),
            "runs": {} if run.problem else {str(seed): run.id(seed) for seed in cell.seeds},
            "problem": run.problem,
        }


def show_plan(jobs: Sequence[Job], skipped: Sequence[Cell], options: Options, num_finished: int) -> None:
    """What would run, in order, with the time that it is likely to take."""
    rows = [
        (job.cell.table, job.cell.row, job.cell.column, str(job.seed), job.id, _time(job.estimate), job.estimate.source)
        for job in jobs
    ]
    header = ("table", "row", "column", "seed", "run", "about", "estimated from")
    Table(f"BUDGET={options.budget.key}: {options.budget.title}", header, tuple(rows)).show()
    print(f"\n{len(jobs)} runs missing, {num_finished} runs at hand{_total_time(jobs)}")
    for cell in skipped:
        print(f"not run here: {cell.table} {cell.row} {cell.column}: {cell.skipped}")


def _total_time(jobs: Sequence[Job]) -> str:
    seconds = [job.estimate.seconds for job in jobs if job.estimate.seconds is not None]
    unknown = len(jobs) - len(seconds)
    parts = [f"about {duration(sum(seconds))} one after another"] if seconds else []
    parts += [f"{unknown} of unknown length"] if unknown else []
    return f"; {', and '.join(parts)}" if parts else ""


def _time(estimate: Estimate) -> str:
    return MISSING if estimate.seconds is None else duration(estimate.seconds)


def refuse_without_gpu(budget: Budget) -> None:
    """Raises ReportError: the budget needs a GPU and there is none."""
    if budget.needs != "gpu":
        return
    import torch

    if not torch.cuda.is_available():
        problem = f"budget={budget.key}: needs an NVIDIA GPU, found none"
        raise ReportError(f"{problem}; allowed here: dry_run=1, report_only=1")


def keep_finished(grids: Sequence[Grid], options: Options, records: Path) -> None:
    """Keep the records of wanted runs that ended when nobody was there to do so, as after a kill."""
    cells = [cell for grid in grids for cell in tuned_cells(grid, options.budget) if _is_selected(cell, options)]
    composed = [(cell, run) for cell in cells if not (run := _composed_run(cell, options.budget)).problem]
    wanted = {run.id(seed) for cell, run in composed for seed in cell.seeds}
    add_records([run for run in list_runs(options.runs) if run.id in wanted], records)


def execute(jobs: Sequence[Job], options: Options) -> list[SweepJob]:
    """Do the runs, each in a process of its own; the record of each is kept as soon as it is finished."""
    os.environ[SHARED_WORDS] = "1"  # a budget speaks to all rows of a table
    arguments = ["logger=csv", *options.arguments, f"paths.runs={options.runs.absolute()}"]
    folder = options.runs / "sweeps" / f"reproduce-{options.budget.key}-{datetime.now(UTC):%Y-%m-%d_%H-%M-%S}"

    def keep(number: int, outcome: SweepJob) -> None:
        if outcome.folder is None or outcome.status != "finished":
            return
        if outcome.folder.id != jobs[number].id:
            print(f"warning: expected {jobs[number].id}, the run is {outcome.folder.id}", file=sys.stderr)
        if options.records is not None and add_records([outcome.folder], options.records)[1]:
            print(f"{outcome.folder.id}: its code had uncommitted changes, no record is kept; with them committed "
                  "force=true repeats it", file=sys.stderr)  # fmt: skip

    overrides = [job.overrides for job in jobs]
    limit = None if options.hours is None else 3600 * options.hours
    script, warm = str(ROOT / "run.py"), options.budget.warm
    return run_jobs(
        arguments, overrides, folder, options.jobs, script=script, on_end=keep, stop_after=limit, warm=warm
    )


def show_failures(jobs: Sequence[Job], outcomes: Sequence[SweepJob]) -> None:
    """What did not finish, and why."""
    rows = [
        (job.cell.table, job.cell.row, job.cell.column, str(job.seed), outcome.status, outcome.error)
        for job, outcome in zip(jobs, outcomes, strict=True)
        if outcome.status not in ("finished", NOT_STARTED)
    ]
    if idle := sum(outcome.status == NOT_STARTED for outcome in outcomes):
        print(f"\n{idle} of {len(jobs)} runs not started; the same line goes on")
    if rows:
        print()
        title = f"{len(rows)} of {len(jobs)} runs did not finish; the same line tries them again"
        Table(title, ("table", "row", "column", "seed", "status", "why"), tuple(rows)).show()


def main(words: Sequence[str]) -> int:
    options = parse_options(words)
    grids = [load_grid(name) for name in options.tables]
    print(f"BUDGET={options.budget.key}: looking for finished runs of {len(grids)} tables", flush=True)
    known = finished_runs(options)
    jobs, skipped, finished = missing_jobs(grids, options, known)
    if options.dry_run:
        show_plan(jobs, skipped, options, finished)
        return 0
    outcomes: list[SweepJob] = []
    if options.records is not None and not options.report_only:
        keep_finished(grids, options, options.records)
    if jobs and not options.report_only:
        refuse_without_gpu(options.budget)
        outcomes = execute(jobs, options)
        known = finished_runs(options)
    folder = options.out / options.budget.key
    tables = read_grid(folder).get("tables", {}) | table_cells(grids, options.budget)  # tables not asked for stay
    tables = {name: tables[name] for name in table_names() if name in tables}
    content = {"budget": options.budget.key, "tables": tables}
    write_text(folder / GRID, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    page = write_report(folder, options.budget, tables, known)
    show_failures(jobs if outcomes else [], outcomes)
    print(page)
    return 1 if any(outcome.status != "finished" for outcome in outcomes) else 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    run_command(main, __doc__, least=0)
