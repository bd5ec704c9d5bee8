"""Finished runs by what tells them apart, and within that by seed: what every table over seeds begins with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from storage.errors import ReportError
from storage.records import Run
from storage.settings import UNHASHED_ANYWHERE, relevant

DATA_SET = "data set"  # beside the keys of a config: the name of a run's data set, of a user's own with its file
Group = tuple[str, ...]
AS_IN_YAML = {"None": "null", "True": "true", "False": "false"}
NO_SETTINGS = UNHASHED_ANYWHERE | {"name", "_target_", "_partial_", "_recursive_", "_convert_"}


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

    Where runs of one group have other settings, the words that differ follow the values, as ``optimizer.lr=0.0002``.

    Args:
        runs: in any order.
        by: dotted keys of a config, or `DATA_SET`.
        where: dotted key -> value.
        figure: only runs that have it count.

    Raises:
        ReportError: two runs of one group, settings and seed: `where` must tell them apart.
    """
    alike: dict[Group, list[tuple[Run, int, Mapping[str, Any]]]] = {}
    for run in runs:
        metrics = run.read_metrics()
        if metrics.get("status") != "finished" or figure not in metrics:
            continue  # one that was stopped early has no config yet
        if fits(config := _of_what_ran(run.read_config()), where):
            group = tuple(_value(key, metrics, config) for key in by)
            alike.setdefault(group, []).append((run, metrics["seed"], config))
    groups: dict[Group, dict[int, Run]] = {}
    for group, members in alike.items():
        for (run, seed, _), words in zip(members, differing_words([config for *_, config in members]), strict=True):
            seeds = groups.setdefault((*group, *words), {})
            if (other := seeds.setdefault(seed, run)) is not run:
                problem = f"{other.id} and {run.id} are two runs of {' '.join((*group, *words))}, seed {seed}"
                allowed = "one a group and seed, narrow with where=key:value"
                raise ReportError(f"by={','.join(by)}: {problem}; allowed: {allowed}")
    return groups


def _of_what_ran(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of a run of `task=chat` the model that was asked, as its method: no method or encoder of ours took part."""
    if config.get("task") != "chat":
        return config
    return {key: config.get(key) for key in ("task", "dataset", "imbalance", "protocol", "seed")} | {
        "method": config["chat"]
    }


def differing_words(configs: Sequence[Mapping[str, Any]]) -> list[Group]:
    """For each config the settings, as ``key=value``, in which it differs from the others; the seed is none of them.

    A group that chose something else stands for its keys where these follow from the choice. A config without an
    option that others have is older than the option, and had its default: it alone makes no difference.
    """
    settings = [dict(_settings(relevant(config))) for config in configs]
    differing: dict[str, list[str]] = {}
    for key in sorted({key for each in settings for key in each} - {"seed"}):
        values = [each.get(key, "null") for each in settings]
        known = values if _is_chosen(key) else [each[key] for each in settings if key in each]
        chosen = differing.get(key.rpartition(".")[0])
        follows = chosen is not None and len(set(zip(chosen, values, strict=True))) == len(set(chosen))
        if len(set(known)) > 1 and not follows:
            differing[key] = values
    return [tuple(f"{key}={values[place]}" for key, values in differing.items()) for place in range(len(configs))]


def _settings(node: Mapping[str, Any], parent: str = "") -> Iterator[tuple[str, str]]:
    """Dotted keys with their values as text; a node has the name of what it chose, or of its class."""
    for name, value in node.items():
        key = f"{parent}.{name}" if parent else name
        if isinstance(value, Mapping):
            yield key, str(value.get("name") or str(value.get("_target_")).rpartition(".")[2])
            yield from _settings(value, key)
        elif name not in NO_SETTINGS:
            text = written(value)
            yield key, AS_IN_YAML.get(text, text)


def _is_chosen(key: str) -> bool:
    """Whether it is a group of a config, or a callback: one that is not there is none."""
    return "." not in key.removeprefix("callbacks.")


def _value(key: str, metrics: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    return data_set(metrics, config) if key == DATA_SET else written(lookup(config, key))


def data_set(metrics: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """The name of a run's data set, of a user's own with its file."""
    file = lookup(config, "dataset.train")
    return metrics["dataset"] if file is None else f"{metrics['dataset']} {file}"
