"""The processes of one run, and this one's place among them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TORCH_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT", "MASTER_ADDR")


@dataclass(frozen=True)
class World:
    """The processes of a run: `devices` on each of `nodes`; this one is on node `node`, the first is at `address`."""

    nodes: int
    devices: int
    node: int = 0
    address: str = "127.0.0.1"
    port: int = 0  # 0: any free one, which suffices on one node
    process: int | None = None  # this one's number, 0 to size - 1; None: it starts those of its node

    @property
    def size(self) -> int:
        return self.nodes * self.devices

    @property
    def holds_run(self) -> bool:
        """Whether this process takes the run's lock and speaks of the run."""
        return self.node == 0 and not self.process

    @property
    def is_joined(self) -> bool:
        """Whether this process was started beside others of its run, which wait for it."""
        return self.process is not None or self.nodes > 1

    @classmethod
    def of(cls, trainer: Mapping[str, Any]) -> World:
        """The processes that the config's node `trainer` asks for, or in which the run was started.

        `torchrun`, Ray Train and `srun` with a task for each device have started them all; `srun` with a task for each
        node, and a person who sets MASTER_ADDR, MASTER_PORT and NODE_RANK, have started one on each node.

        Raises:
            ValueError: the config asks for others than were started; several nodes, and nothing says where they are;
            SLURM's variables do not say how many tasks a node has; some of torchrun's are set without the others.
        """
        world = _from_torch_variables() or _from_slurm_step(trainer)
        if world is None:
            return _by_hand(trainer)
        if trainer["devices"] not in ("auto", world.devices):
            raise ValueError(
                f"trainer.devices: found {trainer['devices']}, allowed: {world.devices}, the processes of a node that "
                f"were started, or auto"
            )
        if trainer["num_nodes"] not in (1, world.nodes):
            raise ValueError(f"trainer.num_nodes: found {trainer['num_nodes']}, allowed: {world.nodes}, as was started")
        return world

    def variables(self) -> dict[str, str]:
        """What `torchrun` tells its processes, for one that was started by something else."""
        assert self.process is not None
        values = {
            "RANK": self.process,
            "LOCAL_RANK": self.process % self.devices,
            "GROUP_RANK": self.node,
            "WORLD_SIZE": self.size,
            "LOCAL_WORLD_SIZE": self.devices,
            "MASTER_ADDR": self.address,
            "MASTER_PORT": self.port,
        }
        return {key: str(value) for key, value in values.items()}


def is_first_process() -> bool:
    """Whether this process is the one of its run that writes and speaks."""
    return int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", 0))) == 0


def is_one_of_several() -> bool:
    """Whether this process is one of several that train a run together."""
    return int(os.environ.get("WORLD_SIZE", 1)) > 1


def processes_per_node(trainer: Mapping[str, Any]) -> int:
    """`trainer.devices`; `auto` is every GPU that torch sees, or 1 without."""
    if trainer["devices"] != "auto":
        return trainer["devices"]
    import torch

    return max(1, torch.cuda.device_count()) if trainer["accelerator"] != "cpu" else 1


def _from_torch_variables() -> World | None:
    """Of `torchrun`, Ray Train and `engine.processes`."""
    if not is_one_of_several():
        return None
    if missing := [name for name in TORCH_VARIABLES if not os.environ.get(name)]:
        told = f"WORLD_SIZE={os.environ['WORLD_SIZE']}"
        raise ValueError(f"{told} without {', '.join(missing)}; allowed: all of them, as torchrun sets them, or none")
    process, size, devices, port = (int(os.environ[name]) for name in TORCH_VARIABLES[:4])
    return World(size // devices, devices, process // devices, os.environ["MASTER_ADDR"], port, process)


def _from_slurm_step(trainer: Mapping[str, Any]) -> World | None:
    """Of `srun` with several tasks; a batch script's own process belongs to no such step."""
    tasks = int(os.environ.get("SLURM_STEP_NUM_TASKS", 1))
    if tasks == 1 or "NODE_RANK" in os.environ:
        return None
    from lightning.fabric.plugins.environments import SLURMEnvironment

    try:
        slurm = SLURMEnvironment(auto_requeue=False)
    except RuntimeError as error:  # it wants --ntasks-per-node, so that all nodes have as many
        raise ValueError(f"srun: {' '.join(str(error).split())}") from error
    nodes = int(os.environ["SLURM_STEP_NUM_NODES"])
    place: dict[str, Any] = {"node": slurm.node_rank(), "address": slurm.main_address, "port": slurm.main_port}
    if tasks == nodes:
        return World(nodes, processes_per_node(trainer), **place)
    return World(nodes, tasks // nodes, **place, process=slurm.global_rank())


def _by_hand(trainer: Mapping[str, Any]) -> World:
    nodes, devices = trainer["num_nodes"], processes_per_node(trainer)
    if nodes == 1:
        return World(nodes, devices)
    try:
        node, port = (int(os.environ[name]) for name in ("NODE_RANK", "MASTER_PORT"))
        return World(nodes, devices, node, os.environ["MASTER_ADDR"], port)
    except (KeyError, ValueError):
        raise ValueError(
            f"trainer.num_nodes: found {nodes}, allowed: 1, or more under torchrun, srun or Ray Train, "
            f"or with MASTER_ADDR, MASTER_PORT and NODE_RANK (0 to {nodes - 1}) set on each node"
        ) from None
