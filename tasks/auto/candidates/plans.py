"""Plans of the runs that candidates stand for: composed from words, as the command line would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

from engine.identify import compose_run
from engine.plan import Plan
from storage.command_words import quoted
from storage.errors import InputError
from storage.files import expanded

INNER_SHARE = 0.2  # of a fold's train rows, on which training is judged
KFOLD = (
    *("protocol=kfold", f"protocol.val_fraction={INNER_SHARE}", "protocol.ties=latest"),
    "dataset.singleton_classes=keep_in_train",
)
# composing takes as long as a cheap candidate's fold: these, which no other key reads, are set afterwards
OF_A_FOLD = ("protocol.fold", "protocol.repeat", "+callbacks.time_limit.seconds")
UNTRAINED = (  # candidates whose protocol is their own
    *("nearest_name", "prototypes", "discriminant_unlabelled", "words_unlabelled"),
)


def plan_of(words: Sequence[str]) -> Plan:
    """The plan of these overrides; the last of one key counts. Raises InputError where they do not go together."""
    run = compose_run(tuple(word for word in words if word.partition("=")[0] not in OF_A_FOLD))
    if run.problem:
        raise InputError(run.problem)
    config = OmegaConf.create(dict(run.config))
    for key, _, value in (word.partition("=") for word in words):
        if key in OF_A_FOLD:
            OmegaConf.update(config, key.lstrip("+"), yaml.safe_load(value))
    return Plan.make(config)


def encoder_name(encoder: Mapping[str, Any]) -> str:
    """What people call an encoder: its folder or repository, where its config names another one, or its config."""
    usual = compose_run((f"encoder={encoder['name']}",)).config.get("encoder", {})
    others = (str(encoder[key]) for key in ("path", "repo") if encoder.get(key) and encoder[key] != usual.get(key))
    return next((_last_name(other) for other in others), encoder["name"])


def _last_name(place: str) -> str:
    """The last part of a repository or a path; of a file in a folder that of the folder."""
    path = expanded(place)
    return path.resolve().name if path.is_dir() else (path.resolve().parent if path.is_file() else path).name


def data_words(rows: Path, name: str, max_length: int, markup: str, descriptions: Path | None = None) -> list[str]:
    """Overrides for the rows that a study keeps in its folder, and for what their labels mean, where that is there."""
    described = [] if descriptions is None else [f"dataset.class_descriptions={quoted(str(descriptions))}"]
    return ["dataset=csv", f"dataset.train={quoted(str(rows))}", f"dataset.name={quoted(name)}",
            f"dataset.max_length={max_length}", f"dataset.markup={markup}", *described]  # fmt: skip


def with_rows(words: Sequence[str], rows: Path) -> list[str]:
    """These overrides with other rows in the place of theirs."""
    key = "dataset.train="
    return [f"{key}{quoted(str(rows))}" if word.startswith(key) else word for word in words]


def unlabelled_words(texts: Path) -> list[str]:
    """Overrides for the texts without a label that a study keeps in its folder."""
    return [f"dataset.unlabelled={quoted(str(texts))}"]


def protocol_words(candidate: str, fold: int | None, folds: int = 5, repeat: int = 0) -> list[str]:
    """Overrides that hold out a fold, and validation rows of the others; the candidate's own words go after them.

    Those of a candidate that is never run with a fold are empty.
    """
    if candidate in UNTRAINED:
        return []
    return [*KFOLD, f"protocol.folds={folds}", f"protocol.fold={'null' if fold is None else fold}",
            f"protocol.repeat={repeat}"]  # fmt: skip
