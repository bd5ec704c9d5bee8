"""The logs that a run has opened in this process: what they share whichever service or file they write to."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Protocol

from callbacks.wandb_logger import finish_wandb, log_wandb_outcome
from storage.run_store import RunFolder, first_line


class OpenLog(Protocol):
    """A log beside W&B, which keeps its own account of what is open."""

    def log_outcome(self, run: RunFolder, figures: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


_open: list[OpenLog] = []


def opened(log: Any) -> Any:
    """Note a log, so that it gets the run's outcome and is closed; returns it."""
    _open.append(log)
    return log


def log_outcome(run: RunFolder, figures: Mapping[str, Any]) -> None:
    """Give the outcome of a run to the logs that it has opened. A log that fails says so and ends nothing.

    Args:
        figures: all that W&B takes; the others get the numbers.
    """
    log_wandb_outcome(run, figures)
    numbers = {name: float(value) for name, value in figures.items() if isinstance(value, (int, float))}
    for log in _open:
        try:
            log.log_outcome(run, numbers)
        except Exception as error:  # the run is finished all the same
            print(f"{type(log).__name__} takes no more figures ({first_line(error)})", file=sys.stderr)


def close_logs() -> None:
    """Close what the run has opened, or the next run of this process would log into it."""
    finish_wandb()
    while _open:
        _open.pop().close()
