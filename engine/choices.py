"""The choices of each group of the config, as their files name them."""

from __future__ import annotations

from functools import cache

import yaml
from hydra.utils import get_object

from engine.identify import CONF


@cache
def choices(group: str) -> dict[str, str]:
    """Name -> target of every choice of a group that names something to call."""
    nodes = {file.stem: yaml.safe_load(file.read_text("utf-8")) for file in sorted((CONF / group).glob("*.yaml"))}
    nodes = {name: (node.get(group) or node) for name, node in nodes.items()}
    return {name: node["_target_"] for name, node in nodes.items() if "_target_" in node}


def names_of_classes(group: str, classes: tuple[type, ...]) -> str:
    """Choices of a group that are of one of these classes; the classes' own names where there are none."""
    names = [name for name, target in choices(group).items() if issubclass(get_object(target), classes)]
    return ", ".join(names or [kind.__name__ for kind in classes])


def name_of(group: str, target: str) -> str:
    """The first choice of a group with this target, or else the target itself."""
    return next((name for name, other in choices(group).items() if other == target), target)
