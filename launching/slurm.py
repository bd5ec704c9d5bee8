"""Jobs of a sweep on a SLURM cluster, by submitit: one array job, each task one command line."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launching.jobs import start_in_task
from launching.sweep import settled_job
from reporting.tables import SweepJob

POLL_SECONDS = 0.5
ASK_SECONDS = 5.0  # between questions to the cluster; submitit by itself asks once a minute in the end
GRACE_SECONDS = 60.0


class SlurmJob:
    """What a task of the array does: the command line in a process of its own, its output in a file.

    Near the time limit, or preempted, submitit calls `checkpoint`: the run stops as on Ctrl-C and is put in line again,
    where it goes on from its last checkpoint.
    """

    def __init__(self, argv: Sequence[str], result: str, log: str) -> None:
        self.argv, self.result, self.log = list(argv), result, log
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> int:
        """Exit code of the command, negative after a signal."""
        Path(self.result).unlink(missing_ok=True)  # of an earlier start
        self.process = start_in_task(self.argv, self.result, self.log)
        return self.process.wait()

    def checkpoint(self) -> Any:
        """Stop the command and ask for the same again."""
        from submitit.helpers import DelayedSubmission

        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return DelayedSubmission(SlurmJob(self.argv, self.result, self.log))


def slurm_executor(folder: Path, options: Mapping[str, Any]) -> Any:
    """submitit's executor; ``options`` are its parameters without the ``slurm_`` before them."""
    import submitit

    max_num_timeout = options.get("max_num_timeout", 3)
    executor = submitit.SlurmExecutor(folder=folder / "submitit", max_num_timeout=max_num_timeout)
    plain = {key: value for key, value in options.items() if key != "max_num_timeout" and value is not None}
    minutes, memory = plain.pop("timeout_min", None), plain.pop("mem_gb", None)
    executor.update_parameters(
        job_name="kontrast",
        **({"time": minutes} if minutes else {}),
        **({"mem": f"{memory}GB"} if memory else {}),
        **plain,
    )
    return executor


def run_slurm_jobs(
    arguments: Sequence[str],
    jobs: Sequence[Sequence[str]],
    folder: Path | str,
    options: Mapping[str, Any],
    first: int = 0,
) -> list[SweepJob]:
    """Submit every job as a task of one array, wait, and return them in the order given.

    One that fails leaves the others alone. Interrupted, the tasks stay on the cluster; typed again, finished runs are
    not repeated.
    """
    folder = Path(folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    script = str(Path(sys.argv[0]).absolute())
    tasks = [
        SlurmJob([script, *arguments, *words], str(folder / f"job-{number}.json"), str(folder / f"job-{number}.log"))
        for number, words in enumerate(jobs, first)
    ]
    executor = slurm_executor(folder, options)
    with executor.batch():
        submitted = [executor.submit(task) for task in tasks]
    print(f"sweep: {len(jobs)} jobs on SLURM, {submitted[0].job_id.split('_')[0]}, output in {folder}", flush=True)
    started = asked = time.monotonic()
    while waiting := [job for job in submitted if not job.done()]:
        if time.monotonic() - asked >= ASK_SECONDS:  # one that died without a result is known to the cluster alone
            asked = time.monotonic()
            waiting[0].done(force_check=True)  # asks for all of them
        time.sleep(POLL_SECONDS)
    seconds = time.monotonic() - started
    return [
        settled_job(words, Path(task.result), Path(task.log), _code(job), seconds)
        for words, task, job in zip(jobs, tasks, submitted, strict=True)
    ]


def _code(job: Any) -> int:
    """Exit code of a task's command; 1 where the task itself ended without one."""
    error = job.exception()
    return 1 if error is not None else int(job.result())
