"""Methods side by side: mean and spread over seeds, and a paired test against a baseline.

    python -m reporting.compare RUNS dataset=ohsumed [baseline=ce] [by=method] [metric=test/macro_f1] [where=key:value]
        [columns=test/accuracy,...] [figure=FILE] [along=dataset.labels] [also=RUNS]

RUNS is a run store, or a folder of records (storage/records.py). `by` is any config key, or several. `along`, a key of
numbers, is one more of them, and the figure has `metric` against it, a line a group, its standard deviation a band;
`also`, another such folder, gives it further lines. Without `along` the figure has a panel for each of `columns` and
`metric` that are asked for. Without a baseline the table has a row a group, too, and a column a
number. Runs of one group with other settings are rows of their own, named by what differs, as in "ce
optimizer.lr=0.0002". A difference is over the seeds that both rows have; how many pairs these are stands beside it
where a row has more. N beside a group: it reads the names of the classes; U: texts without a label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reporting.arguments import folder_and_options, run_command
from reporting.curves import METRICS, lines_figure, seeds_figure
from reporting.grouping import lookup, runs_by_seed
from reporting.statistics import paired_comparison
from reporting.tables import MISSING, Table, factor_of, is_share, marked, mean_and_spread
from storage.errors import ReportError
from storage.records import Run, read_store

COLUMNS = ("test/accuracy", "test/macro_f1", "test/macro_f1_tail", "val/macro_f1")
OPTIONS = ("dataset", "baseline", "by", "metric", "columns", "figure", "along", "also")
Values = dict[str, dict[int, dict[str, Any]]]  # group -> seed -> metrics


def grouped(runs: Sequence[Run], by: Sequence[str], where: Mapping[str, str], along: str | None = None) -> Values:
    """Finished runs that fit `where`, as group -> seed -> metrics.

    Args:
        by: dotted keys, whose values name a group, with the settings in which runs of one group differ.
        along: one more of them, whose value comes last.

    Raises:
        ReportError: two runs of one group, settings and seed; runs on several files of the user's.
    """
    groups = runs_by_seed(runs, [along, *by] if along else by, where)
    files = {str(lookup(run.read_config(), "dataset.train")) for seeds in groups.values() for run in seeds.values()}
    if len(files) > 1:
        shown = " and ".join(sorted(files)[:2])
        raise ReportError(f"dataset: found runs on {shown}; allowed: one file, narrow with where=dataset.train:FILE")
    names = {group: (*group[1:], group[0]) if along else group for group in groups}
    return {
        " ".join(names[group]): {seed: run.read_metrics() for seed, run in seeds.items()}
        for group, seeds in groups.items()
    }


def compare(values: Values, baseline: str, metric: str, title: str, columns: Sequence[str] = COLUMNS) -> Table:
    """One row a group: mean ± standard deviation (n - 1) over seeds, and the paired difference to `baseline`; shares
    in %.

    Raises:
        ReportError: no group `baseline`, or no run of it has the figure `metric`.
    """
    if baseline not in values:
        raise ReportError(f"baseline={baseline}: no such group; there are {', '.join(sorted(values)) or 'none'}")
    figures = {group: _figures(seeds, metric) for group, seeds in values.items()}
    if not (reference := figures[baseline]):
        raise ReportError(f"metric={metric}: no run of {baseline} has it; {_known_figures(values)}")
    rows = []
    for group, seeds in sorted(values.items(), key=lambda item: -_mean(figures[item[0]])):
        outcome = (MISSING, MISSING, MISSING)
        if group != baseline and set(figures[group]) & set(reference):
            outcome = _outcome(figures[group], reference, max(len(seeds), len(values[baseline])), factor_of(metric))
        figures_shown = (spread(seeds, column) for column in columns)
        rows.append((marked(group, seeds.values()), str(len(seeds)), *figures_shown, *outcome))
    header = ("", "seeds", *columns, f"{metric} minus {baseline}", "95 % interval", "paired t-test p")
    return Table(title, header, tuple(rows))


def compare_along(values: Values, metric: str, along: str, title: str) -> Table:
    """One row a group, the best at its least number first, one column a number: mean ± standard deviation (n - 1) over
    seeds; shares in %.

    Raises:
        ReportError: the last word of a group is no number, or no run has the figure `metric`.
    """
    if not (lines := curves(values, metric, along)):
        raise ReportError(f"metric={metric}: no run has it; {_known_figures(values)}")
    numbers = sorted({number for line in lines.values() for number in line})
    best_first = sorted(lines, key=lambda name: -float(np.mean(lines[name][min(lines[name])])))
    factor = factor_of(metric)
    rows = [(name, *(mean_and_spread(lines[name].get(n, []), factor) for n in numbers)) for name in best_first]
    return Table(title, (f"{metric}, {along}", *(f"{number:g}" for number in numbers)), tuple(rows))


def _figures(seeds: Mapping[int, Mapping[str, Any]], key: str) -> dict[int, float]:
    """The figure of each seed that has it."""
    return {seed: metrics[key] for seed, metrics in seeds.items() if type(metrics.get(key)) in (int, float)}


def _known_figures(values: Values) -> str:
    keys = {key for seeds in values.values() for metrics in seeds.values() for key in metrics}
    return f"allowed: {', '.join(sorted(key for key in keys if '/' in key)) or 'none, for no run fits'}"


def _mean(figures: Mapping[int, float]) -> float:
    """The mean; of no figure less than any."""
    return float(np.mean(list(figures.values()))) if figures else -np.inf


def spread(seeds: Mapping[int, Mapping[str, Any]], key: str) -> str:
    """Mean ± standard deviation (n - 1) of the seeds that have the figure; of a share in percent."""
    figures = [metrics[key] for metrics in seeds.values() if metrics.get(key) is not None]
    return mean_and_spread(figures, factor_of(key))


def _outcome(
    values: Mapping[int, float], reference: Mapping[int, float], seeds: int, factor: float
) -> tuple[str, str, str]:
    """Difference, interval and p; the number of pairs where it is not that of all seeds."""
    result = paired_comparison(values, reference)
    number = len(result.seeds)
    pairs = f" ({number} pair{'' if number == 1 else 's'})" if number < seeds else ""
    interval = MISSING if result.interval is None else " to ".join(f"{factor * end:+.2f}" for end in result.interval)
    return (
        f"{factor * result.difference:+.2f}{pairs}",
        interval,
        MISSING if result.t_test_p is None else f"{result.t_test_p:.3g}",
    )


def curves(values: Values, metric: str, along: str) -> dict[str, dict[float, list[float]]]:
    """Line -> number -> figures of the seeds, of groups whose last word is a number. Raises ReportError: it is none."""
    lines: dict[str, dict[float, list[float]]] = {}
    for group, seeds in values.items():
        name, _, last = group.rpartition(" ")
        try:
            number = float(last)
        except ValueError as error:
            raise ReportError(f"along={along}: found {last}; allowed: a key whose values are numbers") from error
        if figures := list(_figures(seeds, metric).values()):
            lines.setdefault(marked(name, seeds.values()), {})[number] = figures
    return lines


def _names(values: Values, key: str) -> str:
    """What the runs have for a group of the config, "none" for those without."""
    return "/".join(sorted({str(run.get(key) or "none") for seeds in values.values() for run in seeds.values()}))


def _unit(keys: Sequence[str]) -> str:
    """What a title says of the unit of these figures."""
    shares = set(map(is_share, keys))
    return ", %" if shares == {True} else ", shares in %" if True in shares else ""


def main(arguments: Sequence[str]) -> None:
    folder, options, where = folder_and_options(arguments, OPTIONS)
    if "dataset" not in options:
        raise ReportError("dataset: missing; allowed: the name of a data set, as in dataset=ohsumed")
    where |= {"dataset": options["dataset"]}
    by, metric = options.get("by", "method").split(","), options.get("metric", "test/macro_f1")
    along, also = options.get("along"), Path(options["also"]) if "also" in options else None
    if also and not (also.is_dir() and along and "figure" in options):
        raise ReportError(f"also={also}: allowed: a folder of runs or records, with along=KEY and figure=FILE")
    values = grouped(read_store(folder), by, where, along)
    encoders, protocols = (_names(values, key) for key in ("encoder", "protocol"))
    columns = options["columns"].split(",") if "columns" in options else COLUMNS
    for key in columns if "columns" in options else ():
        if not any(_figures(seeds, key) for seeds in values.values()):
            raise ReportError(f"columns: no run has {key}; {_known_figures(values)}")
    is_along = along and "baseline" not in options and "columns" not in options
    unit = _unit([metric] if is_along else [metric, *columns])
    title = f"{options['dataset']}, {encoders}, protocol {protocols}{unit}"
    if along and is_along:
        print(compare_along(values, metric, along, title).markdown())
    else:
        print(compare(values, options.get("baseline", "ce"), metric, title, columns).markdown())
    if along and "figure" in options:
        lines = curves(values, metric, along)
        if also:
            more = curves(grouped(read_store(also), by, where, along), metric, along)
            lines |= {f"{name}, {also.name}" if name in lines else name: line for name, line in more.items()}
        label, file = f"{metric}{_unit([metric])}", Path(options["figure"])
        lines_figure({options["dataset"]: lines}, along, label, file, factor=factor_of(metric), bands=True)
    elif "figure" in options:
        asked = [*(columns if "columns" in options else ()), *([metric] if "metric" in options else ())]
        keys = dict.fromkeys(asked or METRICS)
        drawn = [key for key in keys if any(_figures(seeds, key) for seeds in values.values())]
        if not drawn:
            raise ReportError(f"figure: no run has {', '.join(keys)}; columns=…, {_known_figures(values)}")
        seeds_figure(values, Path(options["figure"]), f"{title}; points are seeds, bars their means", drawn)


if __name__ == "__main__":
    run_command(main, __doc__)
