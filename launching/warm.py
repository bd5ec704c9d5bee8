"""Jobs of a sweep in forks of one process that has imported everything: the start-up is paid once.

`launching.jobs` starts it as ``python -c "from launching.warm import serve; serve()"`` and speaks to it in JSON lines.
Each job is still a process of its own, with its own session, output file and environment; it ends as ``python run.py``
would.
"""

from __future__ import annotations

import json
import os
import runpy
import select
import signal
import sys
from typing import Any

WATCH_SECONDS = 0.05


def serve() -> None:
    """Fork a job for each request on stdin, ``{"argv": […], "env": {…}, "log": FILE}``.

    Answers ``{"pid": N}`` to each request in order, and ``{"pid": N, "code": C}`` when a job has ended (C is -S after
    signal S). At the end of stdin the jobs that run are asked to stop.
    """
    requests, answers = os.dup(0), os.fdopen(os.dup(1), "w", buffering=1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the launcher's to handle
    _import_all()
    running: set[int] = set()
    pending, open_ = b"", True
    while open_ or running:
        ready, _, _ = select.select([requests] if open_ else [], [], [], WATCH_SECONDS)
        if ready:
            chunk = os.read(requests, 65536)
            open_ = bool(chunk)
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                running.add(pid := _fork(json.loads(line), requests, answers))
                print(json.dumps({"pid": pid}), file=answers)
            if not open_:
                for pid in running:
                    _ask_to_stop(pid)
        for pid in list(running):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                running.remove(pid)
                if open_:
                    print(json.dumps({"pid": pid, "code": os.waitstatus_to_exitcode(status)}), file=answers)


def _import_all() -> None:
    """What every job imports. Nothing is computed: threads that a fork would lose must not be started."""
    import importlib

    for name in ("tasks.dispatch", "tasks.fit", "hydra.utils", "transformers", "scipy.stats", "sklearn.metrics"):
        importlib.import_module(name)


def _fork(request: dict[str, Any], requests: int, answers: Any) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        os.close(requests)
        os.close(answers.fileno())
        _redirect(request["log"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(request["env"])
        sys.argv = request["argv"]
        code = _run(sys.argv[0])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _ask_to_stop(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGTERM)
    except ProcessLookupError:  # forked so lately that its session has not begun
        os.kill(pid, signal.SIGTERM)


def _redirect(log: str) -> None:
    for target, name, flags in ((0, os.devnull, os.O_RDONLY), (1, log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)):
        descriptor = os.open(name, flags, 0o644)
        os.dup2(descriptor, target)
        os.close(descriptor)
    os.dup2(1, 2)


def _run(script: str) -> int:
    try:
        runpy.run_path(script, run_name="__main__")
        return 0
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        return 1
