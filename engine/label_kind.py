"""One label a text, or any number of them: what the parts of a config must agree on with the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hydra.utils import get_object

from datamodules.corpus import Corpus
from engine.choices import choice_name, choices
from engine.validation import ConfigError

KINDS = {False: "one label a text", True: "any number of labels a text"}


def check_label_kind(plain: Mapping[str, Any], multilabel: bool) -> None:
    """Hold the method, the sampler and the callbacks of a config against the labels of its data.

    What a node names says by a class attribute `multilabel` what it works on; one without works on both.

    Raises:
        ConfigError: what does not fit, all findings at once, each with what is allowed.
    """
    if findings := list(_findings(plain, multilabel)):
        raise ConfigError("\n".join(findings))


def refuse_several_labels(key: str, corpus: Corpus) -> None:
    """Raises ValueError where texts have any number of labels, which what `key` names cannot take."""
    if corpus.multilabel:
        raise ValueError(f"{key}: takes one label a text; found a data set with {KINDS[True]}")


def _findings(plain: Mapping[str, Any], multilabel: bool) -> Iterator[str]:
    data = f"dataset={plain['dataset']['name']} has {KINDS[multilabel]}"
    for group in ("method", "sampler"):
        node = plain[group]
        if _misfit(node["_target_"], multilabel):
            name = node.get("name") or choice_name(group, node["_target_"])
            allowed = ", ".join(name for name, target in choices(group).items() if not _misfit(target, multilabel))
            yield f"{group}: found {name}, which takes {KINDS[not multilabel]}; {data}; allowed: {allowed}"
    for name, node in (plain.get("callbacks") or {}).items():
        if node and _misfit(node["_target_"], multilabel):
            yield f"callbacks.{name}: takes {KINDS[not multilabel]}; {data}; allowed: null"


def _misfit(target: str, multilabel: bool) -> bool:
    takes = getattr(get_object(target), "multilabel", None)
    return takes is not None and takes != multilabel
