"""A process finds its place among those of its run."""

import os

import pytest

from engine.overrides import check_sweep
from engine.world import World

HERE = {"MASTER_ADDR": "a", "MASTER_PORT": "7"}
TORCH = HERE | {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}
SLURM = {"SLURM_NODELIST": "n[05-06]", "SLURM_JOB_ID": "123", "SLURM_STEP_NUM_NODES": "2", "SLURM_NODEID": "1"}


@pytest.fixture
def place(monkeypatch):
    """Set the variables that tell a process its place, and no other of them."""
    for name in list(os.environ):
        if name.startswith("SLURM_") or name in {*TORCH, "NODE_RANK", "LOCAL_WORLD_SIZE"}:
            monkeypatch.delenv(name)
    yield lambda variables: [monkeypatch.setenv(name, value) for name, value in variables.items()]
    monkeypatch.delenv("MASTER_ADDR", raising=False)  # Lightning sets it


@pytest.mark.parametrize(
    ("variables", "trainer", "expected"),
    [
        ({}, {"devices": 4}, World(1, 4)),
        (HERE | {"NODE_RANK": "1"}, {"num_nodes": 2, "devices": 4}, World(2, 4, 1, "a", 7)),
        (TORCH | {"LOCAL_WORLD_SIZE": "4"}, {"devices": 4}, World(2, 4, 1, "a", 7, process=5)),
        (TORCH | {"LOCAL_WORLD_SIZE": "8"}, {"devices": "auto"}, World(1, 8, 0, "a", 7, process=5)),
        (SLURM | {"SLURM_STEP_NUM_TASKS": "2"}, {"devices": 4}, World(2, 4, 1, "n05", 15123)),
        (
            SLURM | {"SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "5"},
            {"devices": "auto"},
            World(2, 4, 1, "n05", 15123, process=5),
        ),
        ({"SLURM_NTASKS": "8", "SLURM_NODEID": "0"}, {"devices": 2}, World(1, 2)),
    ],
    ids=["alone", "by hand", "torchrun", "Ray Train", "srun by node", "srun by device", "a batch script of SLURM"],
)
def test_a_process_knows_its_place(place, variables, trainer, expected):
    place(variables)
    assert World.of({"num_nodes": 1, "accelerator": "cpu"} | trainer) == expected


@pytest.mark.parametrize(
    ("trainer", "message"),
    [
        ({"devices": 2, "num_nodes": 2}, "trainer.devices: found 2, allowed: 4, the processes of a node that were"),
        ({"devices": 4, "num_nodes": 3}, "trainer.num_nodes: found 3, allowed: 2, as was started"),
    ],
)
def test_a_config_that_asks_for_other_processes_than_were_started(place, trainer, message):
    place(TORCH | {"LOCAL_WORLD_SIZE": "4"})
    with pytest.raises(ValueError, match=message):
        World.of(trainer)


def test_several_nodes_that_nobody_placed(place):
    place({})
    with pytest.raises(ValueError, match="trainer.num_nodes: found 2, allowed: 1, or more under torchrun, srun or Ray"):
        World.of({"num_nodes": 2, "devices": 1})


def test_a_place_that_is_told_by_half_is_refused_in_a_line(place):
    place({"WORLD_SIZE": "8", "MASTER_ADDR": "a", "RANK": "5"})
    with pytest.raises(ValueError, match="^WORLD_SIZE=8 without LOCAL_WORLD_SIZE, MASTER_PORT; allowed: all of them"):
        World.of({"num_nodes": 1, "devices": 1, "accelerator": "cpu"})


def test_a_sweep_under_torchrun_is_refused_in_a_line(place):
    sweep = ["-m", "seed=0,1"]
    check_sweep(sweep)
    place(TORCH)
    check_sweep(["seed=0"])
    with pytest.raises(ValueError, match="-m: found 8 processes that were started for one run; .* allowed: one"):
        check_sweep(sweep)
