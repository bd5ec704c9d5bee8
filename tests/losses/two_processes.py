"""Two processes, each with a part of the batch, against one."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

from tests.own_process import context

Loss = Callable[..., Tensor | tuple[Tensor, Tensor]]


def in_two_processes(function: Callable[..., None], folder: Path, *arguments: object) -> None:
    """Call `function(rank, *arguments)`, of the top level of a module, in two processes that form a group."""
    words = (function, f"file://{folder}/rendezvous", arguments)
    mp.start_processes(_enter, words, nprocs=2, start_method=context.get_start_method())


def _enter(rank: int, function: Callable[..., None], address: str, arguments: tuple[object, ...]) -> None:
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    function(rank, *arguments)
    dist.barrier()  # nobody closes its connections while another still uses them
    dist.destroy_process_group()
    os._exit(0)  # a thread of gloo that meets an interpreter at its end aborts the process


def assert_two_processes_equal_one(
    losses: Sequence[Loss], shared: Sequence[Tensor], same: Sequence[Tensor], folder: Path
) -> None:
    """Value and gradient of a weight agree to 1e-12, and so does what a loss returns beside its value.

    Args:
        losses: `loss(weight, *shared, *same)`, of the top level of a module; `weight` (D, D) is the identity, `loss`
            gathers over the processes.
        shared: tensors (B, …), of which the first process has a bit less than half of the rows.
        same: tensors that both processes have whole.
    """
    shared, same = ([tensor.detach() for tensor in tensors] for tensors in (shared, same))
    first = (len(shared[0]) - 1) // 2
    parts = [[tensor[:first] for tensor in shared], [tensor[first:] for tensor in shared]]
    in_two_processes(_worker, folder, losses, parts, same, str(folder))
    for number, (value, gradient, more) in enumerate(_results(losses, [*shared, *same])):
        assert gradient.abs().max() > 1e-4
        for rank in range(2):
            actual, actual_gradient, actual_more = torch.load(f"{folder}/{rank}.pt")[number]
            assert actual == pytest.approx(value, abs=1e-12), losses[number]
            torch.testing.assert_close(actual_gradient, gradient, atol=1e-12, rtol=0)
            torch.testing.assert_close(actual_more, more, atol=1e-12, rtol=0)


def _results(losses: Sequence[Loss], tensors: Sequence[Tensor]) -> list[tuple[float, Tensor, Tensor]]:
    actual = []
    for loss in losses:
        weight = torch.eye(tensors[0].shape[1], dtype=torch.float64, requires_grad=True)
        returned = loss(weight, *tensors)
        value, more = returned if isinstance(returned, tuple) else (returned, torch.zeros(0))
        value.backward()
        actual.append((value.item(), weight.grad, more.detach()))
    return actual


def _worker(rank, losses, parts, same, folder):
    actual = _results(losses, [*parts[rank], *same])
    for _, gradient, _ in actual:
        dist.all_reduce(gradient)
        gradient /= 2  # each process counts the whole loss
    torch.save(actual, f"{folder}/{rank}.pt")
