"""Ctrl-C at any moment, once, twice or in a burst: exit code 130, one line, no traceback."""

import os
import signal
import subprocess
import sys
import time

import pytest

from engine.exit_code import exit_code
from launching.interrupts import BURST_SECONDS, raised_interrupts
from tests.command_lines import RUN_PY


def python_seconds() -> float:
    start = time.monotonic()
    subprocess.run([sys.executable, "-c", ""], check=True)
    return time.monotonic() - start


@pytest.mark.parametrize(
    ("number", "after", "times", "gap"),
    [
        (signal.SIGINT, 0.05, 1, 0),
        (signal.SIGTERM, 0.6, 8, 0.01),
        pytest.param(signal.SIGTERM, 0.3, 2, 0.05, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, 2, 2, 0.1, marks=pytest.mark.slow),
    ],
)
def test_ctrl_c_is_one_line(tmp_path, number, after, times, gap):
    before = python_seconds()  # the interpreter's own start, of which nobody can speak
    folders = [f"paths.{name}={tmp_path}" for name in ("runs", "data", "cache")]
    process = subprocess.Popen(
        [sys.executable, str(RUN_PY), "task=describe", "dataset=docstrings", *folders],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    time.sleep(before + after)
    for _ in range(times):
        process.send_signal(number)
        time.sleep(gap)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in error
    assert error.splitlines()[-1] == "error: interrupted; type the same command again to go on"


def with_a_failing_cleanup():
    try:
        raise KeyboardInterrupt
    finally:
        try:
            None.flags  # noqa: B018 - what a library's did
        except AttributeError as error:
            raise ValueError("cannot be composed") from error


def with_an_exit():
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        sys.exit(1)  # as Lightning does


@pytest.mark.parametrize("main", [with_a_failing_cleanup, with_an_exit])
def test_what_a_library_makes_of_an_interrupt_is_one(capsys, main):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert exit_code(main) == 130
    for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
        signal.signal(number, handler)
    assert capsys.readouterr().err == "error: interrupted; type the same command again to go on\n"


def test_a_burst_is_one_interrupt_and_a_later_one_is_another():
    handler = signal.getsignal(signal.SIGINT)
    count = 0
    with raised_interrupts():
        for wait in (0, 0, 0, BURST_SECONDS * 1.1):
            try:
                time.sleep(wait)
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)
            except KeyboardInterrupt:
                count += 1
    assert count == 2 and signal.getsignal(signal.SIGINT) is handler


def test_an_interrupt_in_a_destructor_is_not_lost():
    class Slow:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt), raised_interrupts():
        slow = Slow()
        del slow
        time.sleep(5)
