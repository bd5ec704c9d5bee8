"""Clusterings side by side: a row a data set, a column a method, means over seeds.

    python -m reporting.cluster_table RUNS [keys=cluster/acc,cluster/nmi] [where=key:value,…]

RUNS is a run store, or a folder of records. Scores are in percent, other figures as they are; whole numbers, as
cluster/num_clusters, are listed seed by seed. `where` takes any config key, written as in YAML ("null" for one that is
not set).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reporting.arguments import folder_and_options, run_command
from reporting.grouping import DATA_SET, runs_by_seed
from reporting.tables import MISSING, Table, factor_of, mean_and_spread
from storage.errors import ReportError
from storage.records import Run, read_store

KEYS = ("cluster/acc", "cluster/nmi")
Results = dict[tuple[str, str], dict[int, Mapping[str, Any]]]  # (data set, method) -> seed -> metrics


def clusterings(runs: Sequence[Run], where: Mapping[str, str]) -> Results:
    """Finished clusterings that fit `where`; a method with several settings by the words that differ, too.

    Raises:
        ReportError: two runs of one method, settings, data set and seed: `where` must tell them apart.
    """
    groups = runs_by_seed(runs, (DATA_SET, "method"), where, "cluster/num_clusters")
    return {
        (name, " ".join(method)): {seed: run.read_metrics() for seed, run in seeds.items()}
        for (name, *method), seeds in groups.items()
    }


def cluster_table(results: Results, keys: Sequence[str] = KEYS) -> Table:
    """Cells hold the keys in their order: mean ± standard deviation (n - 1), or numbers seed by seed."""
    sets, methods = (sorted({key[part] for key in results}) for part in (0, 1))
    rows = []
    for name in sets:
        cells = []
        for method in methods:
            seeds = results.get((name, method), {})
            parts = [_cell([seeds[seed].get(key) for seed in sorted(seeds)], factor_of(key)) for key in keys]
            cells.append(" / ".join(parts) if seeds else MISSING)
        rows.append((name, *cells))
    counts = sorted({len(seeds) for seeds in results.values()})
    title = f"{' / '.join(keys)}, {' or '.join(map(str, counts))} seeds"
    return Table(title, ("data set", *methods), tuple(rows))


def _cell(values: Sequence[float | int | None], factor: float) -> str:
    measured = [value for value in values if value is not None]
    if not measured:
        return MISSING
    if all(isinstance(value, int) for value in measured):
        return ", ".join(map(str, measured))
    return mean_and_spread(measured, factor)


def main(arguments: Sequence[str]) -> None:
    folder, options, where = folder_and_options(arguments, ("keys",))
    keys = options["keys"].split(",") if "keys" in options else KEYS
    results = clusterings(read_store(folder), where)
    if not results:
        raise ReportError(f"{folder}: no finished clusterings that fit")
    print(cluster_table(results, keys).markdown())


if __name__ == "__main__":
    run_command(main, __doc__)
