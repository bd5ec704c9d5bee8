"""Options that a run does not read: typed on a command line, they are refused.

A signature says of an argument when it counts: `Annotated[int, ">= 1", "with train=top_layers"]` names another argument
of the same node and the values that it needs, or by a dotted key one of another group; `"with A>0 or B>0"`, that one of
two is enough. What the engine itself reads under a condition stands in `CONDITIONS`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, get_args, get_origin

from datamodules.samplers import ByClass
from engine.composition import is_module, serves, target_class, unused_groups
from engine.overrides import SHARED_WORDS
from engine.validation import ConfigError, Top, signature, target_nodes
from lightning_modules.base import ClassifierModule
from lightning_modules.encoders.words import WordEncoder

# arguments of a method that are made of what the classes are called; each says when it counts
NAMES = ("method.class_names", "method.label_pieces")
# options of a data set that say how many labels are learned from, or what figures tell of them
OF_LABELS = tuple(f"dataset.{key}" for key in ("empty_label", "labels", "labels_per_class", "many_above", "few_below"))
OF_LINEAR_CLASSIFIER = ("method.classifier_bias", "method.dropout", "method.head_lr")
# group or key -> when the engine reads it
CONDITIONS = {
    "augment": "method.num_views>1",
    "chat": "task=chat|chat_export|cluster",
    "cluster": "task=cluster",
    "search": "task=fit",
    "protocol.read_test": "task=fit",
    "optimizer.lr": "encoder.train=full|top_layers",  # heads have method.head_lr
}
READ_WITHOUT_TRAINING = {  # keys of the groups of training that a run reads all the same
    "trainer": {"_target_", "num_threads", "accelerator", "precision", "devices", "num_nodes"},
    "sampler": {"_target_", "eval_batch_size"},
}


def refuse_unread(plain: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Hold the keys of a command line against what the run of a valid config reads.

    Words that are shared by several methods, those of a budget of the papers, may be idle for some of them.

    Raises:
        ConfigError: keys that nothing reads, each with what it needs.
    """
    if os.environ.get(SHARED_WORDS):
        return
    idle = unread(plain)
    typed = [override.lstrip("+").partition("=")[0].partition("@")[0].replace("/", ".") for override in overrides]
    reasons = {key: why for key in typed for option, why in idle.items() if f"{key}.".startswith(f"{option}.")}
    empty = [override.partition("=")[0] for override in overrides if re.fullmatch(r"[^+~]\S*=\{\s*\}", override)]
    reasons |= dict.fromkeys(empty, "{} adds no key to it; allowed: values by name, or null for none of it")
    if reasons:
        raise ConfigError("\n".join(f"{key}: has no effect; {why}" for key, why in reasons.items()))


def unread(plain: Mapping[str, Any]) -> dict[str, str]:
    """Groups and dotted keys that the run of this config does not read, each with what it needs to count."""
    idle, conditions = _unread_by_method(plain)
    idle = _unread_without_training(plain) | idle | _unread_beside_groups(plain)
    conditions = CONDITIONS | conditions
    if plain.get("augment") and target_class(plain["augment"]).draws_first:
        conditions["augment"] = "encoder.train=full|top_layers"  # a frozen encoder sees every row once, as it is
    for key, condition in [*conditions.items(), *declared("", Top), *_unread_by_nodes(plain)]:
        if not _holds(plain, condition):
            idle.setdefault(key, f"allowed with {condition}")
    return idle


def _unread_without_training(plain: Mapping[str, Any]) -> dict[str, str]:
    """What the method names itself, and what a run that does not train, or trains to the end, leaves unread."""
    method = plain["method"]
    idle = dict.fromkeys(unused_groups(method), f"method={method['name']} does not read it")
    if not is_module(method):
        trains = [key for key in plain["trainer"] if key not in ("num_threads", "accelerator", "precision")]
        idle |= {f"trainer.{key}": f"method={method['name']} trains nothing" for key in trains}
    elif is_solved(plain):
        reason = f"method={method['name']} is solved, not trained, on a frozen encoder"
        idle |= {key: idle.get(key, reason) for key in _unread_by_training(plain)}
    elif plain["trainer"]["max_epochs"] == "converged":
        to_the_end = "trainer.max_epochs=converged, the default over a frozen encoder, trains to the end"
        idle["callbacks.early_stopping"] = f"{to_the_end}; allowed with a number of epochs"
    return idle


def _unread_by_method(plain: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """What the class of the method never reads, of texts without labels, names and its own arguments; and by key the
    condition under which it reads others."""
    method, active = plain["method"], plain.get("active")
    target, never = target_class(method), f"method={method['name']} does not read"
    idle, conditions = {}, {}
    by_method = getattr(target, "reads_unlabelled", False)
    for key, reads_unlabelled in (
        ("dataset.unlabelled", bool(active) or by_method),  # people are asked for texts of such a file
        ("dataset.most_unlabelled", by_method),
    ):
        if not reads_unlabelled:
            idle[key] = f"{never} texts without labels"
        elif reads_unlabelled is not True:
            conditions[key] = reads_unlabelled
    for argument, condition in getattr(target, "reads_when", {}).items():
        if condition is None:
            idle[f"method.{argument}"] = f"{never} it"
        elif argument != "dropout" or not _asks_for_passes(active):
            conditions[f"method.{argument}"] = f"method.{condition}"
    if reads_loss := getattr(target, "reads_loss_when", None):
        conditions |= {f"loss.{key}": f"method.{reads_loss}" for key in plain.get("loss") or {} if key != "_target_"}
    reads_descriptions = active and (active["oracle"] == "browser" or active["cold_start"] == "names")
    if not reads_descriptions:  # by the page, which shows them to a person, or for the first round
        needed = dict(declared("method", target))
        if condition := next((needed[key] for key in NAMES if key in needed), None):
            conditions["dataset.class_descriptions"] = condition
        else:
            idle["dataset.class_descriptions"] = f"{never} the names of the classes"
    return idle, conditions


def _unread_beside_groups(plain: Mapping[str, Any]) -> dict[str, str]:
    """What the chosen head, active learning, clustering or a data set that is not thinned leaves unread."""
    idle: dict[str, str] = {}
    if plain.get("head"):
        idle |= dict.fromkeys(OF_LINEAR_CLASSIFIER, f"head={plain['head']['name']} stands for the linear classifier")
    if active := plain.get("active"):
        idle["protocol.read_test"] = f"active={active['name']} draws its curve by the test rows"
        if not _asks_for_passes(active):
            idle["active.mc_passes"] = f"active={active['name']} asks for no passes with dropout on"
    if no_rival := _without_rival(plain):
        idle["rival"] = no_rival
    if serves(plain["method"]) == "clustering":
        idle |= dict.fromkeys(OF_LABELS, f"method={plain['method']['name']} reads no labels")
    if "ir" in (thinning := plain.get("imbalance") or {"ir": None}) and thinning["ir"] is None:
        idle["protocol.val_from"] = "nothing is thinned; allowed with imbalance.ir=NUMBER or another imbalance"
    return idle


def is_solved(plain: Mapping[str, Any]) -> bool:
    """What `ClassifierModule.is_solved` will say."""
    method = target_class(plain["method"])
    linear = getattr(method, "linear_loss", None) is not None and plain["encoder"]["train"] == "frozen"
    return getattr(method, "is_solved", False) is True or (linear and not plain.get("head"))


def _asks_for_passes(active: Mapping[str, Any] | None) -> bool:
    """Whether the strategy of active learning, or one that it wraps, takes probabilities with dropout on."""
    strategy = (active or {}).get("strategy") or {}
    if "_target_" not in strategy:
        return False
    return "mc_probabilities" in signature(target_class(strategy))[0] or _asks_for_passes(strategy)


def _without_rival(plain: Mapping[str, Any]) -> str | None:
    """Why a `task=fit` of this config has no logistic regression beside it (`engine.rivals`), or None."""
    method = target_class(plain["method"])
    if plain["task"] != "fit":
        return None  # no task but this one has it at all
    if issubclass(target_class(plain["encoder"]), WordEncoder):
        return f"encoder={plain['encoder']['name']} knows words alone; the rival reads a pretrained encoder"
    if plain["dataset"].get("labels") == 0:
        return "with dataset.labels=0 there is nothing that a rival could learn from"
    if is_solved(plain) and getattr(method, "solve", None) is ClassifierModule.solve:
        return f"method={plain['method']['name']} is the rival itself on a frozen encoder"
    return None


def _unread_by_training(plain: Mapping[str, Any]) -> Iterator[str]:
    """Groups and dotted keys that only a run that goes from step to step reads."""
    yield from ("optimizer", "scheduler", "start_from", "method.dropout", "method.head_lr")
    for group, read in READ_WITHOUT_TRAINING.items():
        yield from (f"{group}.{key}" for key in plain.get(group) or {} if key not in read)
    if plain.get("sampler") and issubclass(target_class(plain["sampler"]), ByClass):
        yield "sampler"
    for name, node in (plain.get("callbacks") or {}).items():
        if node is not None and not hasattr(target_class(node), "split_figures"):
            yield f"callbacks.{name}"


def _unread_by_nodes(plain: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, node in target_nodes(plain):
        yield from declared(key, target_class(node))


def declared(key: str, target: Any) -> Iterator[tuple[str, str]]:
    """Dotted key and condition of each argument of a class that says when it counts."""
    for name, parameter in signature(target)[0].items():
        for condition in _conditions(parameter.annotation):
            parts = condition.split(" or ")
            needed = [part if "." in part.partition("=")[0] or not key else f"{key}.{part}" for part in parts]
            yield f"{key}.{name}" if key else name, " or ".join(needed)


def _conditions(hint: Any) -> Iterator[str]:
    if get_origin(hint) is Annotated:
        yield from (bound.removeprefix("with ") for bound in get_args(hint) if str(bound).startswith("with "))
    for part in get_args(hint):
        yield from _conditions(part)


def _holds(plain: Mapping[str, Any], condition: str) -> bool:
    """Whether a condition `key=a|b`, `key>number` or `key<number`, or one of several with `or`, is true of a config."""
    return any(_holds_alone(plain, part) for part in condition.split(" or "))


def _holds_alone(plain: Mapping[str, Any], condition: str) -> bool:
    key, symbol, wanted = re.split(r"([=<>])", condition, maxsplit=1)
    value: Any = plain
    for name in key.split("."):
        value = _argument(value, name) if isinstance(value, Mapping) else None
    if symbol == "=":
        return str(value) in wanted.split("|")
    if isinstance(value, str):  # for a number that comes of the data, as stage2_epochs=by_clusters of aecl
        return True
    return value is not None and (value > float(wanted) if symbol == ">" else value < float(wanted))


def _argument(node: Mapping[str, Any], name: str) -> Any:
    """What a node says of an argument; its default where it says nothing, or None."""
    if name in node or "_target_" not in node:
        return node.get(name)
    parameter = signature(target_class(node))[0].get(name)
    return None if parameter is None or parameter.default is parameter.empty else parameter.default
