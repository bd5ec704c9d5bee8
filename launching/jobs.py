"""Processes of a sweep's jobs: started anew, or forked from a warm one."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Protocol

# A job writes {"run": folder or null, "status": …, "error": …} into the file that this variable names.
RESULT_VARIABLE = "KONTRAST_JOB_RESULT"
POLL_SECONDS = 0.02
LIBC, PR_SET_PDEATHSIG = ctypes.CDLL(None), 1
WARM = "import sys; sys.path.insert(0, sys.argv[1]); from launching.warm import serve; serve()"


class Process(Protocol):
    """What a sweep needs of a job's process, which leads a session of its own."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


def start_cold(argv: Sequence[str], environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    """``python SCRIPT …`` with its output in a file.

    A session of its own, so that Ctrl-C reaches the job once, through the launcher, together with all it started.
    """
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )


def start_in_task(argv: Sequence[str], result: str, log: str) -> subprocess.Popen[bytes]:
    """``python …`` in a task that a cluster has given, its output at the end of a file.

    It is killed with the task: what runs on after that would hold its run against the next try.
    """
    environment = {**os.environ, RESULT_VARIABLE: result, "PYTHONUNBUFFERED": "1"}
    environment.setdefault("WANDB_RUN_GROUP", Path(result).parent.name)
    for tasks in ("SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"):  # one of many on the cluster, but alone in its run
        environment.pop(tasks, None)
    with open(log, "ab") as output:
        return subprocess.Popen(
            [sys.executable, *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            preexec_fn=_die_with_parent,
        )


def _die_with_parent() -> None:
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class WarmProcess:
    """A job forked by a `WarmStarter`."""

    def __init__(self, starter: WarmStarter, pid: int) -> None:
        self.starter, self.pid = starter, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Exit code, negative after a signal, or None while it runs."""
        if self.returncode is None:
            self.returncode = self.starter.code_of(self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        limit = time.monotonic() + timeout if timeout is not None else float("inf")
        while (code := self.poll()) is None:
            if time.monotonic() > limit:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            time.sleep(POLL_SECONDS)
        return code


class WarmStarter:
    """Starts jobs as forks of one process that has imported what they need (`launching.warm`)."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.codes: dict[int, int] = {}
        self.started: list[int] = []
        self.pending = b""
        root = str(Path(__file__).resolve().parents[1])  # before the working folder, which may hold a `callbacks.py`
        path = os.pathsep.join(filter(None, (root, environment.get("PYTHONPATH", ""))))
        with (folder / "warm.log").open("wb") as log:
            self.server = subprocess.Popen(
                [sys.executable, "-c", WARM, root],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**environment, "PYTHONPATH": path},
                start_new_session=True,
            )
        os.set_blocking(_pipe(self.server.stdout).fileno(), False)

    def start(self, argv: Sequence[str], environment: dict[str, str], log: Path) -> WarmProcess:
        """Raises RuntimeError: the warm process is gone."""
        request = {"argv": list(argv), "env": environment, "log": str(log)}
        stream, known = _pipe(self.server.stdin), len(self.started)
        try:
            stream.write(json.dumps(request).encode() + b"\n")
            stream.flush()
        except BrokenPipeError:
            self.server.wait()
        while len(self.started) == known:
            self._read()
            if self.server.poll() is not None:
                raise RuntimeError(f"the warm process ended with code {self.server.returncode}; see warm.log")
            time.sleep(POLL_SECONDS / 4)
        return WarmProcess(self, self.started[-1])

    def code_of(self, pid: int) -> int | None:
        self._read()
        if pid not in self.codes and self.server.poll() is not None:
            return -signal.SIGKILL  # nobody is left who could tell
        return self.codes.get(pid)

    def close(self) -> None:
        """End the warm process; jobs that still run are stopped."""
        _pipe(self.server.stdin).close()
        self.server.wait()
        _pipe(self.server.stdout).close()

    def _read(self) -> None:
        try:
            chunk = os.read(_pipe(self.server.stdout).fileno(), 65536)
        except BlockingIOError:
            return
        *lines, self.pending = (self.pending + chunk).split(b"\n")
        for line in filter(None, lines):
            answer = json.loads(line)
            if "code" in answer:
                self.codes[answer["pid"]] = answer["code"]
            else:
                self.started.append(answer["pid"])


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream
