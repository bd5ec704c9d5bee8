"""Which classes a config may name: those of the group's own kind, in this project or on an explicit list.

A config comes from the command line, but also from the folder of a run that somebody else made; naming any importable
function there would execute it. Nothing is imported before its name has passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

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
    "search": ("tasks.search", "tasks.halving"),
    "trainer": ("engine.trainer",),
}


def target_findings(config: Mapping[str, Any]) -> Iterator[str]:
    """One line for each `_target_` of a plain config that its group may not name, lists included."""
    for group, node in config.items():
        for key, target in _targets(node, str(group)):
            modules = MODULES.get(str(group), ())
            if not modules:
                yield f"{key}._target_: found {_shown(target)}; allowed in {group}: none"
            elif not _lies_in(target, modules) or not _is_defined_in(str(target), modules):
                places = " or ".join(modules)
                yield f"{key}._target_: found {_shown(target)}; allowed in {group}: a class or function of {places}"


def _targets(node: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(node, Mapping):
        if "_target_" in node:
            yield key, node["_target_"]
        for name, child in node.items():
            yield from _targets(child, f"{key}.{name}")
    elif isinstance(node, (list, tuple)):
        for position, child in enumerate(node):
            yield from _targets(child, f"{key}[{position}]")


def _lies_in(target: Any, modules: tuple[str, ...]) -> bool:
    return isinstance(target, str) and any(target.startswith(f"{module}.") for module in modules)


def _is_defined_in(target: str, modules: tuple[str, ...]) -> bool:
    """Whether what the name leads to is defined there, and not merely imported there (`losses.torch.load`).

    A name that leads nowhere is somebody else's finding.
    """
    from hydra.utils import get_object

    try:
        defined = getattr(get_object(target), "__module__", "")
    except Exception:
        return True
    return any(defined == module or str(defined).startswith(f"{module}.") for module in modules)


def _shown(target: Any) -> str:
    return repr(target)[:100]
