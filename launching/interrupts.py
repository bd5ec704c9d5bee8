"""What Ctrl-C and SIGTERM do while a command works."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

BURST_SECONDS = 0.5  # interrupts that follow each other so soon are one
SIGNALS = signal.SIGINT, signal.SIGTERM


@contextmanager
def raised_interrupts() -> Iterator[None]:
    """While the block runs, Ctrl-C and SIGTERM raise KeyboardInterrupt, once for all that come in a burst: what the
    first puts away is not torn by the second. One that a destructor swallows is sent again.
    """
    latest = -BURST_SECONDS

    def interrupt(*_: Any) -> None:
        nonlocal latest
        if time.monotonic() - latest >= BURST_SECONDS:
            latest = time.monotonic()
            raise KeyboardInterrupt

    def unraisable(report: Any) -> None:
        nonlocal latest
        if issubclass(report.exc_type, KeyboardInterrupt):
            latest = -BURST_SECONDS
            threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()  # when the hook is done
        else:
            hook(report)

    # a shell starts background jobs deaf to SIGINT: so they stay
    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    hook, handlers = sys.unraisablehook, [signal.signal(number, interrupt) for number in heard]
    sys.unraisablehook = unraisable
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in zip(heard, handlers, strict=True):
            signal.signal(number, handler)


def ignore_interrupts() -> None:
    """From now on Ctrl-C and SIGTERM do nothing: the process is about to end."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
