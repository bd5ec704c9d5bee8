"""What every race measures alike: paired times in one process, peak memory in a process of its own."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def paired_milliseconds(
    cases: Mapping[str, Callable[[], object]], repeats: int, warm_up: int = 2
) -> dict[str, list[float]]:
    """Times each case `repeats` times, the cases in turn, so that whatever else the machine does strikes all alike."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for round_number in range(-warm_up, repeats):
        for name, case in cases.items():
            start = time.perf_counter()
            case()
            if round_number >= 0:
                times[name].append(1000 * (time.perf_counter() - start))
    return times


def spread(times: list[float]) -> str:
    """'median (min to max)'."""
    return f"{statistics.median(times):.2f} ({min(times):.2f} to {max(times):.2f})"


def ratio(slower: list[float], faster: list[float]) -> str:
    """'median (min to max)' of the ratios pair by pair."""
    return spread([a / b for a, b in zip(slower, faster, strict=True)])


def extra_peak_mib(case: Callable[[], object]) -> float:
    """Peak resident memory while `case` runs, above what was resident before it, in MiB. Linux only."""
    Path("/proc/self/clear_refs").write_text("5")  # sets the peak back to what is resident now
    before = _status_kib("VmRSS")
    case()
    return (_status_kib("VmHWM") - before) / 1024


def in_own_process(module: str, *arguments: str) -> str:
    """Last line that `python -m module arguments` prints."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()[-1]


def _status_kib(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))
