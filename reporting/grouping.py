"""Finished runs by what tells them apart, and within that by seed: what every table over seeds begins with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from storage.errors import ReportError
from storage.records import Run

DATA_SET = "data set"  # beside the keys of a config: the name of a run's data set, of a user's own with its file
Group = tuple[str, ...]


def lookup(config: Mapping[str, Any], key: str) -> Any:
    """Value of a dotted key; a node gives its name, a missing key None."""
    node: Any = config
    for part in key.split("."):
        node = node.get(part) if isinstance(node, Mapping) else None
    return node.get("name") if isinstance(node, Mapping) else node


def written(value: Any) -> str:
    """A config value as text, however it was typed: 10, 10.0 and 1e1 are one, and null is None."""
    text = "None" if value == "null" else str(value)
    try:
        return f"{float(text):.12g}"
    except ValueError:
        return text


def fits(config: Mapping[str, Any], where: Mapping[str, str]) -> bool:
    """Whether each dotted key of `where` has its value, written as in YAML (`true`, `null`)."""
    return all(written(lookup(config, key)).lower() == written(value).lower() for key, value in where.items())


def runs_by_seed(
    runs: Sequence[Run], by: Sequence[str], where: Mapping[str, str], figure: str = "seed"
) -> dict[Group, dict[int, Run]]:
    """Finished runs that fit `where`, by the values of `by` as text, and by seed.

    Args:
        runs: in any order.
        by: dotted keys of a config, or `DATA_SET`.
        where: dotted key -> value.
        figure: only runs that have it count.

    Raises:
        ReportError: two runs of one group and seed: `by` or `where` must tell them apart.
    """
    import pandas as pd

    rows = []
    for run in runs:
        metrics, config = run.read_metrics(), run.read_config()
        if metrics.get("status") == "finished" and figure in metrics and fits(config, where):
            rows.append((*(_value(key, metrics, config) for key in by), metrics["seed"], run))
    table = pd.DataFrame(rows, columns=[*range(len(by)), "seed", "run"])
    places = [*range(len(by)), "seed"]
    for _, two in table[table.duplicated(places, keep=False)].groupby(places):
        group, ids = " ".join(two.iloc[0, :-2]), " and ".join(run.id for run in two["run"][:2])
        raise ReportError(
            f"by={','.join(by)}: {ids} are two runs of {group}, seed {two['seed'].iloc[0]}; "
            "allowed: one a group and seed, narrow with where=key:value"
        )
    groups = table.groupby(places[:-1], sort=False)
    return {tuple(map(str, group)): dict(zip(part["seed"], part["run"], strict=True)) for group, part in groups}


def _value(key: str, metrics: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    return data_set(metrics, config) if key == DATA_SET else written(lookup(config, key))


def data_set(metrics: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """The name of a run's data set, of a user's own with its file."""
    file = lookup(config, "dataset.train")
    return metrics["dataset"] if file is None else f"{metrics['dataset']} {file}"
