"""The jobs of a sweep: each in a process of its own, and a table of all of them at the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from launching.interrupts import raised_interrupts
from launching.jobs import RESULT_VARIABLE, Process, WarmStarter, start_cold
from reporting.tables import MISSING, SweepJob, duration, percent, sweep_table
from storage.errors import ReportError
from storage.files import write_text
from storage.run_store import RunFolder

NOT_STARTED = "not started"
POLL_SECONDS = 0.05
GRACE_SECONDS = 30.0


@dataclass
class _Running:
    overrides: Sequence[str]
    result: Path
    log: Path
    process: Process
    started: float = field(default_factory=time.monotonic)


class _Jobs:
    """Which jobs wait, run, were asked to stop and have ended, by number."""

    def __init__(self, overrides: dict[int, Sequence[str]]) -> None:
        self.overrides, self.waiting = overrides, deque(overrides)
        self.running: dict[int, _Running] = {}
        self.stopped: set[int] = set()
        self.ended: dict[int, SweepJob] = {}

    def start_next(self, start: Callable[[int, Sequence[str]], _Running]) -> None:
        number = self.waiting.popleft()
        self.running[number] = start(number, self.overrides[number])

    def newly_ended(self) -> Iterator[tuple[int, SweepJob]]:
        for number in [key for key, job in self.running.items() if job.process.poll() is not None]:
            outcome = _outcome(self.running.pop(number))
            if number in self.stopped and outcome.status == "failed":  # as it was asked to
                outcome = replace(outcome, status="interrupted", error="")
            self.ended[number] = outcome
            yield number, outcome

    def stop(self, should_stop: Callable[[int], bool]) -> None:
        for number in [key for key in self.running if should_stop(key)]:
            self.stopped.add(number)
            _signal(self.running[number], signal.SIGTERM)

    def outcomes(self) -> list[SweepJob]:
        """Of all jobs, when none runs any more."""
        for number, job in self.running.items():
            outcome = _outcome(job)
            self.ended[number] = replace(outcome, status="interrupted") if outcome.status == "failed" else outcome
        others = self.overrides.keys() - self.ended.keys()  # the ones that wait, and one that was about to start
        self.ended |= {number: SweepJob(settings_of(self.overrides[number]), NOT_STARTED) for number in others}
        return [self.ended[number] for number in sorted(self.ended)]


@raised_interrupts()
def run_jobs(
    arguments: Sequence[str],
    jobs: Sequence[Sequence[str]],
    folder: Path | str,
    n_jobs: int = 1,
    first: int = 0,
    script: str | None = None,
    on_end: Callable[[int, SweepJob], None] | None = None,
    stop_after: float | None = None,
    warm: bool = False,
    should_stop: Callable[[int], bool] | None = None,
    shown: str = "test/accuracy",
) -> list[SweepJob]:
    """Run every job, ``n_jobs`` at a time, and return them in the order given.

    Args:
        arguments: what every job gets before its own overrides.
        jobs: overrides of each job.
        folder: where each job's output goes, as ``job-NUMBER.log``.
        first: number of the first job.
        script: the program; None is the one that runs now.
        on_end: called with number and outcome of each job that ended by itself.
        stop_after: seconds after which no further job is started.
        warm: fork the jobs from one process that has imported what they need.
        shown: figure of a finished job in the line that says so.
        should_stop: asked for each running job again and again; a job for which it says True is interrupted.

    Ctrl-C and a termination request stop the jobs that run; the others come back as not started.
    """
    folder = Path(folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    limit = time.monotonic() + stop_after if stop_after is not None else float("inf")
    state = _Jobs(dict(enumerate(jobs, first)))
    print(f"sweep: {len(jobs)} jobs, {n_jobs} at a time, output in {folder}", flush=True)
    starter = WarmStarter(folder, _environment(folder / "warm.json", n_jobs)) if warm else None
    words = [script or sys.argv[0], *arguments]
    start = partial(_start, starter.start if starter else start_cold, words, folder, n_jobs)
    try:
        while state.waiting or state.running:
            while state.waiting and len(state.running) < n_jobs and time.monotonic() < limit:
                state.start_next(start)
            if not state.running:
                break
            for number, outcome in state.newly_ended():
                counted = f"[{len(state.ended)}/{len(jobs)}]"
                print(counted, progress(outcome, state.overrides[number], shown), flush=True)
                if on_end:
                    on_end(number, outcome)
            if should_stop:
                state.stop(should_stop)
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        print("sweep: interrupted, stopping its jobs", flush=True)
    finally:
        _stop(list(state.running.values()))
        if starter:
            starter.close()
    return state.outcomes()


def _start(
    start: Callable[[Sequence[str], dict[str, str], Path], Process],
    words: Sequence[str],
    folder: Path,
    n_jobs: int,
    number: int,
    overrides: Sequence[str],
) -> _Running:
    log, result = folder / f"job-{number}.log", folder / f"job-{number}.json"
    result.unlink(missing_ok=True)
    return _Running(overrides, result, log, start([*words, *overrides], _environment(result, n_jobs), log))


def _environment(result: Path, n_jobs: int) -> dict[str, str]:
    environment = {**os.environ, RESULT_VARIABLE: str(result), "PYTHONUNBUFFERED": "1"}
    environment.setdefault("WANDB_RUN_GROUP", result.parent.name)
    environment.pop("HYDRA_FULL_ERROR", None)
    if n_jobs > 1:
        share = max(1, _cores() // n_jobs)
        threads = os.environ.get("OMP_NUM_THREADS", "")
        environment["OMP_NUM_THREADS"] = str(min(share, int(threads)) if threads.isdigit() else share)
    return environment


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _outcome(job: _Running) -> SweepJob:
    code = job.process.returncode or 0
    return settled_job(job.overrides, job.result, job.log, code, time.monotonic() - job.started)


def settled_job(overrides: Sequence[str], result_file: Path, log: Path, code: int, seconds: float) -> SweepJob:
    """A job that has ended, from the result file that it left and its exit code."""
    result = json.loads(result_file.read_text()) if result_file.exists() else {}
    folder = RunFolder(Path(result["run"])) if result.get("run") else None
    status = result.get("status", "failed")
    if code != 0 and status == "finished":
        status = "failed"
    error = "" if status == "finished" else _one_line(result.get("error")) or _error_line(log, code)
    metrics = folder.read_metrics() if folder else {}
    return SweepJob(settings_of(overrides), status, folder, error, seconds, metrics)


def settings_of(overrides: Sequence[str]) -> dict[str, str]:
    return dict(override.partition("=")[::2] for override in overrides)


def _one_line(text: str | None) -> str:
    return "; ".join((text or "").split("\n"))


def _error_line(log: Path, code: int) -> str:
    """One line on a job that left no result: the signal, a traceback's last line, or its first line of output."""
    if code < 0:
        has_name = -code in set(signal.Signals)  # of real-time signals but the first and the last have a name
        return f"ended by {signal.Signals(-code).name if has_name else f'signal {-code}'}"
    text = log.read_text(errors="replace") if log.exists() else ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if "HYDRA_FULL_ERROR" not in line]
    if not lines:
        return f"ended with code {code} and no output"
    if errors := [line for line in lines if line.startswith("error: ")]:
        return errors[-1].removeprefix("error: ")
    return lines[-1] if any(line.startswith("Traceback") for line in lines) else lines[0]


def progress(job: SweepJob, overrides: Sequence[str], shown: str) -> str:
    figure = percent(job.metrics.get(shown))
    ending = job.error or ("" if figure == MISSING else f"{shown} {figure}")
    return f"{job.status} after {duration(job.seconds)}: {' '.join(overrides)}  {ending}".rstrip()


def _stop(running: Sequence[_Running]) -> None:
    """Ask what still runs to end, give it time to record its state, then kill it; a second Ctrl-C kills at once."""
    for job in running:
        _signal(job, signal.SIGTERM)  # SIGINT is ignored in what a shell started in the background
    limit = time.monotonic() + GRACE_SECONDS
    try:
        for job in running:
            job.process.wait(max(0.0, limit - time.monotonic()))
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        for job in running:
            _signal(job, signal.SIGKILL)
    for job in running:
        job.process.wait()


def _signal(job: _Running, number: signal.Signals) -> None:
    try:
        os.killpg(job.process.pid, number)
    except ProcessLookupError:
        return


def report_sweep(jobs: Sequence[SweepJob], folder: Path | str) -> None:
    """Print the table of all jobs; keep it (sweep.md, sweep.csv) and the figure (sweep.svg, .pdf, .png).

    Of clusterings over settings and seeds also on which setting the seeds agree most (agreement.md).
    """
    from reporting.sweep_figure import sweep_figure

    table = sweep_table(jobs)
    write_text(Path(folder) / "sweep.md", table.markdown())
    write_text(Path(folder) / "sweep.csv", table.csv())
    sweep_figure(jobs, Path(folder) / "sweep")
    print()
    table.show()
    if any("cluster/num_clusters" in job.metrics for job in jobs):
        _report_agreement(jobs, Path(folder))
    print(Path(folder).absolute(), flush=True)


def _report_agreement(jobs: Sequence[SweepJob], folder: Path) -> None:
    from reporting.cluster_agreement import agreement_in_sweep

    try:
        comparison = agreement_in_sweep(jobs)
    except ReportError as error:  # the sweep is done all the same
        print(f"agreement between seeds: {error}", file=sys.stderr)
        return
    if comparison is None:
        return
    table, lines = comparison
    write_text(folder / "agreement.md", table.markdown())
    print()
    table.show()
    print("\n".join(["", *(f"seeds agree most: {line}" for line in lines)]))
