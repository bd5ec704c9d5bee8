"""The command `kontrast`: the words of `run.py`, with the two that people type first made short.

kontrast auto my.csv --minutes 20     which method for these texts, how good, and the model
kontrast run method=ce dataset=trec   whatever run.py takes
kontrast --version
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence

import kontrast

USAGE = __doc__


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; the exit code is run.py's, 2 for words that are not understood."""
    sys.path.insert(0, str(kontrast.ROOMS))  # the process is the command's own, whatever lies in its folder
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words in (["--version"], ["-V"]):
        print(kontrast.__version__)
        return 0
    if not words or words[0] in ("--help", "-h"):
        print(USAGE)
        return 0
    try:
        typed = run_words(words)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    sys.argv = [str(kontrast.ROOMS / "run.py"), *typed]
    runpy.run_path(sys.argv[0], run_name="__main__")  # it exits by itself where something is wrong
    return 0


def run_words(words: Sequence[str]) -> list[str]:
    """Arguments of `run.py`. Raises ValueError: no such command, or `auto` without a file."""
    command, *rest = words
    if command == "run":
        return rest
    if command != "auto":
        raise ValueError(f"kontrast {command}: no such command; allowed: auto, run, --version, --help")
    if {"--help", "-h"} & set(rest):
        return ["--help", "auto"]
    return ["task=auto", *_as_overrides(rest)]


def _as_overrides(words: Sequence[str]) -> list[str]:
    """A file as `input=FILE`, `--minutes 20` and `--minutes=20` as `minutes=20`, `--force` as `force=true`,
    `--label-column` as `label_column`; key=value stays, unless a file is called so."""
    from storage.command_words import quoted  # not before `main` has put the rooms first

    overrides: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            key, equals, value = word[2:].partition("=")
            key = key.replace("-", "_")  # as options are usually written
            if not equals:
                value = _value_of(key, rest)
            if not key or not value:
                raise ValueError(f"kontrast auto {word}: a value is missing; allowed: {word.partition('=')[0]} VALUE")
            is_mark = len(value) == 1 and not value.isalnum()  # a delimiter, which Hydra's grammar wants in quotes
            overrides.append(f"{key}={quoted(value) if is_mark else value}")
        elif "=" in word and not os.path.isfile(word):
            overrides.append(word)
        elif any(override.startswith("input=") for override in overrides):
            raise ValueError(f"kontrast auto {word}: a second file; allowed: one, and --unlabelled FILE")
        else:
            overrides.append(f"input={quoted(word)}")
    return overrides


def _value_of(key: str, rest: list[str]) -> str:
    """The value of an option, which is taken from the words after it; "" where there is none."""
    if key == "force" and (not rest or rest[0] not in ("true", "false")):
        return "true"
    return "" if not rest or rest[0].startswith("--") else rest.pop(0)
