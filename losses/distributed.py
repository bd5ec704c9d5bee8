"""The global batch for losses that compare samples with one another."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def gather(tensor: Tensor, num_views: int = 1) -> Tensor:
    """Concatenates a tensor's rows over all processes, in the order of ranks, with gradient.

    Processes hold consecutive parts of the global batch, so that the result has its rows in their order, and what is
    drawn by position is the same on one process and on several.

    Every process then computes the same loss L on the global batch. Backward sums over processes the gradients for
    this process's rows, which gives W dL/dz with W processes; DistributedDataParallel averages the parameters'
    gradients over W, so that the update equals that of one process on the concatenated batch. Parameters that enter
    the loss after the gather, such as prototypes, get dL/dp on every process, and the average leaves it as it is.
    Shapes may differ in the number of rows. Source: this house.

    Args:
        tensor: (V * B_r, ...), view-major; B_r may differ between processes, the other dimensions and the dtype may
            not.
        num_views: V, a divisor of the rows of every process.

    Returns:
        (V * sum of B_r, ...), view-major over the global batch; the tensor itself outside a process group.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return tensor
    if num_views == 1:
        return _Gather.apply(tensor)
    rows_first = tensor.reshape(num_views, len(tensor) // num_views, *tensor.shape[1:]).transpose(0, 1)
    return _Gather.apply(rows_first.contiguous()).transpose(0, 1).flatten(0, 1)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor: Tensor) -> Tensor:
        sizes = _sizes(tensor)
        ctx.start, ctx.stop = sum(sizes[: dist.get_rank()]), sum(sizes[: dist.get_rank() + 1])
        # Collectives want equal shapes: pad to the largest share, cut afterwards.
        padded = tensor.new_zeros(max(sizes), *tensor.shape[1:])
        padded[: len(tensor)] = tensor
        shares = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(shares, padded)
        return torch.cat([share[:size] for share, size in zip(shares, sizes, strict=True)])

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        grad = grad_output.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(grad)
        return grad[ctx.start : ctx.stop]


def _sizes(tensor: Tensor) -> list[int]:
    local_size = torch.tensor([len(tensor)], device=tensor.device)
    sizes = [torch.empty_like(local_size) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, local_size)
    return [int(size) for size in sizes]
