"""A run's identity: what makes two command lines one run, wherever the code of its parts stands.

The id hashes a schema version, the class or function that each group chose, by its name alone, and those arguments
that differ from its signature's default and count with the others of the node. Moving a module, writing a default out,
or adding an option with a default therefore changes no id; a class that gets another name, or a default that gets
another value, does change some, and `python -m papers.rename_records` then gives the committed records the ids that the
commands ask for.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import pkgutil
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from engine.allowed_targets import MODULES, conf_targets, lies_in
from engine.validation import HYDRA_KEYS, mismatch, signature, supplied_to
from storage.errors import ReportError
from storage.files import expanded
from storage.settings import UNHASHED_ANYWHERE, relevant

ROOT = Path(__file__).resolve().parents[1]
CONDITION = re.compile(r"'with (\w+)=([\w|]+)'")  # in an annotation
KNOWN_BY = re.compile(r"'known by (\w+)'")  # likewise: a file whose content another argument tells
SCHEMA = 2  # 1 hashed the whole config, places of code included

FOLDER_KEYS = {"folder", "path", "root"}  # what the user's own files are named by
FILE_KEYS = FOLDER_KEYS | {"train", "val", "test", "train_list", "val_list", "test_list", "archive"}
FILE_KEYS |= {"class_descriptions", "unlabelled"}
UNHASHED_KEYS = UNHASHED_ANYWHERE | (HYDRA_KEYS - {"_args_"})


def run_id(config: Mapping[str, Any], inputs: Mapping[str, str] | None = None) -> str:
    """Name of the run that ``config`` describes: ``{method}-{dataset}-{10 hex digits}``.

    The digits are the start of the SHA-256 over canonical JSON: keys sorted, ``1.0`` equal to ``1``, tuples equal to
    lists. Precision, seed and early stopping are part of it; a group or callback that is null counts as absent.

    Args:
        config: resolved config (plain dicts, lists and scalars) with ``method.name`` and ``dataset.name``.
        inputs: digests of the user's own files by path. Under a key of files such a path, and under one of folders a
            folder of them, gives way to the digests: an edited file is another run, a renamed one is not. Other words,
            as the name of a column, may be that of a folder too, and stay.

    Raises:
        ReportError: ``method.name`` or ``dataset.name`` is missing, a value is no plain scalar, or a ``_target_``
            names nothing.
    """
    digests = {expanded(path): digest for path, digest in (inputs or {}).items()}
    content = {"schema": SCHEMA, **_described(relevant(config), digests)}
    digest = hashlib.sha256(_text(content).encode()).hexdigest()[:10]
    return f"{_name(config, 'method')}-{_name(config, 'dataset')}-{digest}"


def relocated(node: Any) -> Any:
    """The same config with the present place of each class of ours that has moved since the config was written.

    What is not ours, or nowhere, stays as it is, and is not imported: the config may come from anywhere.
    """
    if isinstance(node, Mapping):
        return {key: _place_of_ours(value) if key == "_target_" else relocated(value) for key, value in node.items()}
    return [relocated(item) for item in node] if isinstance(node, list) else node


def _place_of_ours(target: Any) -> Any:
    if not isinstance(target, str) or not _is_ours(target):
        return target
    if not any(lies_in(target, modules) for modules in MODULES.values()):
        return conf_targets().get(target.rpartition(".")[2], target)
    try:
        return place(target)
    except ReportError:
        return target


def _is_ours(target: str) -> bool:
    package = target.partition(".")[0]
    return package.isidentifier() and (ROOT / package).is_dir()


def formerly(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config from before an option with what the run did then, where that is not today's default.

    Runs that thinned their train rows drew the validation rows first (`datamodules.splits.Protocol`); `method=kontrast`
    kept the encoder as it had become.
    """
    config, protocol, imbalance = dict(config), config.get("protocol") or {}, config.get("imbalance") or {}
    is_thinned = imbalance.get("ir") is not None or {"counts", "rows"} & imbalance.keys()
    if protocol.get("name") == "clean" and is_thinned:
        config["protocol"] = {"val_from": "unthinned", **protocol}
    if (method := config.get("method") or {}).get("name") == "kontrast":
        config["method"] = {"average": False, **method}
    return config


def completed(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same config with each default written out, as the signatures have them today.

    What a run keeps of itself: it stays what it was when a default changes. Of a config from before an option had its
    real default: a null that the option does not take any more is that default, one of an option that went is left out.
    """
    return {group: _completed(node, group) for group, node in config.items()}


def _completed(node: Any, place_in_config: str) -> Any:
    if isinstance(node, list):
        return [_completed(item, place_in_config) for item in node]
    if not isinstance(node, Mapping):
        return node
    items = {key: _completed(value, f"{place_in_config}.{key}") for key, value in node.items()}
    if "_target_" not in node:
        return items
    known, open_ended = _parameters(place(node["_target_"]))
    if not open_ended:
        items = {key: item for key, item in items.items() if item is not None or key in known}
    for name, parameter in ((name, known[name]) for name in known if name not in supplied_to(place_in_config)):
        absent = name not in items or (items[name] is None and mismatch(None, parameter.annotation))
        if absent and isinstance(parameter.default, (str, bool, int, float, type(None))):
            items[name] = parameter.default
    return items


@cache
def place(target: str) -> str:
    """Where the class or function that ``target`` names stands now: there, or where ``conf`` has one of its name.

    Raises:
        ReportError: it is in neither place.
    """
    try:
        pkgutil.resolve_name(target)
        return target
    except Exception as error:
        if (moved := conf_targets().get(target.rpartition(".")[2])) in (None, target):
            raise ReportError(f"_target_: cannot import {target!r} ({str(error).splitlines()[0]})") from error
        return moved


def _described(value: Any, digests: Mapping[Path, str], under: str = "") -> Any:
    """A value in canonical form: a node by the name of what it calls and the arguments that are not its defaults."""
    if isinstance(value, Mapping):
        items = {str(key): _described(item, digests, key) for key, item in value.items() if key not in UNHASHED_KEYS}
        if "_target_" not in value:
            return items
        target = place(value["_target_"])
        defaults, idle = _defaults(target), _idle(target, value)
        changed = {
            key: item
            for key, item in items.items()
            if key not in idle and (key not in defaults or _text(item) != defaults[key])
        }
        return {"_is_": _kind(target), **changed}
    if isinstance(value, (list, tuple)):
        return [_described(item, digests, under) for item in value]
    if isinstance(value, str) and value and under in FILE_KEYS:
        path = expanded(value)
        folders = {file: file.parents if under in FOLDER_KEYS else () for file in digests}
        return [digests[file] for file in sorted(digests) if path in (file, *folders[file])] or value
    if isinstance(value, float):
        if not math.isfinite(value):
            return repr(value)
        return int(value) if value.is_integer() else value
    if value is None or isinstance(value, (str, bool, int)):
        return value
    raise ReportError(f"a run id needs plain values in the config, found {type(value).__name__}: {value!r}")


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


@cache
def _defaults(target: str) -> dict[str, str]:
    """Canonical text of each default that a config could say; one that is an object is none."""
    defaults = {}
    for name, parameter in _parameters(target)[0].items():
        if parameter.default is not inspect.Parameter.empty:
            try:
                defaults[name] = _text(_described(parameter.default, {}))
            except ReportError:
                continue
    return defaults


def _idle(target: str, node: Mapping[str, Any]) -> set[str]:
    """Arguments of a node that do not count beside its others.

    Those that need another value there, `"with train=top_layers"`, and files of a digest, `"known by md5"`.
    """
    parameters = _parameters(target)[0]
    values = {name: node.get(name, parameter.default) for name, parameter in parameters.items()}
    return {
        name
        for name, parameter in parameters.items()
        if any(
            key in values and str(values[key]) not in wanted.split("|")
            for key, wanted in CONDITION.findall(str(parameter.annotation))
        )
        or any(values.get(key) is not None for key in KNOWN_BY.findall(str(parameter.annotation)))
    }


@cache
def _parameters(target: str) -> tuple[Mapping[str, inspect.Parameter], bool]:
    return signature(pkgutil.resolve_name(target))


@cache
def _kind(target: str) -> str:
    """Name of a class or function; of one from outside the project with its package, which may have a namesake here."""
    package, name = target.partition(".")[0], target.rpartition(".")[2]
    return name if _is_ours(target) else f"{package}:{name}"


def _name(config: Mapping[str, Any], group: str) -> str:
    node = config.get(group)
    name = node.get("name") if isinstance(node, Mapping) else node
    if not name:
        raise ReportError(f"{group}.name: missing in the config, a run id needs it")
    return re.sub(r"[^A-Za-z0-9_.]+", "_", str(name))


def unknown_options(node: Any, key: str = "") -> Iterator[str]:
    """Dotted keys of a config that no signature knows."""
    if not isinstance(node, Mapping):
        return
    known, open_ended = _parameters(place(node["_target_"])) if "_target_" in node else ({}, True)
    for name, value in node.items():
        where = f"{key}.{name}" if key else str(name)
        if not open_ended and name not in known and name not in HYDRA_KEYS:
            yield where
        yield from unknown_options(value, where)
