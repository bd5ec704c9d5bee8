"""Jobs of a sweep on a Ray cluster: each command line is a task; where a node is lost its tasks are run on another.

All nodes must see the sweep's folder and the runs under the same paths, as on SLURM.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from launching.interrupts import raised_interrupts
from launching.jobs import start_in_task
from launching.sweep import NOT_STARTED, progress, settings_of, settled_job
from reporting.tables import SweepJob
from storage.run_store import first_line

ROOT = Path(__file__).resolve().parents[1]
POLL_SECONDS = 0.5
GRACE_SECONDS = 30.0
CONNECT_SECONDS = 5.0
GIB = 2**30


def run_command(argv: Sequence[str], result: str, log: str) -> tuple[int, float]:
    """What a task does: the command line in a process of its own; its exit code, negative after a signal, and seconds.

    Cancelled, it stops the command as Ctrl-C does. Run again after its node was lost, the command goes on from the last
    checkpoint of its run.
    """
    Path(result).unlink(missing_ok=True)
    started = time.monotonic()
    process = start_in_task(argv, result, log)
    try:
        return process.wait(), time.monotonic() - started
    except BaseException:  # Ray cancels by an exception
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        raise


def run_ray_jobs(
    arguments: Sequence[str],
    jobs: Sequence[Sequence[str]],
    folder: Path | str,
    options: Mapping[str, Any],
    first: int = 0,
) -> list[SweepJob]:
    """Run every job as a task of the cluster, as many at a time as it has room for, and return them in the order given.

    One that fails leaves the others alone. Ctrl-C and a termination request stop the jobs that run; the others come
    back as not started.

    Args:
        options: `address` of the cluster; `num_cpus`, `num_gpus`, `memory_gb` and `resources` of a job; `max_retries`
            of one whose node is lost.

    Raises:
        ValueError: Ray is not installed, or no cluster answers.
    """
    folder = Path(folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    script = str(Path(sys.argv[0]).absolute())
    files = [
        (folder / f"job-{number}.json", folder / f"job-{number}.log") for number in range(first, first + len(jobs))
    ]
    with _connected(options["address"]) as ray:
        task = ray.remote(
            num_cpus=options["num_cpus"],
            num_gpus=options["num_gpus"],
            memory=int(options["memory_gb"] * GIB) if options["memory_gb"] else None,
            resources=dict(options["resources"]),
            max_retries=options["max_retries"],
            max_calls=1,  # a process for each job
        )(run_command)
        print(f"sweep: {len(jobs)} jobs on Ray, output in {folder}", flush=True)
        numbers = {
            task.remote([script, *arguments, *words], str(result), str(log)): number
            for number, (words, (result, log)) in enumerate(zip(jobs, files, strict=True))
        }
        ended: dict[int, SweepJob] = {}
        try:
            with raised_interrupts():
                while len(ended) < len(jobs):
                    waiting = [reference for reference, number in numbers.items() if number not in ended]
                    done, _ = ray.wait(waiting, num_returns=1, timeout=POLL_SECONDS)
                    for reference in done:
                        number = numbers[reference]
                        ended[number] = job = _outcome(ray, reference, jobs[number], *files[number])
                        line = progress(job, jobs[number], "test/accuracy")
                        print(f"[{len(ended)}/{len(jobs)}] {line}", flush=True)
        except KeyboardInterrupt:
            print("sweep: interrupted, stopping its jobs", flush=True)
            waiting = [reference for reference, number in numbers.items() if number not in ended]
            for reference in waiting:
                ray.cancel(reference)
            ray.wait(waiting, num_returns=len(waiting), timeout=GRACE_SECONDS)
    for number in range(len(jobs)):
        if number not in ended:
            ended[number] = _stopped(jobs[number], *files[number])
    return [ended[number] for number in range(len(jobs))]


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else Ray says that it will be the default
    try:
        import ray
    except ImportError as error:
        message = "hydra/launcher=ray: Ray is not installed; pip install -c requirements.lock ray"
        raise ValueError(message) from error

    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    try:
        if ":" in address and "://" not in address:  # Ray itself tries for minutes
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
        ray.init(
            address=address,
            runtime_env={"env_vars": {"PYTHONPATH": path}},
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"hydra.launcher.address: found {address}, and no cluster of Ray answers ({first_line(error)}); "
            f"ray start --head begins one"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _outcome(ray: Any, reference: Any, words: Sequence[str], result: Path, log: Path) -> SweepJob:
    try:
        code, seconds = ray.get(reference)
    except ray.exceptions.RayError as error:  # its nodes were lost more often than it is tried
        job = settled_job(words, result, log, 1, 0.0)
        return replace(job, error=first_line(getattr(error, "cause", None) or error))
    return settled_job(words, result, log, code, seconds)


def _stopped(words: Sequence[str], result: Path, log: Path) -> SweepJob:
    if not log.exists():
        return SweepJob(settings_of(words), NOT_STARTED)
    return replace(settled_job(words, result, log, 1, 0.0), status="interrupted")
