"""How far a long task is: a bar, and a line at its end."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reporting.escape import for_terminal
from reporting.tables import duration
from storage.tables import TEXT_FORMATS

CHUNK = 1 << 20
MOST_LABELS = 12  # in the summary
SECONDS = 30.0  # between two lines where there is no terminal
Row = dict[str, Any]


@contextmanager
def counted_rows(source: str) -> Iterator[Callable[[int], None]]:
    """What to call with the rows that are done: a bar on stderr where that is a terminal, else now and then a line."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("rows"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task("rows", total=_num_rows(source))
        yield lambda rows: bar.advance(task, rows)


class _Lines:
    def __init__(self) -> None:
        self.rows, self.next = 0, time.monotonic() + SECONDS

    def __call__(self, rows: int) -> None:
        self.rows += rows
        if time.monotonic() >= self.next:
            print(f"{self.rows:,} rows", file=sys.stderr, flush=True)
            self.next = time.monotonic() + SECONDS


def _num_rows(source: str) -> int | None:
    """About so many, for the bar: a line of text is a row. None where nothing cheap tells."""
    if Path(source).suffix.lower() not in TEXT_FORMATS or not Path(source).is_file():
        return None
    with open(source, "rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(CHUNK), b"")) or None


class Tally:
    """What was answered, for the line at the end."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.kept = self.computed = self.blank = 0
        self.labels: Counter[str] = Counter()
        self.sure: Counter[str] = Counter()

    def add(self, answers: list[Row], kept: bool, blank: int = 0) -> None:
        """A piece of answers; `kept` by an earlier start; and rows that have no text."""
        self.blank += blank
        if kept:
            self.kept += len(answers)
        else:
            self.computed += len(answers)
        for answer in answers:
            label = answer.get("prediction", answer.get("cluster"))
            self.labels.update(map(str, label) if isinstance(label, list) else [str(label)])
            if "sure" in answer:
                self.sure[answer["sure"]] += 1

    def line(self) -> str:
        """Rows, rows a second, how often each label was answered, how many answers are unsure."""
        seconds = time.perf_counter() - self.started
        parts = [f"{self.kept + self.computed + self.blank:,} rows"]
        if self.kept:
            parts.append(f"{self.kept:,} of them by an earlier start")
        if self.computed:
            parts.append(f"{self.computed / seconds:,.0f} a second in {duration(seconds)}")
        shown = [f"{for_terminal(name)} {number:,}" for name, number in self.labels.most_common(MOST_LABELS)]
        more = len(self.labels) - len(shown)
        labels = ", ".join(shown) + (f", {more} more labels" if more > 0 else "")
        unsure = f"; unsure (sure=no): {self.sure['no']:,}" if self.sure else ""
        blank = f"; not answered, without a text: {self.blank:,}" if self.blank else ""
        return f"{', '.join(parts)}: {labels or 'none answered'}{unsure}{blank}"
