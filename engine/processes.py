"""One run on several processes: every node starts and watches its own, and all end together.

The process that was started by hand trains nothing. It holds the run, starts a process for each device with the
variables that `torchrun` sets, and waits. What ends one of them ends all: bad input, a fault, a kill, Ctrl-C. Nothing
is composed a second time, so that every process has the same config.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from typing import Any

from storage.run_store import first_line

POLL_SECONDS = 1.0
SETTLE_SECONDS = 2.0  # in which other processes fall for the same reason, or because one is gone
MEET_SECONDS = 600.0  # in which all nodes must have come
PRELOADED = ("torch", "lightning.pytorch", "torchmetrics.classification", "transformers.models.bert.modeling_bert")


class ProcessDied(RuntimeError):
    """A process of the run ended by a kill or by a fault; the message is one line."""


@dataclass(frozen=True)
class World:
    """The processes of a run: `devices` on each of `nodes`; this one is node `node`, and the first is at `address`."""

    nodes: int
    devices: int
    node: int = 0
    address: str = "127.0.0.1"
    port: int = 0  # 0: any free one, which suffices on one node

    @property
    def size(self) -> int:
        return self.nodes * self.devices

    @classmethod
    def of(cls, trainer: Mapping[str, Any]) -> World:
        """The processes that the config's node `trainer` asks for.

        Raises:
            ValueError: several nodes, and nothing says which one this is and where the first one is.
        """
        nodes, devices = trainer["num_nodes"], processes_per_node(trainer)
        if nodes == 1:
            return cls(nodes, devices)
        if "SLURM_NODEID" in os.environ and "NODE_RANK" not in os.environ:
            from lightning.fabric.plugins.environments import SLURMEnvironment

            slurm = SLURMEnvironment(auto_requeue=False)
            return cls(nodes, devices, int(os.environ["SLURM_NODEID"]), slurm.main_address, slurm.main_port)
        try:
            node, port = (int(os.environ[name]) for name in ("NODE_RANK", "MASTER_PORT"))
            return cls(nodes, devices, node, os.environ["MASTER_ADDR"], port)
        except (KeyError, ValueError):
            raise ValueError(
                f"trainer.num_nodes: found {nodes}, allowed: 1, or more in a SLURM job with one task a node, "
                f"or with MASTER_ADDR, MASTER_PORT and NODE_RANK (0 to {nodes - 1}) set on each node"
            ) from None


def processes_per_node(trainer: Mapping[str, Any]) -> int:
    """`trainer.devices`; `auto` is every GPU that torch sees, or 1 without."""
    if trainer["devices"] != "auto":
        return trainer["devices"]
    import torch

    return max(1, torch.cuda.device_count()) if trainer["accelerator"] != "cpu" else 1


def run_processes(function: Callable[..., Any], arguments: tuple[Any, ...], world: World, name: str) -> Any:
    """Call `function(*arguments)` in all processes of this node; returns what the first process of all returns.

    Args:
        function: of a module, so that a new process can import it.
        arguments: plain values.
        world: nodes and devices.
        name: of the run, the same on all nodes.

    Raises:
        ValueError: bad input, found by one of the processes or at the meeting of the nodes.
        ProcessDied: one of them was killed or had a fault, here or on another node.
    """
    with _meeting(world, name) as store:
        context = multiprocessing.get_context("forkserver")  # libraries are loaded once for all processes of a node
        context.set_forkserver_preload(list(PRELOADED))
        processes: dict[Connection, Any] = {}
        try:
            for device in range(world.devices):
                receiver, sender = context.Pipe(duplex=False)
                variables = _variables(world, device, store.port, name)
                process = context.Process(target=_process, args=(sender, variables, function, arguments))
                process.start()
                sender.close()
                processes[receiver] = process
            return _watched(processes, world, store)
        except ValueError as error:
            _tell(store, world, "input", str(error))
            raise
        except BaseException as error:
            _tell(store, world, "died", str(error) or f"interrupted on node {world.node}")
            raise
        finally:
            for process in processes.values():
                process.kill()
                process.join()


def is_first_process() -> bool:
    """Whether this process is the one of its run that writes and speaks."""
    return int(os.environ.get("RANK", 0)) == 0


def is_one_of_several() -> bool:
    """Whether this process is one that `run_processes` started."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def _variables(world: World, device: int, port: int, name: str) -> dict[str, str]:
    threads = os.environ.get("OMP_NUM_THREADS", "")
    cores = int(threads) if threads.isdigit() else len(os.sched_getaffinity(0))
    values = {
        "RANK": world.node * world.devices + device,
        "LOCAL_RANK": device,
        "GROUP_RANK": world.node,
        "WORLD_SIZE": world.size,
        "LOCAL_WORLD_SIZE": world.devices,
        "MASTER_ADDR": world.address,
        "MASTER_PORT": port,
        "TORCHELASTIC_RUN_ID": name,
        "TORCHELASTIC_USE_AGENT_STORE": True,  # the processes meet where the nodes have met
        "OMP_NUM_THREADS": max(1, cores // world.devices),
    }
    # the whole environment: the server that processes are forked from may be older than it
    given = {key: value for key, value in os.environ.items() if key != "KONTRAST_JOB_RESULT"}
    return given | {key: str(value) for key, value in values.items()}


def _process(
    sender: Connection, variables: Mapping[str, str], function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    """What a process does: the function, then one message of how it went."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, for whom the first process answers
    signal.signal(signal.SIGTERM, lambda *_: None)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.clear()
    os.environ.update(variables)
    import torch
    from lightning.pytorch.utilities import rank_zero_only

    rank_zero_only.rank = int(variables["RANK"])
    if not is_first_process():  # one of them speaks
        _silence()
    torch.set_num_threads(int(variables["OMP_NUM_THREADS"]))
    try:
        sender.send(("done", function(*arguments)))
    except ValueError as error:
        sender.send(("input", str(error)))
    except BaseException as error:
        sender.send(("fault", f"{type(error).__name__}: {error}", traceback.format_exc()))
    sys.stdout.flush()
    sys.stderr.flush()


def _silence() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)


def _end_with_parent() -> None:
    """A killed parent holds the run no longer: its processes must not go on writing into it."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _watched(processes: Mapping[Connection, Any], world: World, store: Any) -> Any:
    """Wait for all messages; returns that of the first process. Raises what ended the first that fell."""
    waiting, messages = dict(processes), {}
    deadline = None
    while waiting:
        for receiver in wait(list(waiting), POLL_SECONDS if deadline is None else 0.1):
            rank = world.node * world.devices + list(processes).index(receiver)
            messages[rank] = _message(receiver, waiting.pop(receiver))
            if messages[rank][0] != "done" and deadline is None:
                deadline = time.monotonic() + SETTLE_SECONDS
        if deadline is not None and time.monotonic() > deadline:
            break
        if deadline is None and world.nodes > 1:
            _heed_other_nodes(store, world)
    _raise_cause(messages, world)
    if world.nodes > 1:
        _wait_for_other_nodes(store, world)
    return messages[world.node * world.devices][1]


def _message(receiver: Connection, process: Any) -> tuple[str, ...]:
    try:
        return receiver.recv()
    except EOFError:
        process.join()
        return ("died", _ending(process.exitcode))


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    hint = " (the machine may be out of memory)" if -code == signal.SIGKILL else ""
    return f"was ended by {signal.Signals(-code).name}{hint}"


def _raise_cause(messages: Mapping[int, tuple[str, ...]], world: World) -> None:
    """Of several that fell, the one that pulled the others down: those only saw a lost connection, which is a fault."""
    for kind in ("died", "input", "fault"):
        for rank, message in messages.items():
            if message[0] != kind:
                continue
            if kind == "input":
                raise ValueError(message[1])
            if kind == "died":
                raise ProcessDied(f"process {rank} of {world.size} {message[1]}; type the same command again to go on")
            print(message[2], file=sys.stderr)
            raise ProcessDied(f"a fault of Kontrast's own in process {rank} of {world.size}: {message[1]}")


@contextmanager
def _meeting(world: World, name: str) -> Iterator[Any]:
    """The store through which nodes and processes find each other; the first node holds it."""
    from torch.distributed import TCPStore

    timeout = timedelta(seconds=MEET_SECONDS)
    if world.node == 0:
        try:
            store = TCPStore(world.address, world.port, is_master=True, wait_for_workers=False, timeout=timeout)
        except RuntimeError as error:
            raise ValueError(f"MASTER_PORT: cannot listen on {world.port} ({first_line(error)})") from error
        store.set("run", name)
        yield store
        return
    try:
        store = TCPStore(world.address, world.port, is_master=False, wait_for_workers=False, timeout=timeout)
        of_first = store.get("run").decode()
    except RuntimeError as error:
        raise ValueError(
            f"MASTER_ADDR: the first node did not come to {world.address}:{world.port} ({first_line(error)})"
        ) from error
    if of_first != name:
        message = f"node {world.node}: found run {name}, allowed: {of_first}, as on node 0"
        _tell(store, world, "input", message)
        raise ValueError(message)
    yield store


def _tell(store: Any, world: World, kind: str, message: str) -> None:
    """Let the other nodes know, where they still listen."""
    if world.nodes == 1:
        return
    try:
        if not store.check(["ended"]):
            store.set("ended", json.dumps([kind, message]))
    except RuntimeError:
        return
    if world.node == 0:
        time.sleep(2 * POLL_SECONDS)  # the store goes with this process


def _wait_for_other_nodes(store: Any, world: World) -> None:
    """The first node leaves last, for it holds the store."""
    deadline = time.monotonic() + MEET_SECONDS
    done = store.add("done", 1)
    while world.node == 0 and done < world.nodes and time.monotonic() < deadline:
        _heed_other_nodes(store, world)
        time.sleep(POLL_SECONDS / 10)
        done = store.add("done", 0)


def _heed_other_nodes(store: Any, world: World) -> None:
    try:
        if not store.check(["ended"]):
            return
        kind, message = json.loads(store.get("ended"))
    except RuntimeError:
        kind, message = "died", "the first node is gone"
    raise (ValueError if kind == "input" else ProcessDied)(message)
