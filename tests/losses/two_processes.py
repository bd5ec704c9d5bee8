"""A loss over two processes, each with a part of the batch, against the loss in one."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

Loss = Callable[..., Tensor | tuple[Tensor, Tensor]]


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
    mp.spawn(_worker, (losses, parts, same, f"file://{folder}/rendezvous", str(folder)), nprocs=2)
    for number, (value, gradient, more) in enumerate(_results(losses, [*shared, *same])):
        assert gradient.abs().max() > 1e-4
        for rank in range(2):
            actual, found_gradient, found_more = torch.load(f"{folder}/{rank}.pt")[number]
            assert actual == pytest.approx(value, abs=1e-12), losses[number]
            torch.testing.assert_close(found_gradient, gradient, atol=1e-12, rtol=0)
            torch.testing.assert_close(found_more, more, atol=1e-12, rtol=0)


def _results(losses: Sequence[Loss], tensors: Sequence[Tensor]) -> list[tuple[float, Tensor, Tensor]]:
    actual = []
    for loss in losses:
        weight = torch.eye(tensors[0].shape[1], dtype=torch.float64, requires_grad=True)
        returned = loss(weight, *tensors)
        value, more = returned if isinstance(returned, tuple) else (returned, torch.zeros(0))
        value.backward()
        actual.append((value.item(), weight.grad, more.detach()))
    return actual


def _worker(rank, losses, parts, same, address, folder):
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    try:
        actual = _results(losses, [*parts[rank], *same])
        for _, gradient, _ in actual:
            dist.all_reduce(gradient)
            gradient /= 2  # each process counts the whole loss
        torch.save(actual, f"{folder}/{rank}.pt")
        dist.barrier()  # nobody closes its connections while another still uses them
    finally:
        dist.destroy_process_group()
