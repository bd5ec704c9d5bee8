"""Write the report of a budget from its grid and the runs: tables, claims, figures, one page.

    python -m papers.paper_report reports/BUDGET [RUNS …]

Reads reports/BUDGET/grid.json, the records below reports/ and the run stores given (default: none).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from papers.claims import judge, load_claims, one_p, with_one_p
from papers.grid import HERE, Budget, Grid, footnote_texts, load_budget, load_grid, reported_lines, table_names
from papers.page import StatisticsTable, claims_markdown, html_page
from papers.render import cells_csv, latex, markdown, tests_csv
from papers.searches import searches_table
from papers.sensitivity import sensitivity_figure
from papers.table_report import TableReport, table_report
from reporting.arguments import run_command
from reporting.curves import conflict_figure, label_figure, lines_figure
from reporting.metrics import non_uniformity
from reporting.tables import MISSING, Table
from storage.errors import ReportError
from storage.files import write_text
from storage.records import Record, Run, is_of_changed_code, read_store
from storage.run_store import RunFolder

GRID = "grid.json"


def read_stores(stores: Sequence[Path], changed_too: bool = False) -> dict[str, Run]:
    """Finished runs of all stores by id; of several with one id the last record, or where there is none the first run.

    A record is taken as it is, for records made before others were refused are of code that no commit holds
    (`of_no_commit` counts them).

    Args:
        changed_too: also runs of code that no commit holds.
    """
    runs: dict[str, Run] = {}
    for run in (run for store in stores for run in read_store(store) if run.status == "finished"):
        if not isinstance(run, RunFolder):
            runs[run.id] = run
        elif changed_too or not is_of_changed_code(run):
            runs.setdefault(run.id, run)
        else:
            print(f"warning: left out: {run.id}, whose code no commit holds", file=sys.stderr)
    return runs


def write_report_again(folder: Path, stores: Sequence[Path]) -> Path:
    """The report of the grid.json that `papers.reproduce` left in ``folder``; returns the page.

    Raises:
        ReportError: the folder has no grid.json.
    """
    grid = needed_grid(folder)
    record_folders = sorted(path for path in folder.parent.glob("*") if path.is_dir())
    runs = read_stores([*record_folders, *stores])
    if lines := of_no_commit(grid["tables"], runs):
        print("Of code that no commit holds, or that is not known:", *lines, sep="\n  ", file=sys.stderr)
    return write_report(folder, load_budget(grid["budget"]), grid["tables"], runs)


def of_no_commit(tables: Mapping[str, Any], runs: Mapping[str, Run]) -> list[str]:
    """A line a table that has such runs, with their number in its cells and how many of them say of no code at all."""
    lines = []
    for table, entries in tables.items():
        used = [runs[name] for entry in entries for name in entry["runs"].values() if name in runs]
        changed = [run for run in used if is_of_changed_code(run)]
        if changed:
            silent = sum(isinstance(run, Record) and run.read_environment().get("changed") is None for run in changed)
            lines.append(f"{table}: {len(changed)} of {len(used)} runs" + (f", {silent} unknown" if silent else ""))
    return lines


def read_grid(folder: Path) -> dict[str, Any]:
    """The budget and the cells of each table as the last reproduction left them; empty before the first."""
    file = folder / GRID
    return json.loads(file.read_text()) if file.is_file() else {}


def needed_grid(folder: Path) -> dict[str, Any]:
    """As `read_grid`. Raises ReportError: there was no reproduction."""
    if not (grid := read_grid(folder)):
        raise ReportError(f"{folder / GRID}: missing; it is written by make reproduce-tables BUDGET={folder.name}")
    return grid


def write_report(folder: Path, budget: Budget, tables: Mapping[str, Any], runs: Mapping[str, Run]) -> Path:
    """tables.md, tables.tex, cells.csv, tests.csv, claims.md, figures/ and index.html in ``folder``; returns the page.

    Args:
        tables: the cells of each table, as in grid.json.
        runs: finished runs by id.
    """
    grids = sorted(map(load_grid, table_names()), key=lambda grid: (grid.priority, -ord(grid.key[0]), grid.key))
    filled_grids = [grid for grid in grids if tables.get(grid.key)]
    reports = {grid.key: table_report(grid, tables[grid.key], runs, budget.key) for grid in filled_grids}
    verdicts = one_p([judge(claim, reports[claim.table], runs) for claim in load_claims() if claim.table in reports])
    reports = {key: with_one_p(report, verdicts) for key, report in reports.items()}
    statistics = [statistics_table(grid, folder.parent / "cards") for grid in grids if grid.statistics]
    filled = [report for report in reports.values() if not report.is_empty]
    pictures = _figures(filled, tables, runs, folder)
    searches = searches_table([report.grid for report in filled], budget)

    title = f"# The papers' tables, BUDGET={budget.key}\n\n{budget.title}.\n"
    counted = [Table(f"### {table.title}", table.header, table.rows).markdown() for table in statistics]
    tuned = [replace(searches, title=f"### {searches.title}").markdown()] if searches else []
    write_text(folder / "tables.md", "\n".join([title, *tuned, *(markdown(report) for report in filled), *counted]))
    write_text(folder / "tables.tex", "\n".join(latex(report) for report in filled))
    write_text(folder / "cells.csv", cells_csv(filled))
    write_text(folder / "tests.csv", tests_csv(filled))
    write_text(folder / "claims.md", claims_markdown(verdicts, budget.key))
    write_text(folder / "index.html", html_page(budget, filled, verdicts, statistics, pictures, searches))
    return folder / "index.html"


def statistics_table(grid: Grid, cards: Path) -> StatisticsTable:
    """Counts of data sets, from their cards, beside what is printed."""
    shown = {(line["dataset"], line["statistic"]): line["value"] for line in reported_lines(grid.reported or "")}
    rows = []
    for row in grid.rows:
        file = cards / f"{row.key}.json"
        card = json.loads(file.read_text()) if file.is_file() else {}
        if card:
            card["u_percent"] = 100 * non_uniformity(list(card["class_counts"].values()))
        name = row.reported.get("dataset", row.key)
        cells = [_count(card.get(key), shown.get((name, grid.reported_as.get(key, key)))) for key in grid.statistics]
        rows.append((row.title, *cells))
    notes = tuple(footnote_texts()[name] for name in grid.footnotes)
    return StatisticsTable(grid.key, grid.title, ("data set", *grid.statistics.values()), tuple(rows), notes)


def _count(counted: float | None, shown: str | None) -> str:
    text = MISSING if counted is None else f"{round(counted, 1):g}" if counted < 1e5 else f"{counted:.0f}"
    return f"{text} ({shown})" if shown else text


def _figures(
    reports: Sequence[TableReport], entries: Mapping[str, Any], runs: Mapping[str, Run], folder: Path
) -> dict[str, Path]:
    """Title -> SVG of every figure that the runs at hand allow."""
    folder, cards = folder / "figures", folder.parent / "cards"
    figures: dict[str, Path | None] = {
        f"{report.grid.title}. Mean and standard deviation over seeds.": sensitivity_figure(
            report, folder / report.grid.key
        )
        for report in reports
        if report.grid.curve
    }
    figures |= _epoch_figures(entries, runs, folder)
    figures |= _label_figures(reports, entries, runs, cards, folder)
    figures |= _conflict_figures(entries.get("acl_conflict", ()), runs, folder)
    for file in sorted(folder.glob("embeddings-*.svg")):  # drawn by papers.embedding_figures, from checkpoints
        name = file.stem.removeprefix("embeddings-")
        figures[f"t-SNE of test embeddings, colour and marker by class: {name}"] = file
    return {title: file for title, file in figures.items() if file}


def _epoch_figures(
    entries: Mapping[str, Any], runs: Mapping[str, Run], folder: Path
) -> dict[str, Path | None]:
    """The figures of ``definitions/epochs.yaml`` that have runs."""
    figures = {}
    for spec in yaml.safe_load((HERE / "definitions" / "epochs.yaml").read_text(encoding="utf-8")):
        grid = load_grid(spec["table"])
        columns, rows = ({line.key: line.title for line in lines} for lines in (grid.columns, grid.rows))
        panels: dict[str, dict[str, dict[float, list[float]]]] = {}
        for entry in (e for e in entries.get(spec["table"], ()) if e["column"] in spec["columns"]):
            if entry["row"] not in spec["rows"]:
                continue
            points = _values_by_epoch([runs[name] for name in entry["runs"].values() if name in runs], spec["key"])
            if points:
                panels.setdefault(columns[entry["column"]], {})[rows[entry["row"]]] = points
        if panels:
            file = lines_figure(panels, "epoch", spec["axis"], folder / f"epochs-{spec['name']}")
            figures[f"{spec['title']}. Mean and standard deviation over seeds."] = file
    return figures


def _values_by_epoch(runs: Sequence[Run], key: str) -> dict[float, list[float]]:
    """Epoch -> the figure of each run that measured it there."""
    points: dict[float, list[float]] = {}
    for run in (run for run in runs if run.has("history.csv")):
        for line in run.read_csv("history.csv"):
            if line.get(key):
                points.setdefault(int(line["epoch"]) + 1, []).append(float(line[key]))
    return points


def _label_figures(
    reports: Sequence[TableReport], entries: Mapping[str, Any], runs: Mapping[str, Run], cards: Path, folder: Path
) -> dict[str, Path | None]:
    """Label distribution of each column that was run, with what its thinning keeps."""
    figures: dict[str, Path | None] = {}
    columns = {column.key: column for report in reports for column in report.columns if column.overrides}
    for key, column in columns.items():
        ids = (name for cells in entries.values() for e in cells if e["column"] == key for name in e["runs"].values())
        run = next((runs[name] for name in ids if name in runs), None)
        if run is None:
            continue
        metrics = run.read_metrics()
        if "class_counts" not in metrics:
            continue  # a curve of active learning trains on chosen rows
        card = cards / f"{metrics.get('dataset')}.json"
        if not card.is_file():
            continue
        thinned_counts = dict(zip(metrics["label_names"], metrics["class_counts"], strict=True))
        title = f"Label distribution of {column.title}"
        counts = json.loads(card.read_text())["class_counts"]
        file = label_figure(counts, thinned_counts, title, folder / f"labels-{key}")
        figures[f"{title}: training rows; hatched: what trains after the validation split and the thinning."] = file
    return figures


def _conflict_figures(
    entries: Sequence[Mapping[str, Any]], runs: Mapping[str, Run], folder: Path
) -> dict[str, Path | None]:
    figures: dict[str, Path | None] = {}
    for column in dict.fromkeys(entry["column"] for entry in entries):
        ratios: dict[str, dict[int, list[float]]] = {}
        counts: list[int] = []
        for entry in (entry for entry in entries if entry["column"] == column):
            for run in (runs[name] for name in entry["runs"].values() if name in runs):
                if not run.has("gradient_conflict.csv"):
                    continue
                counts = run.read_metrics()["class_counts"]
                lines = run.read_csv("gradient_conflict.csv")
                for line in (line for line in lines if line["epoch"] == lines[-1]["epoch"] and int(line["pairs"])):
                    shares = ratios.setdefault(entry["row"].removeprefix("with_"), {})
                    shares.setdefault(int(line["class"]), []).append(float(line["ratio"]))
        if ratios:
            title = f"Conflicting gradients by class size, {column}"
            figures[f"{title} (last epoch, mean over seeds)."] = conflict_figure(
                ratios, counts, title, folder / f"conflict-{column}"
            )
    return figures


def main(arguments: Sequence[str]) -> None:
    folder, *stores = arguments
    print(write_report_again(Path(folder), [Path(store) for store in stores]))


if __name__ == "__main__":
    run_command(main, __doc__)
