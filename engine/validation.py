"""Check a whole config against the signatures of what it names, before anything is built.

A callable says what it takes by its annotations: `Literal["a", "b"]` for choices, `Annotated[float, "> 0"]` for ranges,
`Annotated[str, "~ [a-z]+"]` for what a text must match. A new method is therefore validated without an edit here.
pydantic holds values against them: strictly, so that neither true nor "1" is 1.
"""

from __future__ import annotations

import inspect
import operator
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, Field, InstanceOf, Strict, TypeAdapter, ValidationError

from active_learning.inputs import INPUTS
from engine.allowed_targets import MODULES, target_findings
from storage.errors import nearest
from storage.run_store import first_line

BOUNDS = {">=": "ge", "<=": "le", ">": "gt", "<": "lt", "~": "pattern"}
REFUSE_ANY = ("torch.nn.modules.module", "lightning.pytorch.core.module")  # whose `**kwargs` are none in truth
HYDRA_KEYS = {"_target_", "_partial_", "_recursive_", "_convert_", "_args_"}
# what the engine hands to a node of a group: a config does not
SUPPLIED = {
    "method": {"encoder", "loss", "optimizer", "scheduler", "seed", "class_counts", "label_pieces"},
    "trainer": {"run_folder", "callbacks", "logger", "plugins", "batches"},
    "callbacks": {"run", "protocol"},
    "logger": {"run", "config"},
    "optimizer": {"params"},
    "scheduler": {"optimizer", "total_steps"},
    "active.strategy": INPUTS,
}
CALLED_WITH_ALL = ("optimizer", "scheduler")  # groups whose choices must take all that is supplied, and no more
SHOWN = 80  # characters of a value in a message


class ConfigError(ValueError):
    """Everything that is wrong with a config, one line a finding."""


@dataclass
class Top:
    """The plain values at the top of a config; everything else there is a group."""

    task: Literal[
        "fit", "auto", "describe", "cluster", "drift", "evaluate", "predict", "export", "datastore", "chat",
        "chat_export", "runs", "board", "serve"
    ]
    seed: Annotated[int, ">= 0", "< 4294967296"] = 0
    force: bool = False
    start_from: str | None = None
    run: str | None = None
    input: Annotated[str | None, "with task=predict|drift|auto|evaluate"] = None
    output: Annotated[Annotated[str, "~ .+"] | None, "with task=predict|drift|export|chat_export"] = None
    format: Annotated[Literal["transformers", "onnx", "sentence_transformers"], "with task=export"] = "transformers"
    host: Annotated[str, "with task=serve"] = "127.0.0.1"
    port: Annotated[Annotated[int, ">= 0", "<= 65535"], "with task=serve"] = 8000
    quantize: Annotated[Literal["int8"] | None, "with task=export"] = None
    text_column: Annotated[str, "with task=predict|drift|evaluate|datastore|auto"] = "text"
    label_column: Annotated[str, "with task=evaluate|datastore|auto"] = "label"
    encoding: Annotated[str | None, "with task=predict|drift|evaluate|datastore|auto"] = None
    delimiter: Annotated[str | None, "with task=predict|drift|evaluate|datastore|auto"] = None
    header: Annotated[bool, "with task=predict|drift|evaluate|datastore|auto"] = True
    sheet: Annotated[Annotated[str, "~ .+"] | None, "with task=predict|drift|evaluate|datastore|auto"] = None
    label_separator: Annotated[Annotated[str, "~ .+"] | None, "with task=evaluate|datastore|auto"] = None
    missing: Annotated[list[str | int | float | None] | None, "with task=predict|evaluate|datastore|auto"] = None
    probabilities: Annotated[bool, "with task=predict"] = False
    explain: Annotated[bool, "with task=predict"] = False
    sure: Annotated[Annotated[float, "> 0", "< 1"] | None, "with task=predict|serve"] = None
    rival: Annotated[Literal["logistic", "always"] | None, "with task=fit"] = "logistic"
    add: Annotated[str | None, "with task=datastore"] = None
    minutes: Annotated[Annotated[float, "> 0"], "with task=auto"] = 20.0
    methods: Annotated[list[str] | None, "with task=auto"] = None
    prefer: Annotated[Literal["quality", "speed", "size"], "with task=auto"] = "quality"
    markup: Annotated[Literal["keep", "strip"], "with task=auto"] = "keep"
    unlabelled: Annotated[str | None, "with task=auto"] = None
    test: Annotated[str | None, "with task=auto"] = None
    class_descriptions: Annotated[str | None, "with task=auto"] = None
    precision: Annotated[Annotated[float, "> 0", "< 1"], "with task=auto"] = 0.95


@dataclass
class Paths:
    """The group `paths`."""

    runs: str
    data: str
    cache: str
    source_mirror: str | None


@dataclass
class ClusterPage:
    """The group `cluster`."""

    names: Annotated[list[str] | None, "with task=cluster"] = None
    level: Annotated[Annotated[int, ">= 1"] | None, "with task=cluster"] = None


# groups that name no callable: what they take, if that is fixed
WITHOUT_TARGET = {"paths": Paths, "cluster": ClusterPage, "callbacks": None}


def validate(config: Mapping[str, Any]) -> None:
    """Check a resolved config (plain dicts): its top, and every `_target_` node against what it names.

    Raises:
        ConfigError: unknown keys, values of a wrong type, outside their range or choices; all findings at once.
    """
    check_targets(config)
    nodes = (finding for key, node in target_nodes(config) for finding in _check_node(key, node))
    _raise([*_check_top(config), *_stray_groups(config), *nodes])


def check_targets(config: Mapping[str, Any]) -> None:
    """Check what a config names, before anything of it is imported. Raises ConfigError."""
    _raise(list(target_findings(config)))


def validate_top(config: Mapping[str, Any]) -> None:
    """Check what a config says besides its groups. Raises ConfigError."""
    _raise(list(_check_top(config)))


def _raise(findings: list[str]) -> None:
    if findings:
        raise ConfigError("\n".join(findings))


def _check_top(config: Mapping[str, Any]) -> Iterator[str]:
    plain = {key: value for key, value in config.items() if key in signature(Top)[0] or not _may_be_group(key, value)}
    yield from _check_values("", plain, Top, "the config")
    yield from _check_values("paths", config.get("paths") or {}, Paths, "paths")
    yield from _check_values("cluster", config.get("cluster") or {}, ClusterPage, "cluster")


def _may_be_group(key: str, value: Any) -> bool:
    return isinstance(value, Mapping) or (value is None and key in MODULES | WITHOUT_TARGET)


def _stray_groups(config: Mapping[str, Any]) -> Iterator[str]:
    """Groups, and callbacks, that name nothing to call: they would be read by nobody."""
    groups = {key: value for key, value in config.items() if key not in WITHOUT_TARGET}
    for key, value in groups.items():
        if isinstance(value, Mapping) and "_target_" not in value:
            yield f"{key}: found {', '.join(map(str, value))} and no _target_; allowed: a whole group, {key}=NAME"
    callbacks = config.get("callbacks")
    for name, value in callbacks.items() if isinstance(callbacks, Mapping) else ():  # a plain value is an unknown key
        if value is not None and not (isinstance(value, Mapping) and "_target_" in value):
            yield f"callbacks.{name}: found {_shown(value)}; allowed: null, or a node with a _target_"


def target_nodes(node: Any, key: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Dotted key and node of everything in a config that names something to call."""
    if not isinstance(node, Mapping):
        return
    if "_target_" in node:
        yield key, node
    for name, child in node.items():
        yield from target_nodes(child, f"{key}.{name}" if key else str(name))


def _check_node(key: str, node: Mapping[str, Any]) -> Iterator[str]:
    from hydra.utils import get_object

    try:
        target = get_object(node["_target_"])
    except Exception as error:
        yield f"{key}._target_: cannot import {_shown(node['_target_'])} ({first_line(error)})"
        return
    parameters, open_ended = signature(target)
    if key in CALLED_WITH_ALL and not open_ended and (lacks := sorted(SUPPLIED[key] - parameters.keys())):
        yield f"{key}._target_: found {_shown(node['_target_'])}; allowed: one that takes {', '.join(lacks)}"
        return
    yield from _check_values(key, node, target, node["_target_"])


def _check_values(key: str, node: Mapping[str, Any], target: Any, target_name: str) -> Iterator[str]:
    parameters, open_ended = signature(target)
    supplied = {"self"} | supplied_to(key)
    for name, value in node.items():
        where = f"{key}.{name}" if key else str(name)
        if name in HYDRA_KEYS:
            if name != "_target_" and not (name == "_partial_" and value is True and _is_called_later(key)):
                yield f"{where}: found {_shown(value)}; allowed: none of Hydra's own keys here"
            continue
        if name not in parameters or name in supplied:
            if not open_ended or name in supplied:
                allowed = ", ".join(sorted(parameters.keys() - supplied)) or "none"
                yield f"{where}: unknown key of {target_name}; allowed: {allowed}"
        elif isinstance(value, Mapping) and "_target_" in value:
            continue  # a node of its own
        elif problem := mismatch(value, parameters[name].annotation):
            meant = nearest(value, problem.split(", ")) if isinstance(value, str) else ""
            yield f"{where}: found {_shown(value)}; allowed: {problem}{meant}"
    if node.get("_partial_") and key not in CALLED_WITH_ALL:
        return
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in node and name not in supplied:
            yield f"{f'{key}.{name}' if key else name}: missing; allowed: {allowed_by(parameter.annotation)}"


def supplied_to(key: str) -> set[str]:
    """What the engine hands to the node at a dotted key."""
    return set().union(*(names for part, names in SUPPLIED.items() if f"{key}.".startswith(f"{part}.")))


def _is_called_later(key: str) -> bool:
    return key.partition(".")[0] in SUPPLIED or key.startswith("active.")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


@cache
def signature(target: Any) -> tuple[Mapping[str, inspect.Parameter], bool]:
    """Parameters by name, `**kwargs` followed up the classes it is passed to; and whether anything goes.

    Their annotations are resolved; where a class and its parent have one of a name, the class's own counts.
    """
    classes = [kind for kind in target.__mro__ if "__init__" in vars(kind)] if inspect.isclass(target) else []
    callables = [vars(kind)["__init__"] for kind in classes] or [target]
    parameters: dict[str, inspect.Parameter] = {}
    for function in callables:
        hints = _hints(function)
        kinds = inspect.signature(function).parameters.values()
        for parameter in kinds:
            if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) and parameter.name != "self":
                own = parameter.replace(annotation=hints.get(parameter.name, Any))
                parameters.setdefault(parameter.name, own)
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in kinds)
        if not takes_any or function is object.__init__ or getattr(function, "__module__", "") in REFUSE_ANY:
            return parameters, False
    return parameters, True


def _hints(function: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError):  # annotations that only a type checker can resolve
        return {}


def mismatch(value: Any, hint: Any) -> str | None:
    """What is allowed, if `value` does not fit `hint`; None if it fits or the hint says nothing checkable."""
    try:
        _adapter(hint).validate_python(value)
    except ValidationError:
        return allowed_by(hint)
    return None


@cache
def _adapter(hint: Any) -> TypeAdapter:
    return TypeAdapter(_strict(hint))


def _strict(hint: Any) -> Any:
    """The hint as pydantic is to take it: plain values strictly, ranges from their text, any object by its class."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        bounds = [bound.split(maxsplit=1) for bound in arguments[1:] if _is_bound(bound)]
        limits = {BOUNDS[symbol]: f"^(?:{limit})$" if symbol == "~" else float(limit) for symbol, limit in bounds}
        options = get_args(arguments[0]) if _is_union(arguments[0]) else (arguments[0],)
        fields = [_strict(option) if option is type(None) else _limited(_strict(option), limits) for option in options]
        return _union(fields)
    if _is_union(hint):
        return _union(map(_strict, arguments))
    if origin is Literal:
        return Annotated[Any, AfterValidator(lambda value: _one_of(value, arguments))]
    if origin is Sequence:
        return Annotated[Sequence[_strict(arguments[0])], Field(min_length=1)]  # type: ignore[misc]
    if origin in (list, dict, tuple, Mapping):
        return origin[tuple(argument if argument is ... else _strict(argument) for argument in arguments)]
    if hint is int:
        return Annotated[int, Strict(), Field(ge=-(2**63), lt=2**63)]
    if hint is float:
        return Annotated[float, Strict(), Field(allow_inf_nan=False)]
    if hint in (bool, str):
        return Annotated[hint, Strict()]
    if hint in (Any, type(None), Path, list, dict, tuple):
        return hint
    if hint is Callable or origin is Callable:
        return Annotated[Any, AfterValidator(_callable)]
    if isinstance(hint, type):
        return InstanceOf[hint] | Annotated[Mapping, AfterValidator(_node)]  # type: ignore[misc]
    return Any


def _is_bound(bound: Any) -> bool:
    return isinstance(bound, str) and bound.split()[0] in BOUNDS  # `engine.unread` reads the others


def _limited(hint: Any, limits: Mapping[str, Any]) -> Any:
    return Annotated[hint, Field(**limits)] if limits else hint


def _one_of(value: Any, choices: tuple[Any, ...]) -> Any:
    if not any(value == choice and type(value) is type(choice) for choice in choices):
        raise ValueError("none of the choices")
    return value


def _union(options: Iterable[Any]) -> Any:
    return reduce(operator.or_, options)


def _callable(value: Any) -> Any:
    return value if callable(value) else _node(value)


def _node(value: Any) -> Any:
    """What gives an object of a class."""
    if not (isinstance(value, Mapping) and "_target_" in value):
        raise ValueError("nothing to call")
    return value


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def allowed_by(hint: Any) -> str:
    """What a hint allows, in words."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        bounds = [bound.replace("~ ", "that matches ") for bound in arguments[1:] if _is_bound(bound)]
        return " ".join([allowed_by(arguments[0]), " and ".join(bounds)]).strip()
    if _is_union(hint):
        return " or ".join(map(allowed_by, arguments))
    if origin is Literal:
        return ", ".join(map(str, arguments))
    if origin is Sequence:
        return f"a list, not empty, of {allowed_by(arguments[0])}"
    if origin is tuple and ... not in arguments:
        return f"a list of {len(arguments)}: {', '.join(map(allowed_by, arguments))}"
    if origin in (list, tuple):
        return f"a list of {allowed_by(arguments[0])}" if arguments else "a list"
    if origin in (dict, Mapping):
        return f"values by name, each {allowed_by(arguments[1])}"
    if hint is Callable or origin is Callable:
        return "a node with a _target_"
    names: dict[Any, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    names |= {type(None): "null", Path: "a path", Any: "a value"}
    names |= {list: "a list", tuple: "a list", dict: "values by name"}
    return names[hint] if hint in names else getattr(hint, "__name__", str(hint))
