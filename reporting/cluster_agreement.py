"""How far the seeds of a setting agree about the clusters: a choice among settings that reads no label.

    python -m reporting.cluster_agreement RUNS [by=KEY,…] [where=key:value,…]

RUNS is a run store, or a folder of records that have predictions. `by` names the config keys that tell the settings of
a method apart; `where` takes any config key, written as in YAML. Where the data set has labels, their scores stand
beside, and of three settings or more how far the order by agreement is the order by scores.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.metrics import adjusted_mutual_info_score

from reporting.arguments import folder_and_options, run_command
from reporting.compare import spread
from reporting.grouping import DATA_SET, data_set, lookup, runs_by_seed
from reporting.tables import MISSING, SweepJob, Table
from storage.errors import ReportError
from storage.records import Run, read_store
from storage.run_store import COMMAND

SCORES = ("cluster/acc", "cluster/nmi")
Setting = tuple[str, str, str]  # data set, method, values of the keys
RunsBySetting = dict[Setting, dict[int, Run]]  # by seed


@dataclass(frozen=True)
class Agreement:
    """Adjusted mutual information between the clusters of two seeds: the mean over all pairs, and the lowest."""

    mean: float
    lowest: float


def settings(runs: Sequence[Run], by: Sequence[str], where: Mapping[str, str]) -> RunsBySetting:
    """Finished clusterings that fit `where`, by the values of the config keys `by`.

    Raises:
        ReportError: a key of `by` that no run sets; two runs of one setting and seed: `by` or `where` must tell them
            apart.
    """
    groups = runs_by_seed(runs, (DATA_SET, "method", *by), where, "cluster/num_clusters")
    configs = [run.read_config() for seeds in groups.values() for run in seeds.values()]
    if unset := sorted(key for key in by if configs and all(lookup(config, key) is None for config in configs)):
        raise ReportError(f"by={','.join(by)}: no run sets {', '.join(unset)}; allowed: keys of their configs")
    return {(name, method, " ".join(values)): seeds for (name, method, *values), seeds in groups.items()}


def agreement(runs: Sequence[Run]) -> Agreement:
    """Of two runs or more over the same texts: 1 where all cluster alike, about 0 where no more than by chance, and
    0 where one left all texts in one cluster, which tells nothing apart.

    Adjusted for chance (Vinh et al., JMLR 2010), with the arithmetic mean of the entropies, so that settings which
    leave different numbers of clusters can be compared. K-means on embeddings that do not change agrees with itself
    whatever they are worth: compare settings of one method.

    Raises:
        ReportError: a run without predictions, or over other texts.
    """
    clusters = [_clusters(run) for run in runs]
    if any(assignments.keys() != clusters[0].keys() for assignments in clusters):
        raise ReportError(f"{', '.join(run.id for run in runs)}: other texts; allowed: runs over the same ones")
    columns = [np.array([assignments[index] for index in clusters[0]]) for assignments in clusters]
    pairs = [_pair(first, second) for first, second in combinations(columns, 2)]
    return Agreement(fmean(pairs), min(pairs))


def _pair(first: NDArray[np.str_], second: NDArray[np.str_]) -> float:
    if min(len(np.unique(first)), len(np.unique(second))) == 1:
        return 0.0
    return float(adjusted_mutual_info_score(first, second))


def _clusters(run: Run) -> dict[tuple[str, str | None], str]:
    rows = run.read_csv("predictions.csv", "index", "cluster")
    return {(str(row["index"]), row.get("text")): row["cluster"] for row in rows}


def agreements(groups: RunsBySetting) -> dict[Setting, Agreement]:
    """Of the settings that have two seeds or more.

    Raises:
        ReportError: none has.
    """
    measured = {key: agreement(list(seeds.values())) for key, seeds in sorted(groups.items()) if len(seeds) > 1}
    if not measured:
        raise ReportError("no setting has two seeds; allowed: finished clusterings of two or more, as with seed=0,1,2")
    return measured


def agreement_table(groups: RunsBySetting, measured: Mapping[Setting, Agreement], by: Sequence[str]) -> Table:
    """A row a setting; of each data set and method the largest agreement is bold."""
    rows = []
    for (dataset, method, setting), value in measured.items():
        rivals = [other.mean for key, other in measured.items() if key[:2] == (dataset, method)]
        text = f"{100 * value.mean:.2f}"
        best = len(rivals) > 1 and value.mean == max(rivals)
        seeds = {seed: run.read_metrics() for seed, run in groups[dataset, method, setting].items()}
        occupied = ", ".join(str(seeds[seed].get("cluster/occupied", MISSING)) for seed in sorted(seeds))
        scores = (spread(seeds, key) for key in SCORES)
        cells = (f"**{text}**" if best else text, f"{100 * value.lowest:.2f}", occupied, *scores)
        rows.append((dataset, method, setting, str(len(seeds)), *cells))
    setting = ", ".join(by) or "setting"
    header = ("data set", "method", setting, "seeds", "agreement", "lowest pair", "occupied", *SCORES)
    return Table("agreement between seeds (adjusted mutual information), %; scores by the labels", header, tuple(rows))


def agreement_in_sweep(jobs: Sequence[SweepJob]) -> tuple[Table, list[str]] | None:
    """What a sweep of clusterings over settings and seeds says: the table, and for each data set and method the line
    of the setting that agrees most. None where no method that trains has two settings of two seeds.

    Raises:
        ReportError: as `agreement` does.
    """
    finished = [(job, job.folder) for job in jobs if job.folder and _has_trained_clusters(job)]
    keys = list(dict.fromkeys(key for job, _ in finished for key in job.overrides if key != "seed"))
    by = [key for key in keys if len({job.overrides.get(key) for job, _ in finished}) > 1]
    groups: RunsBySetting = {}
    lines: dict[Setting, str] = {}
    for job, run in finished:
        name, values = data_set(job.metrics, run.read_config()), [job.overrides.get(key, MISSING) for key in by]
        setting = (name, str(job.metrics["method"]), " ".join(values))
        groups.setdefault(setting, {})[job.metrics["seed"]] = run
        lines[setting] = _line(job)
    settings_of = Counter(key[:2] for key, seeds in groups.items() if len(seeds) > 1)
    compared = {key: seeds for key, seeds in groups.items() if len(seeds) > 1 and settings_of[key[:2]] > 1}
    if not compared:
        return None
    measured = agreements(compared)
    rivals = ([key for key in measured if key[:2] == pair] for pair in dict.fromkeys(key[:2] for key in measured))
    best = [lines[max(keys, key=lambda key: measured[key].mean)] for keys in rivals]
    return agreement_table(compared, measured, by), best


def _has_trained_clusters(job: SweepJob) -> bool:
    figures = [job.metrics.get(name) for name in ("cluster/num_clusters", "epochs")]
    return job.status == "finished" and None not in figures


def _line(job: SweepJob) -> str:
    """What to type for the setting of a job; its seed is left to whoever types it."""
    words = [f"{key}={value}" for key, value in job.overrides.items() if key not in ("seed", "sweep")]
    return f"{COMMAND} {shlex.join(words)}"


def correlation_table(groups: RunsBySetting, measured: Mapping[Setting, Agreement]) -> Table:
    """Spearman's correlation of agreement with each score's mean over seeds; a row where three settings have both."""
    rows = []
    for dataset, method in sorted({key[:2] for key in measured}):
        keys = [key for key in measured if key[:2] == (dataset, method)]
        means = [[_mean(groups[key], score) for key in keys] for score in SCORES]
        if len(keys) < 3 or any(value is None for values in means for value in values):
            continue
        agreed = [measured[key].mean for key in keys]
        rows.append((dataset, method, str(len(keys)), *(_rank_correlation(agreed, values) for values in means)))
    header = ("data set", "method", "settings", *SCORES)
    return Table("rank correlation (Spearman) of agreement with", header, tuple(rows))


def _rank_correlation(agreed: Sequence[float], values: Sequence[float | None]) -> str:
    if len(set(agreed)) == 1 or len(set(values)) == 1:
        return MISSING  # not defined where all are equal
    return f"{float(spearmanr(agreed, values).statistic):.2f}"


def _mean(seeds: Mapping[int, Run], score: str) -> float | None:
    values: list[Any] = [run.read_metrics().get(score) for run in seeds.values()]
    return None if None in values else fmean(values)


def main(arguments: Sequence[str]) -> None:
    folder, options, where = folder_and_options(arguments, ("by",))
    by = [key for key in options.get("by", "").split(",") if key]
    groups = settings(read_store(folder), by, where)
    measured = agreements(groups)
    print(agreement_table(groups, measured, by).markdown())
    correlations = correlation_table(groups, measured)
    if correlations.rows:
        print(correlations.markdown())


if __name__ == "__main__":
    run_command(main, __doc__)
