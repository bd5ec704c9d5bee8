"""One run on several processes, started and watched by torch's elastic launcher; all end together.

The process that was started by hand trains nothing. It holds the run and waits. What ends one of the processes ends
all: bad input, a fault, a kill, Ctrl-C. Nothing is composed a second time, so that every process has the same config.
Where `torchrun`, `srun` or Ray Train have started the processes, each does its part itself.
"""

from __future__ import annotations

import io
import itertools
import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from engine.world import World
from storage.run_store import first_line

SETTLE_SECONDS = 2.0  # in which the launcher sees which process fell first
MEET_SECONDS = 600  # in which all nodes must have come
PRELOADED = ("torch", "lightning.pytorch", "torchmetrics.classification", "transformers.models.bert.modeling_bert")
MEETINGS = itertools.count()  # of this process, for one run after another
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)  # those that the launcher passes on


class ProcessDied(RuntimeError):
    """A process of the run ended by a kill or by a fault; the message is one line."""


def run_processes(
    function: Callable[..., Any], arguments: tuple[Any, ...], world: World, name: str, refusal: str = ""
) -> Any:
    """Call `function(*arguments)` in all processes of this node; returns what the first process of the node returns.

    Args:
        function: of a module, so that a new process can import it.
        arguments: plain values.
        world: nodes and devices.
        name: of the run, the same on all nodes.
        refusal: why there is no run; then all processes end with this line once they have met.

    Raises:
        ValueError: bad input, found by one of the processes or at the meeting of the nodes; a refusal.
        ProcessDied: one of them was killed or had a fault, here or on another node.
    """
    if world.process is not None:
        os.environ.update(world.variables())
        return _together(world, name, function, arguments, refusal)
    from torch.distributed import DistError
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    # libraries are loaded once for all processes of a node
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(PRELOADED))
    with tempfile.TemporaryDirectory(prefix="kontrast-") as folder, _launcher_alone() as log:
        silent = {device: Std.ALL for device in range(world.devices) if world.node or device}  # the first one speaks
        config = LaunchConfig(
            min_nodes=world.nodes,
            max_nodes=world.nodes,
            nproc_per_node=world.devices,
            run_id="kontrast",
            rdzv_backend="static" if world.nodes > 1 else "c10d",
            rdzv_endpoint=f"{world.address}:{world.port}",
            rdzv_configs={"rank": world.node, "timeout": MEET_SECONDS},
            local_addr=world.address if world.nodes == 1 else None,
            max_restarts=0,
            start_method="forkserver",
            logs_specs=DefaultLogsSpecs(log_dir=folder, redirects=silent),
            signals_to_handle=",".join(number.name for number in ENDING),
        )
        try:
            results = elastic_launch(config, _process)(world, name, function, arguments, refusal)
        except ChildFailedError as error:
            raise _cause(error, world, log) from None
        except SignalException:
            raise KeyboardInterrupt from None
        except DistError as error:
            place = f"{world.address}:{world.port}"
            raise ValueError(f"MASTER_ADDR, MASTER_PORT: no meeting at {place} ({first_line(error)})") from error
    return results[world.node * world.devices]


@contextmanager
def _launcher_alone() -> Iterator[io.StringIO]:
    """Undo what the launcher does to this process: handlers of signals stay set, and it logs what is raised anyway.

    Yields what it has logged.
    """
    log, handlers = logging.getLogger("torch.distributed.elastic"), {s: signal.getsignal(s) for s in ENDING}
    log.propagate, lines = False, io.StringIO()
    log.addHandler(into := logging.StreamHandler(lines))
    try:
        yield lines
    finally:
        log.removeHandler(into)
        log.propagate = True
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _process(world: World, name: str, function: Callable[..., Any], arguments: tuple[Any, ...], refusal: str) -> Any:
    """What a process does that the launcher has started."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    threading.Thread(target=_end_when_told, daemon=True).start()
    _share_cores(world.devices)
    try:
        return _together(world, name, function, arguments, refusal)
    except ValueError as error:
        raise ValueError(str(error)) from None  # of any subclass: the launcher passes on the name alone
    except Exception:
        time.sleep(SETTLE_SECONDS)  # it may have fallen because another one did: the launcher takes the first
        raise


def _end_when_told() -> None:
    """End this process at a signal, also inside a collective operation, and when the launcher is gone.

    A killed launcher holds the run no longer: its processes must not go on writing into it.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    while parent.is_alive():
        told = signal.sigtimedwait(ENDING, 0.5)
        if told is not None and told.si_signo in ENDING:  # a kernel under load has answered with a number nobody sent
            os._exit(128 + told.si_signo)
    os._exit(1)


def _share_cores(processes: int) -> None:
    import torch

    threads = os.environ.get("OMP_NUM_THREADS", "")
    cores = int(threads) if threads.isdigit() else len(os.sched_getaffinity(0))
    os.environ["OMP_NUM_THREADS"] = str(max(1, cores // processes))
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def _together(world: World, name: str, function: Callable[..., Any], arguments: tuple[Any, ...], refusal: str) -> Any:
    """Call the function in this process, once all have come for the same run."""
    from lightning.pytorch.utilities import rank_zero_only

    rank = int(os.environ["RANK"])
    rank_zero_only.rank = rank  # type: ignore[attr-defined]
    if world.process:  # one of them speaks; the launcher sees to it for those that it starts
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        warnings.simplefilter("ignore")
    try:
        store = _meet(rank, world, name, refusal)
        result = function(*arguments)
        del store
        return result
    except RuntimeError as error:
        if "closed by peer" in str(error) or "reset by peer" in str(error):
            raise ProcessDied(
                f"process {rank} of {world.size} lost another one, whose own output says why; "
                f"type the same command again to go on"
            ) from error
        raise


def _meet(rank: int, world: World, name: str, refusal: str = "") -> Any:
    """Wait for all processes; returns the store where they have met, to be kept while they work together.

    Raises:
        ValueError: they have come for different runs, or one of them with a refusal.
        ProcessDied: one has not come.
    """
    from torch import distributed

    if distributed.is_initialized():  # by Ray Train, which ends the others
        if refusal:
            raise ValueError(refusal)
        return None
    meeting = next(MEETINGS)
    try:
        store, _, _ = next(distributed.rendezvous("env://", timeout=timedelta(seconds=MEET_SECONDS)))
        store.set(f"run/{meeting}/{rank}", f"{name}\n{refusal}")
        said = [store.get(f"run/{meeting}/{other}").decode().split("\n") for other in range(world.size)]
    except distributed.DistError as error:
        place = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        message = f"process {rank} of {world.size} did not meet all others at {place} ({first_line(error)})"
        raise ProcessDied(message) from error
    for other, (run, reason) in enumerate(said):
        if reason:
            raise ValueError(reason)
        if run != said[0][0]:
            expected = f"{said[0][0]}, as in process 0"
            raise ValueError(f"process {other} of {world.size}: found run {run}, allowed: {expected}")
    return store


def _cause(error: Any, world: World, log: io.StringIO) -> Exception:
    """What to raise for the process that fell first; what the launcher knows of one that ended by itself is printed."""
    rank, failure = error.get_first_failure()
    process = f"process {rank} of {world.size}"
    if not isinstance(failure.message, dict):  # it could not say anything
        ending = f"ended with code {failure.exitcode}"
        if failure.exitcode > 0:
            print(log.getvalue(), file=sys.stderr, end="")
        else:
            hint = " (the machine may be out of memory)" if -failure.exitcode == signal.SIGKILL else ""
            ending = f"was ended by {failure.signal_name()}{hint}"
        return ProcessDied(f"{process} {ending}; type the same command again to go on")
    kind, _, text = failure.message["message"].partition(": ")
    if kind in ("ValueError", "ProcessDied"):
        return ValueError(text) if kind == "ValueError" else ProcessDied(text)
    print(failure.message["extraInfo"]["py_callstack"], file=sys.stderr)
    return ProcessDied(f"a fault of Kontrast's own in {process}: {kind}: {text}")
