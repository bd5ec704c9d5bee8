"""The value that runs does not depend on whether a key stands in YAML."""

from collections import Counter, defaultdict
from typing import Any

import pytest
import yaml
from hydra.utils import get_object

from engine.validation import signature
from tests.engine.plans import CONF

GROUPS = ("loss", "augment", "sampler", "protocol", "retrieval", "imbalance", "scheduler")


def written(group: str) -> dict[str, dict[str, list[Any]]]:
    """Target -> key -> the values that the YAML files of a group give it."""
    values: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for file in sorted((CONF / group).glob("*.yaml")):
        node = yaml.safe_load(file.read_text("utf-8"))
        for key, value in (node.items() if "_target_" in node else ()):
            if key[0] != "_" and value != "???":
                values[node["_target_"]][key].append(value)
    return values


@pytest.mark.parametrize("group", GROUPS)
def test_what_the_yaml_of_a_class_says_is_its_default(group: str) -> None:
    """Of a class with several files, one at least has the default: it is a value that somebody runs."""
    differ = []
    nodes = [yaml.safe_load(file.read_text("utf-8")) for file in (CONF / group).glob("*.yaml")]
    files = Counter(node.get("_target_") for node in nodes)
    for target, keys in written(group).items():
        parameters = signature(get_object(target))[0]
        for key, values in keys.items():
            default = parameters[key].default
            default = list(default) if isinstance(default, tuple) else default
            runs = default in values or len(values) < files[target]  # a file without the key runs the default
            if default is not parameters[key].empty and not runs:
                differ.append(f"{target}.{key}: {values} in YAML, {default!r} in the signature")
    assert differ == []
