"""The start of a command: since when it runs, what it says first, and how its libraries are loaded."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from engine.world import is_first_process
from storage.files import is_stdout

_starts: list[float] = []  # when the command of this process was typed, until its first job asks


@contextmanager
def counted_from(start: float) -> Iterator[None]:
    """The command was typed at this time of `time.monotonic`."""
    _starts.append(start)
    try:
        yield
    finally:
        _starts.clear()


def seconds_so_far() -> float:
    """Since the command was typed; 0 for the later jobs of a process, and in one that is no command."""
    return time.monotonic() - _starts.pop() if _starts else 0.0


def announce(config: Mapping[str, Any]) -> None:
    """Say what is about to be done, before the libraries are loaded, which takes seconds."""
    if not is_first_process() or config.get("task") in ("auto", "runs", "board"):  # which say it themselves
        return
    names = [str(config.get("task")), *([f"run {config['run']}"] if config.get("run") else _group_names(config))]
    output = config.get("output")
    to_stderr = isinstance(output, str) and is_stdout(output)  # stdout then holds the predictions alone
    print(f"{' · '.join(names)}: loading PyTorch", flush=True, file=sys.stderr if to_stderr else sys.stdout)


def _group_names(config: Mapping[str, Any]) -> Iterator[str]:
    for group in ("method", "active", "dataset", "encoder", "head"):
        node = config.get(group)
        if isinstance(node, Mapping) and node.get("name"):
            yield str(node["name"])
    yield f"seed {config.get('seed')}"


@contextmanager
def importing() -> Iterator[None]:
    """What is imported stays, and looking for garbage in it took a quarter of a prediction."""
    is_new = "torch" not in sys.modules  # a later job of this process may have left garbage
    gc.disable()
    try:
        yield
    finally:
        if is_new:
            gc.freeze()
        gc.enable()
