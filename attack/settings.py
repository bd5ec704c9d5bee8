"""Bad settings, from the config's own schema: every group, every key that a signature has, values at every edge."""

from __future__ import annotations

import inspect
import math
import random
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from hydra.utils import get_object
from omegaconf import OmegaConf

import engine.choices
from engine.allowed_targets import CONF
from engine.composition import serves
from engine.identify import compose_config
from engine.validation import HYDRA_KEYS, SUPPLIED, Paths, Top, signature, target_nodes

# word on the command line -> what it is as a value
SCALARS: dict[str, Any] = {
    "0": 0, "-1": -1, "1": 1, "2": 2, "1000000": 10**6, "1e19": 1e19, "-1e19": -1e19, "1e-320": 1e-320, "0.5": 0.5,
    "1.5": 1.5, "9223372036854775808": 2**63, "nan": math.nan, "inf": math.inf, "-inf": -math.inf, "null": None,
    "true": True, "''": "", "abc": "abc", "'1'": "1", "'../../x'": "../../x", "'*'": "*", "été": "été",
    "'日本 🙂'": "日本 🙂", "'\\x1b[31m'": "\\x1b[31m", "'$x$'": "$x$", "[]": [], "[1]": [1],
    "[abc,null]": ["abc", None], "[[1]]": [[1]], "{}": {}, "{a: 1}": {"a": 1}, "/dev/null": "/dev/null", "/": "/",
    "/proc/self/mem": "/proc/self/mem",
}  # fmt: skip
LONG = 100_000
# what no group or key may be named, and what no word may look like
STRAY = (
    "nonsense", "=", "==", "a=b=c", "+", "~", "++seed=1", "+=1", "seed", "seed=", "seed=1=2", "seed=[1", "seed={",
    "seed='1", "seed=${x}", "seed=${method.K}", "seed=${oc.env:NOBODY}", "seed=${now:%Y}", "été=1", "+été=1",
    "a.b.c=1", ".=1", "method.=1", "method..K=1", "method.K.x=1", "method=[ce,acl]", "method={}", "method=5",
    "+method=ce", "method@x=ce", "seed=1,2", "dataset=csv,jsonl", "hydra.x=1", "hydra/launcher=nonsense",
    "hydra.run.dir=/dev/null/x", "task=fit,fit", "method_dataset=nonsense", "experiment=nonsense", "sweep=seeds",
    "-x", "--nonsense", "--config-name=x", "--config-dir=/x", "--package=x", "--cfg=nonsense", "method=../config",
    "method=/etc/passwd", "method='ce '", "+method@encoder=ce", "~method.name", "~paths", "~paths.runs", "~trainer",
    "~trainer.max_epochs", "+a._target_=os.system", "method._target_=os.system", "+method.x._target_=os.system",
    "+callbacks.x._target_=os.system", "+callbacks.x.y=1", "callbacks=5", "callbacks=[]",
    "+callbacks.x._target_=callbacks.timing.Timing", "loss._partial_=true", "+loss._args_=[1]",
    "+loss._recursive_=false", "+loss._convert_=all", "method._partial_=false", "optimizer._target_=torch.optim.SGD",
    "optimizer._target_=torch.optim.LBFGS", "scheduler._target_=torch.optim.lr_scheduler.StepLR",
    "encoder._target_=losses.acl.ACL", "loss._target_=losses",
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """Words of a command line, and why it must be refused, if it must."""

    words: tuple[str, ...]
    must_fail: str | None = None


def settings(rng: random.Random) -> Setting:
    """One more setting."""
    draw = rng.random()
    if draw < 0.7:
        return _value(rng)
    if draw < 0.8:
        return Setting((*rng.choice(METHODS), rng.choice(STRAY)))
    if draw < 0.9:
        return _group(rng)
    return Setting(tuple(f"{group}={rng.choice(choices(group))}" for group in rng.sample(sorted(GROUPS), 2)))


def groups() -> dict[str, Path]:
    return {
        folder.name: folder for folder in CONF.iterdir() if folder.is_dir() and folder.name not in ("hydra", "sweep")
    }


GROUPS = groups()
TASKS = get_args(get_type_hints(Top)["task"])


@cache
def choices(group: str) -> tuple[str, ...]:
    return tuple(sorted(file.stem for file in GROUPS[group].glob("*.yaml") if file.stem[0] != "_"))


def line_of(method: str) -> tuple[str, ...]:
    """The words that choose a method, with its task."""
    target = engine.choices.choices("method")[method]
    return (*(["task=cluster"] if serves({"_target_": target}) == "clustering" else []), f"method={method}")


METHODS = tuple(line_of(name) for name in choices("method"))
BASES = (
    *[("method=ce",)] * 3,
    *[("method=sharprecl",)] * 3,
    *METHODS,
    *(("method=ce", f"imbalance={name}") for name in choices("imbalance")),
    *(("method=ce", f"sampler={name}") for name in choices("sampler")),
    *(("method=ce", f"protocol={name}") for name in choices("protocol")),
    *(("method=ce", f"active={name}") for name in choices("active")),
    *(
        ("method=sharprecl", f"augment={name}")
        for name in choices("augment")
        if name not in ("back_translation", "contextual")
    ),
    *(("method=ce", f"callbacks={name}") for name in choices("callbacks")),
    *(("method=ce", f"trainer={name}") for name in choices("trainer")),
    *(("method=ce", f"logger={name}") for name in ("csv", "tensorboard", "none")),
    *(("method=ce", f"loss={name}") for name in ("focal", "ldam", "class_balanced", "balanced_softmax")),
    ("method=ce", "retrieval=knn"),
    ("method=ce", "encoder=cnn", "encoder.path=null"),
    ("method=ce", "scheduler=constant"),
    ("method=ce", "search=optuna"),
    ("method=ce", "search=lr"),
    ("method=ce", "encoder/lora=default"),
    ("method=logistic", "encoder.train=frozen"),
    ("task=describe",),
)


def _group(rng: random.Random) -> Setting:
    group = rng.choice(sorted(GROUPS))
    some = rng.choice(list(SCALARS))
    if rng.random() < 0.2:  # how Hydra calls a node is no option, and a task is a word like any other
        return Setting((*rng.choice(METHODS), f"+{group}.{rng.choice(sorted(HYDRA_KEYS))}={some}"))
    if rng.random() < 0.1:
        return Setting((*rng.choice(METHODS), f"task={rng.choice(TASKS)}"))
    word, why = rng.choice(
        [
            (f"{group}=nonsense", "no such choice"),
            (f"{group}x=nonsense", "no such group"),
            (f"~{group}", None),
            (f"{group}=null", None),
            (f"{group}={some}", "no effect" if some == "{}" else None),
            (f"+{group}.nonsense={some}", "no such key"),
            (f"{group}.nonsense={some}", "no such key"),
            (f"+nonsense={some}", "no such key"),
        ]
    )
    if why and group in ("experiment", "method_active", "method_dataset", "method_protocol") and "nonsense=" in word:
        why = None
    return Setting((*rng.choice(METHODS), word), why)


@cache
def composed(words: tuple[str, ...]) -> dict[str, Any]:
    """The config of a line as plain values; empty where there is none."""
    try:
        plain: Any = OmegaConf.to_container(compose_config(words), resolve=True)
        return plain
    except Exception:
        return {}


def keys(plain: Mapping[str, Any]) -> Iterator[tuple[str, inspect.Parameter, bool]]:
    """Dotted key, parameter, and whether the config has it, of all that a config can set."""
    nodes = [(key, node, get_object(node["_target_"])) for key, node in target_nodes(plain)]
    nodes += [("", plain, Top), ("paths", plain.get("paths", {}), Paths)]
    for key, node, target in nodes:
        for name, parameter in signature(target)[0].items():
            if name not in SUPPLIED.get(key.partition(".")[0], ()):
                yield (f"{key}.{name}" if key else name), parameter, name in node


def _value(rng: random.Random) -> Setting:
    base = rng.choice(BASES)
    options = list(keys(composed(base)))
    if not options:
        return Setting(base)
    key, parameter, is_there = rng.choice(options)
    if key in ("task", "force", "paths.runs", "paths.data", "paths.cache") and rng.random() < 0.8:
        return _value(rng)
    word, value = rng.choice([*SCALARS.items(), ("x" * LONG, "x" * LONG), *_near_bounds(parameter.annotation)])
    why = wrong(value, parameter.annotation)
    plus = "" if is_there or key == "paths.runs" else "+"
    return Setting((*base, f"{plus}{key}={word}"), why and f"{why} for {parameter.annotation}")


# what no figure of these tiny runs can depend on, by the beginning of the key: names, places, hardware, what only
# watches, and what waits for more rows or epochs than there are
WITHOUT_FIGURES = (
    "task", "force", "run", "start_from", "paths.", "logger", "callbacks.", "trainer.num_threads", "trainer.precision",
    "trainer.accelerator", "trainer.deterministic", "trainer.log_every_n_steps", "trainer.enable", "encoder.name",
    "encoder.sha256", "encoder.repo", "encoder.package", "encoder.path", "method.name", "dataset.name", "protocol.name",
    "trainer.strategy", "sampler.chunk_batches", "optimizer.foreach", "optimizer.fused", "optimizer.capturable",
    "optimizer.maximize", "augment.top_k",
    "sampler.length_of",  # the replaced words of the tiny texts leave them as long as they were
    "sampler.batch_size", "sampler.eval_batch_size", "trainer.accumulate_grad_batches",  # the tiny files are one batch
)  # fmt: skip


def effect(rng: random.Random) -> tuple[tuple[str, ...], str]:
    """A line that should work, and a word that gives one of its keys another value, which should change its figures."""
    while True:
        base = rng.choice([line for line in BASES if not any(word.startswith(("search=", "task=d")) for word in line)])
        plain = composed(base)
        options = [
            (key, hint) for key, hint, is_there in keys(plain) if is_there and not key.startswith(WITHOUT_FIGURES)
        ]
        if not options:
            continue
        key, parameter = rng.choice(options)
        if words := [word for word, value in _others(_at(plain, key), parameter.annotation)]:
            return base, f"{key}={rng.choice(words)}"


def _at(plain: Any, key: str) -> Any:
    for name in key.split("."):
        plain = plain[name]
    return plain


def _others(value: Any, hint: Any) -> list[tuple[str, Any]]:
    """Other values of the same kind as the default, that the hint allows."""
    if isinstance(value, bool):
        others: list[Any] = [not value]
    elif isinstance(value, str):
        others = [c for leaf in _leaves(hint) if get_origin(leaf) is Literal for c in get_args(leaf) if c != value]
    elif isinstance(value, (int, float)):
        others = [value * 2, value / 2, value + 1]
        others = [int(other) if isinstance(value, int) and float not in _leaves(hint) else other for other in others]
    else:
        others = []
    return [
        (str(other).lower() if isinstance(other, bool) else str(other), other)
        for other in others
        if other != value and wrong(other, hint) is None
    ]


def _near_bounds(hint: Any) -> list[tuple[str, Any]]:
    """Values beside and on the bounds of a hint, thrice, for they find most."""
    values = [float(limit) + step for _, limit in _bounds(hint) for step in (-1, 0, 1)]
    return [(f"{value:g}", int(value) if value.is_integer() else value) for value in values for _ in range(3)]


def _bounds(hint: Any) -> Iterator[tuple[str, str]]:
    if get_origin(hint) is Annotated:
        for bound in get_args(hint)[1:]:
            if isinstance(bound, str) and bound.split()[0] in (">", ">=", "<", "<="):
                yield tuple(bound.split(maxsplit=1))  # type: ignore[misc]
    for part in get_args(hint):
        yield from _bounds(part)


def wrong(value: Any, hint: Any) -> str | None:
    """Why a value can certainly not stand where a hint does; None where it may. Knows nothing of the validation."""
    leaves = list(_leaves(hint))
    if any(
        leaf in (Any, inspect.Parameter.empty) or not isinstance(leaf, type) and get_origin(leaf) is not Literal
        for leaf in leaves
    ):
        return None
    if value is None:
        return None if type(None) in leaves else "null"
    if isinstance(value, (list, dict)):
        plain = all(leaf in (int, float, bool, str, type(None), Path) or get_origin(leaf) is Literal for leaf in leaves)
        return "a collection" if plain and not _takes_many(hint) else None
    if isinstance(value, float) and not math.isfinite(value):
        return None if str in leaves else "not finite"
    literals = [choice for leaf in leaves if get_origin(leaf) is Literal for choice in get_args(leaf)]
    if any(choice == value and type(choice) is type(value) for choice in literals):
        return None
    if isinstance(value, bool):
        return None if bool in leaves else "a truth value"
    if isinstance(value, str):
        return None if str in leaves or Path in leaves or _takes_many(hint) else "text"
    if _takes_many(hint) or not {int, float} & set(leaves):
        return None if _takes_many(hint) else "a number"
    if isinstance(value, float) and float not in leaves:
        return "a fraction"
    if literals:
        return None
    limits = [_breaks(value, symbol, float(limit)) for symbol, limit in _bounds(hint)]
    return "out of range" if any(limits) else None


def _breaks(value: float, symbol: str, limit: float) -> bool:
    return not {">": value > limit, ">=": value >= limit, "<": value < limit, "<=": value <= limit}[symbol]


def _leaves(hint: Any) -> Iterator[Any]:
    origin = get_origin(hint)
    if origin is Annotated:
        yield from _leaves(get_args(hint)[0])
    elif origin in (Union, types.UnionType):
        for part in get_args(hint):
            yield from _leaves(part)
    else:
        yield hint


def _takes_many(hint: Any) -> bool:
    many = (list, tuple, dict, Sequence, Mapping)
    return any((get_origin(leaf) or leaf) in many for leaf in _leaves(hint))
