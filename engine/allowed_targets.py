"""Which classes a config may name: those of the group's own kind, in this project or on an explicit list.

A config comes from the command line, but also from the folder of a run that somebody else made; naming any importable
function there would execute it. Nothing is imported before its name has passed. Of the project's own modules a config
may name what a file of `conf` names, and classes with a base in common with those; never a function beside them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

CONF = Path(__file__).resolve().parents[1] / "conf"
OUTSIDE = ("torch", "lightning")  # packages of which any class of a listed module will do

MODULES = {  # group -> the modules (and what lies below them) that its targets come from
    "active": ("active_learning",),
    "augment": ("datamodules.augment",),
    "callbacks": ("callbacks",),
    "chat": ("tasks.chat",),
    "dataset": ("datamodules.builders",),
    "encoder": ("lightning_modules.encoders",),
    "head": ("lightning_modules.heads",),
    "imbalance": ("datamodules.imbalance",),
    "logger": ("callbacks", "lightning.pytorch.loggers"),
    "loss": ("losses",),
    "method": ("lightning_modules.methods", "clustering.methods"),
    "optimizer": ("torch.optim",),
    "protocol": ("datamodules.splits",),
    "retrieval": ("retrieval",),
    "sampler": ("datamodules.samplers",),
    "scheduler": ("lightning_modules.schedules", "torch.optim.lr_scheduler"),
    "search": ("tasks.search",),
    "trainer": ("engine.trainer",),
}


def target_findings(config: Mapping[str, Any]) -> Iterator[str]:
    """One line for each `_target_` of a plain config that its group may not name, lists included."""
    for group, node in config.items():
        for key, target in _targets(node, str(group)):
            modules = MODULES.get(str(group), ())
            if not modules:
                yield f"{key}._target_: found {_shown(target)}; allowed in {group}: none"
            elif not lies_in(target, modules) or not _is_of_kind(str(target), modules):
                places = " or ".join(modules)
                yield f"{key}._target_: found {_shown(target)}; allowed in {group}: what conf names of {places}"


def _targets(node: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(node, Mapping):
        if "_target_" in node:
            yield key, node["_target_"]
        for name, child in node.items():
            yield from _targets(child, f"{key}.{name}")
    elif isinstance(node, (list, tuple)):
        for position, child in enumerate(node):
            yield from _targets(child, f"{key}[{position}]")


def lies_in(target: Any, modules: tuple[str, ...]) -> bool:
    """Whether a target is a name in one of these modules."""
    return isinstance(target, str) and any(target.startswith(f"{module}.") for module in modules)


def _is_of_kind(target: str, modules: tuple[str, ...]) -> bool:
    """Whether what the name leads to is of the kind, and not merely imported there (`losses.torch.load`).

    A name that leads nowhere is somebody else's finding.
    """
    from hydra.utils import get_object

    if target in conf_targets().values():
        return True
    try:
        item = get_object(target)
    except Exception:
        return True
    module = str(getattr(item, "__module__", ""))
    if not inspect.isclass(item) or not any(f"{module}.".startswith(f"{allowed}.") for allowed in modules):
        return False
    return module.startswith(OUTSIDE) or not _bases(modules).isdisjoint(item.__mro__[1:])


@cache
def _bases(modules: tuple[str, ...]) -> frozenset[type]:
    """The classes from which those that `conf` names in these modules descend."""
    from hydra.utils import get_object

    named = [get_object(target) for target in conf_targets().values() if lies_in(target, modules)]
    return frozenset(base for kind in named if inspect.isclass(kind) for base in kind.__mro__) - {object}


@cache
def conf_targets() -> dict[str, str]:
    """Every target that `conf` names, by the name of its class or function."""
    files = (file.read_text(encoding="utf-8") for file in sorted(CONF.rglob("*.yaml")))
    targets = (target for text in files for target in re.findall(r"_target_:\s*([\w.]+)", text))
    return {target.rpartition(".")[2]: target for target in targets}


def _shown(target: Any) -> str:
    return repr(target)[:100]
