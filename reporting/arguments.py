"""What the tables' commands read: a folder of runs, then key=value."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from storage.errors import ReportError

Where = dict[str, str]


def folder_and_options(arguments: Sequence[str], allowed: Collection[str]) -> tuple[Path, dict[str, str], Where]:
    """The folder, the options but `where`, and `where=key:value,…` as {key: value}.

    Raises:
        ReportError: an option that is not allowed, or one without a value.
    """
    folder, *pairs = arguments
    options = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        if key not in (*allowed, "where") or not value:
            raise ReportError(f"{pair}: allowed: {', '.join(f'{name}=…' for name in (*allowed, 'where'))}")
        options[key] = value
    where = {}
    for pair in filter(None, options.pop("where", "").split(",")):
        key, colon, value = pair.partition(":")
        if not colon:
            raise ReportError(f"where={pair}: allowed: key:value,…")
        where[key] = value
    return Path(folder), options, where


def run_command(main: Callable[[Sequence[str]], None], usage: str | None) -> None:
    """`main` on the words of the command line; without any, or for --help, its usage, and an error in one line."""
    if {"--help", "-h"} & set(sys.argv[1:]):
        print(usage)
        sys.exit()
    if len(sys.argv) < 2:
        sys.exit(usage)
    try:
        main(sys.argv[1:])
    except ReportError as error:
        sys.exit(f"error: {error}")
