"""One table of a paper filled with what was measured: cells, marks, tests, caption."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from engine.information import information_of
from papers.grid import Grid, Line, Metric, Printed, footnote_texts, printed
from reporting.metrics import thirds
from reporting.statistics import EffectSize, PairedComparison, effect_size, holm, paired_comparison
from reporting.tables import marked, marks
from storage.errors import ReportError
from storage.records import Run

SEEDS_TO_COUNT = 3
WHAT_MARKS_SAY = "Beside a row, N: it reads the names of the classes; U: texts without a label."
Key = tuple[str, str, str]  # row, column, metric
ShownColumns = Sequence[tuple[Line, tuple[Metric, ...]]]


@dataclass(frozen=True)
class CellReport:
    """What is printed and what was measured in one cell, as fractions by seed.

    `validation`: the same figure on validation rows, of runs that measured it there.
    """

    printed: Printed | None = None
    values: Mapping[int, float] = field(default_factory=dict)
    validation: Mapping[int, float] = field(default_factory=dict)
    planned: int = 0
    problem: str | None = None
    command: str = ""
    runs: Mapping[int, str] = field(default_factory=dict)  # seed -> id
    mark: str = ""  # best, second or nothing
    ends_best: bool = False  # the last epoch is the best of half of the runs or more: they may not have converged
    scale: float = 100  # shown times this: fractions as %

    @property
    def mean(self) -> float | None:
        return float(np.mean(list(self.values.values()))) if self.values else None

    @property
    def is_planned(self) -> bool:
        """Whether it is a cell of ours, run or still to run, not one of printed figures alone."""
        return bool(self.values) or self.planned > 0

    @property
    def counts(self) -> bool:
        """Whether there are seeds enough to be called best: three, or all where fewer are wanted."""
        return bool(self.values) and len(self.values) >= min(SEEDS_TO_COUNT, self.planned)

    @property
    def std(self) -> float | None:
        """Over seeds, n - 1 in the denominator."""
        return float(np.std(list(self.values.values()), ddof=1)) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Comparison:
    """A paired test of one row against another in one column and metric."""

    row: str
    against: str
    column: str
    metric: str
    result: PairedComparison
    effect: EffectSize | None
    holm_p: float | None = None


@dataclass(frozen=True)
class TableReport:
    """A grid under a budget with everything a page shows of it. Cells are keyed by row, column and metric."""

    grid: Grid
    rows: tuple[Line, ...]
    columns: tuple[Line, ...]
    cells: Mapping[Key, CellReport]
    against_reference: tuple[Comparison, ...]
    against_best: tuple[Comparison, ...]
    caption: str
    footnotes: tuple[str, ...]
    missing: tuple[str, ...]
    unranked: frozenset[str] = frozenset()  # keys of rows that nothing is held against, the reason in `missing`

    def cell(self, row: Line, column: Line, metric: Metric) -> CellReport:
        return self.cells.get((row.key, column.key, metric.key), CellReport())

    def values(self, row: str, column: str, metric: str) -> Mapping[int, float]:
        """Figures by seed of a cell; empty where nothing was measured."""
        cell = self.cells.get((row, column, metric))
        return cell.values if cell else {}

    def runs(self, row: str, column: str) -> Mapping[int, str]:
        """Ids by seed of the runs of a cell; empty where there are none."""
        return next((cell.runs for (r, c, _), cell in self.cells.items() if (r, c) == (row, column)), {})

    @property
    def shown(self) -> ShownColumns:
        """Each column with the metrics that anything was measured or printed of; `missing` names the others."""
        columns = ((column, tuple(self._shown_metrics(column))) for column in self.columns)
        return tuple((column, metrics) for column, metrics in columns if metrics)

    def _shown_metrics(self, column: Line) -> Iterator[Metric]:
        return (m for m in self.grid.metrics if any(_is_filled(self.cell(row, column, m)) for row in self.rows))

    @property
    def is_empty(self) -> bool:
        return not any(cell.values for cell in self.cells.values())


def _is_filled(cell: CellReport) -> bool:
    return bool(cell.values or cell.printed)


def table_report(
    grid: Grid, entries: Sequence[Mapping[str, Any]], runs: Mapping[str, Run], budget: str = ""
) -> TableReport:
    """Fill a grid.

    Args:
        entries: the table's cells in grid.json: row, column, command, runs (seed -> id), problem.
        runs: finished runs by id.
        budget: under which some rows are not ranked.
    """
    by_place = {(entry["row"], entry["column"]): entry for entry in entries}
    columns = [c for c in grid.columns if not c.overrides or any(column == c.key for _, column in by_place)]
    rows = [row for row in grid.rows if any((row.key, c.key) in by_place for c in columns)]
    metrics = {place: _metrics(entry, runs) for place, entry in by_place.items()}
    of_rows = [[m for (key, _), seeds in metrics.items() if key == row.key for m in seeds.values()] for row in rows]
    rows = [replace(row, title=marked(row.title, used)) for row, used in zip(rows, of_rows, strict=True)]
    ends_best = {place for place, entry in by_place.items() if _ends_best(entry, runs)}
    cells = {
        (row.key, column.key, metric.key): replace(
            _cell(grid, row, column, metric, by_place, metrics), ends_best=(row.key, column.key) in ends_best
        )
        for row in rows
        for column in columns
        for metric in grid.metrics
    }
    ranked = [row for row in rows if budget not in row.not_ranked]
    cells = _marked(cells, ranked, columns, grid.metrics)
    runs_used = [seeds for place in metrics.values() for seeds in place.values()]
    return TableReport(
        grid,
        tuple(rows),
        tuple(columns),
        cells,
        _against_reference(grid, cells, rows, columns),
        _against_best(grid, cells, ranked, columns),
        _caption(grid, runs_used, runs, by_place.values()),
        (
            *([WHAT_MARKS_SAY] if any(map(marks, of_rows)) else []),
            *(footnote_texts()[name] for name in grid.footnotes),
        ),
        (
            *(f"{row.title}: not ranked ({row.not_ranked[budget]})" for row in rows if row not in ranked),
            *dict.fromkeys(_missing(grid, by_place, metrics)),
        ),
        frozenset(row.key for row in rows if row not in ranked),
    )


def _ends_best(entry: Mapping[str, Any], runs: Mapping[str, Run]) -> bool:
    """Whether half of a cell's runs or more were best, on what chose the epoch, at the last epoch of their schedule."""
    trained = [runs[name] for name in entry["runs"].values() if name in runs and runs[name].has("history.csv")]
    return bool(trained) and 2 * sum(map(_is_best_last, trained)) >= len(trained)


def _is_best_last(run: Run) -> bool:
    config = run.read_config()
    protocol = config.get("protocol") or {}
    key, sign = str(protocol.get("monitor")), -1 if protocol.get("mode") == "min" else 1
    lines = [line for line in run.read_csv("history.csv") if protocol.get("name") == "clean" and line.get(key)]
    epochs = config["trainer"]["max_epochs"]
    if not lines or epochs == "enough" or (epochs != "converged" and int(lines[-1]["epoch"]) + 1 < epochs):
        return False  # nothing chose, or it was stopped for want of a better one
    figures = [sign * float(line[key]) for line in lines]
    return len(figures) > 1 and figures.index(max(figures)) == len(figures) - 1


def _metrics(entry: Mapping[str, Any], runs: Mapping[str, Run]) -> dict[int, dict[str, Any]]:
    runs_by_seed = {int(seed): runs[name] for seed, name in entry["runs"].items() if name in runs}
    return {
        seed: {**run.read_metrics(), "reads": information_of(run), **conflict_metrics(run)}
        for seed, run in runs_by_seed.items()
    }


def conflict_metrics(run: Run) -> dict[str, float]:
    """Share of positive pairs that the loss pushes apart in the last epoch, overall and by thirds of the classes.

    ``conflict/size_correlation`` is its rank correlation with class size, left out where either is constant.
    """
    if not run.has("gradient_conflict.csv"):
        return {}
    from scipy.stats import spearmanr

    lines = run.read_csv("gradient_conflict.csv")
    last = [line for line in lines if line["epoch"] == lines[-1]["epoch"]]
    counts = run.read_metrics()["class_counts"]
    figures = {"conflict/last_epoch": _ratio(last)}
    for name, classes in thirds(counts).items():
        figures[f"conflict/{name}"] = _ratio([line for line in last if int(line["class"]) in set(classes.tolist())])
    with_pairs = [line for line in last if int(line["pairs"])]
    sizes, ratios = [counts[int(line["class"])] for line in with_pairs], [float(line["ratio"]) for line in with_pairs]
    if len(set(sizes)) > 1 and len(set(ratios)) > 1:
        figures["conflict/size_correlation"] = float(spearmanr(sizes, ratios).statistic)
    return figures


def _ratio(lines: Iterable[Mapping[str, str]]) -> float:
    pairs = sum(int(line["pairs"]) for line in lines)
    return sum(int(line["conflicts"]) for line in lines) / pairs if pairs else 0.0


def _cell(
    grid: Grid,
    row: Line,
    column: Line,
    metric: Metric,
    entries: Mapping[tuple[str, str], Mapping[str, Any]],
    metrics: Mapping[tuple[str, str], Mapping[int, Mapping[str, Any]]],
) -> CellReport:
    figure = printed(grid, row, column, metric)
    entry = entries.get((row.key, column.key))
    if entry is None:
        return CellReport(figure)
    seeds = metrics[row.key, column.key]
    key = row.reads.get(metric.key, metric.key)
    values, validation = _by_seed(seeds, key), {}
    if key.startswith("test/"):
        validation = _by_seed(seeds, key.replace("test/", "val/", 1))
    ids = {int(seed): name for seed, name in entry["runs"].items()}
    return CellReport(figure, values, validation, len(ids), entry["problem"], entry["command"], ids, scale=metric.scale)


def _by_seed(seeds: Mapping[int, Mapping[str, Any]], key: str) -> dict[int, float]:
    return {seed: float(figures[key]) for seed, figures in seeds.items() if figures.get(key) is not None}


def _marked(
    cells: dict[Key, CellReport], rows: Sequence[Line], columns: Sequence[Line], metrics: Sequence[Metric]
) -> dict[Key, CellReport]:
    """Best and runner-up of each column by what chooses between its rows; ties share a mark. Conflicts have none, nor
    figures of which the highest is not the best, nor rows of which only some were measured on validation."""
    marked = dict(cells)
    for column in columns:
        for metric in metrics:
            keys = [(row.key, column.key, metric.key) for row in rows]
            means = _choosing_means({key: cells[key] for key in keys if cells[key].counts})
            if not metric.marked or metric.key.startswith("conflict/") or len(means) < 2:
                continue
            ranked = sorted(set(means.values()), reverse=not metric.lower)
            for place, value in zip(("best", "second"), ranked, strict=False):
                for key in [key for key, mean in means.items() if mean == value]:
                    marked[key] = replace(cells[key], mark=place)
    return marked


def _choosing_means(cells: Mapping[Any, CellReport]) -> dict[Any, float]:
    """Means by which a row is called best, as they would be shown, over the seeds that all rows have.

    Of validation where all rows measured it, of the figure itself where none did, as clusterings; else empty.
    """
    has_validation = {bool(cell.validation) for cell in cells.values()}
    if len(has_validation) != 1:
        return {}
    figures = {key: cell.validation or cell.values for key, cell in cells.items()}
    common = sorted(set.intersection(*(set(values) for values in figures.values())))
    if not common:
        return {}
    return {
        key: round(cells[key].scale * float(np.mean([values[seed] for seed in common])), 2)
        for key, values in figures.items()
    }


def _against_reference(
    grid: Grid, cells: Mapping[Key, CellReport], rows: Sequence[Line], columns: Sequence[Line]
) -> tuple[Comparison, ...]:
    """Every row against the table's reference; Holm's correction over all of them."""
    if grid.reference is None:
        return ()
    comparisons = [
        _compare(cells, row.key, grid.reference, column.key, metric.key)
        for column in columns
        for metric in grid.metrics
        for row in rows
        if row.key != grid.reference
    ]
    return _corrected(comparisons)


def _against_best(
    grid: Grid, cells: Mapping[Key, CellReport], rows: Sequence[Line], columns: Sequence[Line]
) -> tuple[Comparison, ...]:
    """Every proposed row against the best of the rows that are not proposed; Holm's correction over all of them.

    The best is that of validation, as for the marks; where that cannot say it, of the figures that are compared.
    """
    comparisons = []
    for column in columns:
        for metric in grid.metrics:
            baselines = [row.key for row in rows if row.key not in grid.proposed]
            baseline_cells = {key: cells[key, column.key, metric.key] for key in baselines}
            counting = {key: cell for key, cell in baseline_cells.items() if cell.counts}
            means = _choosing_means(counting) or {key: cell.mean or 0.0 for key, cell in counting.items()}
            if means:
                best = (min if metric.lower else max)(means, key=lambda key: means[key])
                comparisons += [_compare(cells, row, best, column.key, metric.key) for row in grid.proposed]
    return _corrected(comparisons)


def _compare(cells: Mapping[Key, CellReport], row: str, baseline: str, column: str, metric: str) -> Comparison | None:
    """None where a row has too few seeds to be called best: its tests would only enlarge the family of the others."""
    compared = [cells.get((key, column, metric), CellReport()) for key in (row, baseline)]
    a, b = (cell.values for cell in compared)
    if not all(cell.counts for cell in compared) or not set(a) & set(b):
        return None
    return Comparison(row, baseline, column, metric, paired_comparison(a, b), effect_size(a, b))


def _corrected(comparisons: Sequence[Comparison | None]) -> tuple[Comparison, ...]:
    present = [comparison for comparison in comparisons if comparison is not None]
    corrected = holm([comparison.result.t_test_p for comparison in present])
    return tuple(replace(comparison, holm_p=p) for comparison, p in zip(present, corrected, strict=True))


def _caption(
    grid: Grid,
    used: Sequence[Mapping[str, Any]],
    runs: Mapping[str, Run],
    entries: Iterable[Mapping[str, Any]],
) -> str:
    """Title, encoder, schedule, protocol and number of seeds, from the runs themselves."""
    if not used:
        return f"{grid.title}. Nothing measured yet."
    ids = [name for entry in entries for name in entry["runs"].values() if name in runs]
    encoders = sorted({setting for name in ids if (setting := _setting(runs[name])) is not None})
    protocols = sorted({str(metrics["protocol"]) for metrics in used if metrics.get("protocol")})
    seeds = sorted({sum(name in runs for name in entry["runs"].values()) for entry in entries} - {0})
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    plural = "seed" if count == "1" else "seeds"
    note = " (epoch chosen on test)" if "published" in protocols else ""
    setting = "; ".join(encoders) or "not trained"
    run_with = f"Encoder {setting}. Protocol {'/'.join(protocols)}{note}. {count} {plural}"
    return f"{grid.title}. {run_with}; {_unit(grid.metrics)}mean ± SD."


def _unit(metrics: Sequence[Metric]) -> str:
    """Of what the metrics have in common; a title names the unit of one that is no share."""
    others = [metric.title for metric in metrics if not metric.is_share]
    if len(others) == len(metrics):
        return ""
    return f"% but for {' and '.join(others)}; " if others else "%, "


def _setting(run: Run) -> str | None:
    """Encoder and schedule of a run that trained; None of one that did not."""
    try:
        config = run.read_config()
        if config.get("task") == "cluster" and not run.has("history.csv"):
            return None  # k-means
        encoder, trainer, sampler = config["encoder"], config["trainer"], config["sampler"]
        layers = f"top {encoder['num_top_layers']}" if encoder["train"] == "top_layers" else encoder["train"]
        epochs = trainer["max_epochs"]
        long = f"{epochs} epochs" if isinstance(epochs, int) else f"max_epochs={epochs}"
        return f"{encoder['name']} ({layers}), {long}, batches of {sampler['batch_size']}"
    except (ReportError, KeyError, TypeError):
        return str(run.read_metrics().get("encoder", "unknown"))


def _missing(
    grid: Grid,
    entries: Mapping[tuple[str, str], Mapping[str, Any]],
    metrics: Mapping[tuple[str, str], Mapping[int, Any]],
) -> Iterable[str]:
    """Lines on what is not there: rows that cannot be run here with the reason, and cells that still lack seeds."""
    titles = {line.key: line.title for line in (*grid.rows, *grid.columns)}
    lacking: dict[str, list[str]] = {}
    problems: dict[tuple[str, str], list[str]] = {}
    for (row, column), entry in entries.items():
        if entry["problem"]:
            problems.setdefault((titles[row], entry["problem"]), []).append(titles[column])
        elif len(metrics[row, column]) < len(entry["runs"]):
            share = f"{titles[column]} {len(metrics[row, column])} of {len(entry['runs'])}"
            lacking.setdefault(titles[row], []).append(share)
    number = {titles[row]: sum(titles[row] == titles[other] for other, _ in entries) for row, _ in entries}
    for (row, problem), columns in problems.items():
        where = "" if len(columns) == number[row] else f" on {', '.join(columns)}"
        yield f"{row}: not run here{where} ({problem})"
    started = {titles[row] for (row, _), seeds in metrics.items() if seeds}
    if idle := [row for row in lacking if row not in started]:
        yield f"Not run yet: {', '.join(idle)}"
    for row, shares in lacking.items():
        if row in started:
            yield f"{row}: seeds still missing ({', '.join(shares)})"
