"""The value that runs does not depend on whether a key stands in YAML: see "Defaults" in CONTRIBUTING.md."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from hydra.utils import get_object

from engine.allowed_targets import CONF
from engine.choices import choices
from engine.identity import ROOT
from engine.validation import HYDRA_KEYS, signature

# files there say what a data set is, where things lie, or what of other groups goes together
NO_DEFAULTS = {"all_methods", "dataset", "experiment", "hydra", "paths", "sweep"}
NO_DEFAULTS |= {"method_active", "method_dataset", "method_protocol"}
GROUPS = sorted(folder.name for folder in CONF.iterdir() if folder.is_dir() and folder.name not in NO_DEFAULTS)


def nodes(group: str) -> Iterator[Mapping[str, Any]]:
    """Everything in the files of a group that names something to call."""
    for file in sorted((CONF / group).rglob("*.yaml")):
        content = yaml.safe_load(file.read_text("utf-8")) or {}
        own = content[group] if isinstance(content.get(group), dict) else content
        target = own.get("_target_") or choices(group).get(file.stem)
        yield from (node for node in ({**own, "_target_": target}, *own.values()) if is_node(node))


def is_node(value: Any) -> bool:
    return isinstance(value, dict) and value.get("_target_") is not None


def plain(value: Any) -> Any:
    """A value as YAML would have it: `1e-3`, which is text to its parser, as the number that Hydra reads."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    try:
        return value if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return value


@pytest.mark.parametrize("group", GROUPS)
def test_a_default_is_what_a_file_runs(group: str) -> None:
    """Of a class with one file, that file's value; of one with several, that of at least one of them."""
    files: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for node in nodes(group):
        files[node["_target_"]].append(node)
    differ = []
    for target, of_class in files.items():
        if not (ROOT / target.partition(".")[0]).is_dir():
            continue  # from outside: its defaults are not ours
        parameters = signature(get_object(target))[0]
        for key in {key for node in of_class for key in node} & parameters.keys() - HYDRA_KEYS - {"name"}:
            default = parameters[key].default
            values = [plain(node.get(key, default)) for node in of_class if not isinstance(node.get(key), dict)]
            if default is not parameters[key].empty and values and plain(default) not in values:
                differ.append(f"{target}.{key}: {values} in YAML, {default!r} in the signature")
    assert differ == []


def test_of_a_class_from_outside_the_file_says_what_runs() -> None:
    """Without its line torch's default would run."""
    for optimizer in nodes("optimizer"):
        assert {"lr", "weight_decay", "fused"} <= optimizer.keys()
