"""How much of the minutes is left, and what is said on the way."""

from __future__ import annotations

import time
from collections.abc import Callable

from reporting.escape import for_terminal

REPORT_SHARE = 0.04  # of the minutes, kept for the report
REPORT_LEAST = 5.0  # seconds
REPORT_MOST = 0.2  # of the minutes
PATTERN_SECONDS = 8e-3  # of the report, to resample what one label was taken for


class Clock:
    """Counts down from the minutes that were asked for, those of earlier starts included.

    Args:
        minutes: asked for, > 0.
        used: minutes of earlier starts.
        now: seconds that only grow.

    Attributes:
        report, last_fit: seconds that are kept for the report and for fitting what it recommends on all rows.
        further_rows: seconds that are kept for those of them that were not compared.
    """

    def __init__(self, minutes: float, used: float = 0.0, now: Callable[[], float] = time.monotonic) -> None:
        self.minutes, self.now = minutes, now
        self.started = now() - 60 * used
        self.report = max(REPORT_LEAST, 60 * REPORT_SHARE * minutes)
        self.last_fit = self.further_rows = 0.0

    @property
    def used(self) -> float:
        """Minutes so far."""
        return (self.now() - self.started) / 60

    @property
    def left(self) -> float:
        """Seconds for candidates, without what is kept for the report and the last fit."""
        return self.left_with_fit - self.last_fit

    @property
    def left_with_fit(self) -> float:
        """Seconds for candidates and the fit of one of them on all rows."""
        return 60 * self.minutes - (self.now() - self.started) - self.report - self.further_rows

    def expect_report(self, rows: int, num_classes: int) -> None:
        """Keep more for the report where there is more to resample: many classes, and rows that fill them."""
        from reporting.resampling import DRAWS, num_draws

        patterns = min(rows, num_classes**2)
        expected = PATTERN_SECONDS * patterns * num_draws(patterns) / DRAWS
        self.report = max(self.report, min(expected, 60 * REPORT_MOST * self.minutes))

    def keep(self, seconds: float) -> None:
        """Keep so many seconds for the last fit."""
        self.last_fit = max(self.last_fit, seconds)

    def say(self, line: str) -> None:
        """Print a line with the time that it came at."""
        seconds = int(60 * self.used)
        end = time.strftime("%H:%M", time.localtime(time.time() + max(0.0, 60 * (self.minutes - self.used))))
        print(f"[{seconds // 60}:{seconds % 60:02d}, ends by {end}] {for_terminal(line)}", flush=True)


def minutes_of(seconds: float) -> str:
    """A duration for people: "40 s", "6 min"."""
    return f"{max(seconds, 1):.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
