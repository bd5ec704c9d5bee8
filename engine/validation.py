"""Check a whole config against the signatures of what it names, before anything is built.

A callable says what it takes by its annotations: `Literal["a", "b"]` for choices, `Annotated[float, "> 0"]` for ranges.
A new method is therefore validated without an edit here.
"""

from __future__ import annotations

import inspect
import math
import operator
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from engine.allowed_targets import target_findings
from storage.run_store import first_line

COMPARISONS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
HYDRA_KEYS = {"_target_", "_partial_", "_recursive_", "_convert_", "_args_"}


class ConfigError(ValueError):
    """Everything that is wrong with a config, one line a finding."""


@dataclass
class Top:
    """The plain values at the top of a config; everything else there is a group."""

    task: Literal["fit", "describe", "cluster", "evaluate", "predict", "export", "datastore", "chat", "chat_export"]
    seed: Annotated[int, ">= 0", "< 4294967296"]
    force: bool
    start_from: str | None
    run: str | None
    input: str | None
    output: str | None
    text_column: str
    label_column: str
    explain: bool
    add: str | None


@dataclass
class Paths:
    """The group `paths`."""

    runs: str
    data: str
    cache: str
    source_mirror: str | None


WITHOUT_TARGET = {"paths": Paths, "callbacks": None}  # groups that name no callable: what they take, if that is fixed


def validate(config: Mapping[str, Any]) -> None:
    """Check a resolved config (plain dicts): its top, and every `_target_` node against what it names.

    Raises:
        ConfigError: unknown keys, values of a wrong type, outside their range or choices; all findings at once.
    """
    _raise(list(target_findings(config)))  # before anything that a config names is imported
    nodes = (finding for key, node in _target_nodes(config) for finding in _check_node(key, node))
    _raise([*_check_top(config), *_stray_groups(config), *nodes])


def validate_top(config: Mapping[str, Any]) -> None:
    """Check what a config says besides its groups. Raises ConfigError."""
    _raise(list(_check_top(config)))


def _raise(findings: list[str]) -> None:
    if findings:
        raise ConfigError("\n".join(findings))


def _check_top(config: Mapping[str, Any]) -> Iterator[str]:
    plain = {key: value for key, value in config.items() if key in signature(Top)[0] or not _may_be_group(value)}
    yield from _check_values("", plain, Top, "the config")
    yield from _check_values("paths", config["paths"], Paths, "paths")


def _may_be_group(value: Any) -> bool:
    return value is None or isinstance(value, Mapping)


def _stray_groups(config: Mapping[str, Any]) -> Iterator[str]:
    """Groups, and callbacks, that name nothing to call: they would be read by nobody."""
    groups = {key: value for key, value in config.items() if key not in WITHOUT_TARGET}
    callbacks = {f"callbacks.{key}": value for key, value in (config.get("callbacks") or {}).items()}
    for key, value in (groups | callbacks).items():
        if isinstance(value, Mapping) and "_target_" not in value:
            yield f"{key}: found {', '.join(value)} and no _target_; allowed: a whole group, {key}=NAME"


def _target_nodes(node: Any, key: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(node, Mapping):
        return
    if "_target_" in node:
        yield key, node
    for name, child in node.items():
        yield from _target_nodes(child, f"{key}.{name}" if key else str(name))


def _check_node(key: str, node: Mapping[str, Any]) -> Iterator[str]:
    from hydra.utils import get_object

    try:
        target = get_object(node["_target_"])
    except Exception as error:
        yield f"{key}._target_: cannot import {node['_target_']!r} ({first_line(error)})"
        return
    yield from _check_values(key, node, target, node["_target_"])


def _check_values(key: str, node: Mapping[str, Any], target: Any, target_name: str) -> Iterator[str]:
    parameters, open_ended = signature(target)
    for name, value in node.items():
        where = f"{key}.{name}" if key else name
        if name in HYDRA_KEYS:
            continue
        if name not in parameters:
            if not open_ended:
                allowed = ", ".join(sorted(set(parameters) - {"self"}))
                yield f"{where}: unknown key of {target_name}; allowed: {allowed}"
        elif isinstance(value, Mapping) and "_target_" in value:
            continue  # a node of its own
        elif problem := mismatch(value, parameters[name]):
            yield f"{where}: found {value!r}; allowed: {problem}"


def signature(target: Any) -> tuple[dict[str, Any], bool]:
    """Annotations by parameter name, `**kwargs` followed up the classes it is passed to; and whether anything goes."""
    callables = [c.__init__ for c in target.__mro__ if "__init__" in vars(c)] if inspect.isclass(target) else [target]
    parameters: dict[str, Any] = {}
    for function in callables:
        hints = _hints(function)
        kinds = inspect.signature(function).parameters.values()
        for parameter in kinds:
            if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                parameters.setdefault(parameter.name, hints.get(parameter.name, Any))
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in kinds):
            return parameters, False
    return parameters, True


def _hints(function: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError):  # annotations that only a type checker can resolve
        return {}


def mismatch(value: Any, hint: Any) -> str | None:
    """What is allowed, if `value` does not fit `hint`; None if it fits or the hint says nothing checkable."""
    origin = get_origin(hint)
    if origin is Annotated:
        base, *bounds = get_args(hint)
        bounds = [bound for bound in bounds if isinstance(bound, str)]
        kind = mismatch(value, base)
        inside = kind is None and (value is None or all(_holds(value, bound) for bound in bounds))
        return None if inside else " ".join([_name(base), " and ".join(bounds)])
    if origin in (Union, types.UnionType):
        problems = [mismatch(value, option) for option in get_args(hint)]
        return None if None in problems else " or ".join(filter(None, problems))
    if origin is Literal:
        return None if value in get_args(hint) else ", ".join(map(str, get_args(hint)))
    if origin is Sequence:
        (item,) = get_args(hint)
        fits = isinstance(value, list) and value and not any(mismatch(element, item) for element in value)
        return None if fits else f"a list, not empty, of {mismatch(None, item) or 'values'}"
    if hint is type(None):
        return None if value is None else "null"
    if hint in (int, float, bool, str):
        return None if _is(value, hint) else _name(hint)
    if isinstance(hint, type) and not issubclass(hint, Path):  # an object, which no plain value can be
        return None if isinstance(value, (hint, Mapping)) else hint.__name__
    return None


def _holds(value: Any, bound: str) -> bool:
    symbol, limit = bound.split()
    return COMPARISONS[symbol](value, float(limit))


def _is(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _name(hint: Any) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}.get(hint, str(hint))
