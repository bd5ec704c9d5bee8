"""The words of a command line, as they were typed and as Hydra takes them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from engine.allowed_targets import CONF
from storage.command_words import quoted
from storage.errors import nearest

SHARED_WORDS = "KONTRAST_SHARED_WORDS"  # set where words are said to several methods: idle ones are then allowed
# groups that a config names whether or not there is such a file
OPTIONAL = ("all_methods", "method_dataset", "method_protocol", "method_active")
OF_THE_SWEEP = ("hydra", "paths")  # groups that say how and where it runs, before there is a job
OF_TEXT = (
    *("input", "output", "unlabelled", "test", "class_descriptions", "add", "run", "text_column", "label_column"),
    *(f"dataset.{key}" for key in ("train", "val", "test", "unlabelled", "class_descriptions", "name")),
    *("dataset.text_column", "dataset.label_column", "active.answers_from", "active.answers", "sheet", "dataset.sheet"),
    *("paths.runs", "paths.data", "paths.cache", "paths.source_mirror", "encoder.path"),
)  # keys of names that people gave their files, sheets and columns
OF_LIST = ("methods",)  # keys of lists whose brackets may be left out


def without_null_groups(arguments: list[str]) -> list[str]:
    """`GROUP=null`, which Hydra refuses, as the `~GROUP` that it takes for the same."""
    groups = [argument.removesuffix("=null") for argument in arguments]
    pairs = zip(arguments, groups, strict=True)
    return [f"~{group}" if group != argument and (CONF / group).is_dir() else argument for argument, group in pairs]


def with_keys_of_each_job(arguments: list[str]) -> list[str]:
    """In a sweep over a group, `GROUP.key=value` as `GROUP.key=choice(value)`, a sweep over one value.

    Hydra sets what is not swept in the default choices first, which need not have the key. Not of `OF_THE_SWEEP`.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    def is_sweep(word: str) -> bool:
        try:
            return OverridesParser.create().parse_override(word).is_sweep_override()
        except HydraException:  # an option, or what Hydra refuses in its own words
            return False

    def is_group(name: str) -> bool:
        return name not in ("", *OF_THE_SWEEP) and (CONF / name).is_dir()

    if not any(is_group(argument.partition("=")[0]) and is_sweep(argument) for argument in arguments):
        return arguments
    words = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        alone = f"{key}=choice({value})"
        of_group = "." in key and is_group(key.partition(".")[0])
        words.append(alone if of_group and not is_sweep(argument) and is_sweep(alone) else argument)
    return words


def is_multirun(arguments: Sequence[str]) -> bool:
    """Whether a command line sweeps: by -m, or by a file of `conf/sweep`."""
    return bool({"-m", "--multirun"} & set(arguments)) or any(word.startswith("sweep=") for word in arguments)


def known_mode(arguments: Sequence[str]) -> AbstractContextManager:
    """Within it, Hydra does not compose a config once more only to read `hydra.mode`, where the words say what that is:
    half of what a command takes before its task begins."""
    from unittest.mock import patch

    from hydra._internal.hydra import Hydra

    # a file of one's own may sweep too, an experiment or one of a folder that an option names
    if any(re.match(r"-|[+~]*(sweep|experiment|hydra)\b", word) for word in arguments):
        return nullcontext()
    return patch.object(Hydra, "get_mode", return_value=None)


def with_literal_texts(arguments: list[str]) -> list[str]:
    """Names of files and columns that Hydra's grammar does not read as texts in its quotes: `données.csv`, which it
    cannot read, `0`, `true` or `[x]`, ` text`, of which it drops the space, and but in a sweep `Smith, John.csv`, which
    it takes for two values.

    Texts, a name in quotes for instance, and null stay as they are.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    sweeps = is_multirun(arguments)

    def is_literal(word: str) -> bool:
        try:
            override = OverridesParser.create().parse_override(word)
        except HydraException:
            return False
        if override.is_sweep_override():
            return sweeps
        value = word.partition("=")[2]
        is_whole = value == value.strip() or value[0] in "'\""
        return override.value() is None or (isinstance(override.value(), str) and is_whole)

    pairs = [argument.partition("=") for argument in arguments]
    return [
        f"{key}={quoted(value)}" if key in OF_TEXT and value and not is_literal(argument) else argument
        for argument, (key, _, value) in zip(arguments, pairs, strict=True)
    ]


def with_brackets(arguments: list[str]) -> list[str]:
    """`methods=logistic,ce` as `methods=[logistic,ce]`; not in a sweep, where a comma stands between jobs."""
    if is_multirun(arguments):
        return arguments
    bare = re.compile(rf"({'|'.join(OF_LIST)})=(?!\[|null\Z)([\w, -]+)")
    return [f"{match[1]}=[{match[2]}]" if (match := bare.fullmatch(word)) else word for word in arguments]


def check_pair(arguments: list[str]) -> None:
    """Refuse a choice of `OPTIONAL` that does not exist, which Hydra would pass over.

    Raises:
        ValueError: a choice that is no file of its group.
    """
    for group in OPTIONAL:
        names = sorted(file.stem for file in (CONF / group).glob("*.yaml"))
        for words in (argument.removeprefix(f"{group}=") for argument in arguments if argument.startswith(f"{group}=")):
            for name in (word.strip() for word in words.split(",")):
                if name not in names:
                    allowed = f"{', '.join(names)}{nearest(name, names)}"
                    raise ValueError(f"{group}={name}: unknown choice; allowed: {allowed}")


def check_sweep(arguments: list[str]) -> None:
    """Refuse a sweep in a process that was started with others for one run.

    Raises:
        ValueError: -m under torchrun, srun with several tasks, or Ray Train.
    """
    processes = int(os.environ.get("WORLD_SIZE") or os.environ.get("SLURM_STEP_NUM_TASKS") or 1)
    if {"-m", "--multirun"} & set(arguments) and processes > 1:
        raise ValueError(
            f"-m: found {processes} processes that were started for one run; a sweep starts those of its jobs itself; "
            f"allowed: one process, with trainer=ddp for jobs of several"
        )


def without_group(words: Sequence[str], group: str) -> list[str]:
    """The overrides but those that set, add or delete a group or its keys."""
    return [word for word in words if not re.match(rf"[~+]*{re.escape(group)}\b", word)]
