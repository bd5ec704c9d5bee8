"""The choices of each group of the config, as their files name them."""

from __future__ import annotations

from functools import cache

import yaml
from hydra.utils import get_object

from engine.allowed_targets import CONF


@cache
def choices(group: str) -> dict[str, str]:
    """Name -> target of every choice of a group that names something to call."""
    names = [file.stem for file in sorted((CONF / group).glob("[!_]*.yaml"))]
    return {name: target for name in names if (target := _target(group, name))}


def _target(group: str, name: str) -> str | None:
    """What a choice calls: its own target, or that of the first choice that it builds on."""
    node = yaml.safe_load((CONF / group / f"{name}.yaml").read_text("utf-8"))
    parents = (entry for entry in node.get("defaults", ()) if isinstance(entry, str) and entry != "_self_")
    own = (node.get(group) or node).get("_target_")
    return own or next(filter(None, (_target(group, parent) for parent in parents)), None)


def choices_of_classes(group: str, classes: tuple[type, ...]) -> str:
    """Choices of a group that are of one of these classes; the classes' own names where there are none."""
    names = [name for name, target in choices(group).items() if issubclass(get_object(target), classes)]
    return ", ".join(names or [kind.__name__ for kind in classes])


def choice_name(group: str, target: str) -> str:
    """The first choice of a group with this target, or else the target itself."""
    return next((name for name, other in choices(group).items() if other == target), target)
