"""Command lines in a process of their own, forked from a server that has the libraries loaded, that may be killed."""

import json
import multiprocessing
import os
import pkgutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from engine import rivals
from tests.command_lines import best_weights, command, outcome, same_weights

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["tests.command_lines", "tasks.active.rounds", "transformers.models.bert.modeling_bert"])


def run_alone(arguments: list[str], output: Path, dies: Callable[[], None] | None) -> None:
    """Run a command line and end this process; `dies` arranges for its death on the way."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs deaf to it
    rivals.rival_metrics = lambda *_: {}  # as in the tests' own process
    if dies is not None:
        dies()
    result = command(arguments)
    output.with_suffix(".out").write_text(result.out)
    output.with_suffix(".err").write_text(result.err)
    sys.stdout.flush()
    os._exit(result.code)


def die_at_write(number: int, when: str) -> None:
    """SIGKILL this process before or after the rename of its n-th file."""
    replace, count = os.replace, 0

    def dying(*names) -> None:
        nonlocal count
        count += 1
        if count == number and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        replace(*names)
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = dying


def die_at_call(name: str, call: int) -> None:
    """SIGKILL this process at the n-th call of a function."""
    module, _, path = name.partition(":")
    *owner, attribute = path.split(".")
    holder = pkgutil.resolve_name(":".join(filter(None, [module, ".".join(owner)])))
    original, calls = getattr(holder, attribute), 0

    def dying(*arguments, **options):
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **options)

    setattr(holder, attribute, dying)


def wait_for(condition: Callable[[], bool], process) -> None:
    limit = time.monotonic() + 60
    while not condition() and process.is_alive():
        assert time.monotonic() < limit
        time.sleep(0.002)


def the_run(tmp_path: Path, store: str = "runs") -> Path:
    (folder,) = [path for path in (tmp_path / store).iterdir() if path.is_dir()]
    return folder


def status(run: Path) -> str:
    return json.loads((run / "metrics.json").read_text())["status"]


def assert_equal(run: Path, undisturbed: Path) -> None:
    assert outcome(run) == outcome(undisturbed)
    assert same_weights(best_weights(run), best_weights(undisturbed))
    assert not list(run.rglob("*.tmp"))
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["best.ckpt"]
