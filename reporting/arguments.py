"""What the tables' commands read: a folder of runs, then key=value."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from storage.errors import ReportError

INPUT_ERROR = 2  # exit code, as of run.py
FLAGS = {"0": False, "1": True, "false": False, "true": True}
Where = dict[str, str]


def folder_and_options(arguments: Sequence[str], allowed: Collection[str]) -> tuple[Path, dict[str, str], Where]:
    """The folder, the options but `where`, and `where=key:value,…` as {key: value}.

    Raises:
        ReportError: an option that is not allowed, or one without a value.
    """
    folder, *pairs = arguments
    if not Path(folder).is_dir():
        raise ReportError(f"{folder}: no such folder; allowed first: a folder of runs or records")
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


def words_and_pairs(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The plain words, at least one, and the ``key=value``. Raises ReportError where no word is there."""
    words = [argument for argument in arguments if "=" not in argument]
    if not words:
        raise ReportError(f"{arguments[0]}: allowed first: a folder or a file; --help says more")
    return words, [argument for argument in arguments if "=" in argument]


def flag(key: str, text: str) -> bool:
    """Raises ReportError: neither yes nor no."""
    if text.lower() not in FLAGS:
        raise ReportError(f"{key}={text}: allowed: {', '.join(FLAGS)}")
    return FLAGS[text.lower()]


def run_command(main: Callable[[Sequence[str]], int | None], usage: str | None, least: int = 1) -> None:
    """`main` on the words of the command line, its exit code what `main` returns.

    With fewer words than `least`, or for --help, its usage; bad input is one line and exit code 2.
    """
    parser = argparse.ArgumentParser(
        usage=argparse.SUPPRESS, description=usage, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    words = parser.parse_args().words
    if len(words) < least:
        print(usage, file=sys.stderr)
        sys.exit(INPUT_ERROR)
    try:
        sys.exit(main(words))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(INPUT_ERROR)
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(130)
