"""Gradient caching: the embeddings of a large batch in the memory of one chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import get_device_states, set_device_states


def embed_in_chunks(
    function: Callable[..., Tensor], parameters: Iterable[nn.Parameter], chunk: int, *tokens: Tensor
) -> Tensor:
    """`function(*tokens)`, rows in, rows out, computed by chunks of rows; value and gradient of the whole.

    Forward keeps nothing of a chunk but its embeddings and the state of the random numbers. Backward computes each
    chunk again, with the same dropout, and carries the gradient of its embeddings on to the parameters. Costs one more
    forward pass. Source: Gao et al. (RepL4NLP 2021), GradCache. First derivatives only.

    `torch.utils.checkpoint` over chunks would be the same, but its non-reentrant form holds more than a chunk and its
    reentrant form does not work under DistributedDataParallel.

    Args:
        function: of (n, ...) tensors, row by row.
        parameters: all that `function` may use and that learns.
        chunk: rows at a time, >= 1.
        tokens: (N, ...) without gradient.
    """
    chunks = list(zip(*(rows.split(chunk) for rows in tokens), strict=True))
    if not torch.is_grad_enabled():
        return torch.cat([function(*rows) for rows in chunks])
    return _Cached.apply(function, chunks, *(parameter for parameter in parameters if parameter.requires_grad))


class _Cached(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function: Callable[..., Tensor], chunks: list[tuple[Tensor, ...]], *parameters: Tensor) -> Tensor:
        device = chunks[0][0].device.type
        ctx.function, ctx.chunks, ctx.parameters, ctx.device = function, chunks, parameters, device
        ctx.autocast = torch.get_autocast_dtype(device), torch.is_autocast_enabled(device)
        ctx.random, embeddings = [], []
        # weights cast here know no gradient: a cache would hand them to whoever uses the encoder next
        with torch.autocast(device, ctx.autocast[0], ctx.autocast[1], cache_enabled=False):
            for rows in chunks:
                ctx.random.append((torch.get_rng_state(), get_device_states(*rows)))
                embeddings.append(function(*rows))
        return torch.cat(embeddings)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor):
        totals: list[Tensor | None] = [None] * len(ctx.parameters)
        sizes = [len(rows[0]) for rows in ctx.chunks]
        for rows, random, grad in zip(ctx.chunks, ctx.random, grad_output.split(sizes), strict=True):
            for place, gradient in enumerate(_Cached._chunk_gradients(ctx, rows, random, grad)):
                if gradient is not None:
                    total = totals[place]
                    totals[place] = gradient if total is None else total.add_(gradient)
        return None, None, *totals

    @staticmethod
    def _chunk_gradients(ctx, rows: tuple[Tensor, ...], random: tuple, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the parameters from one chunk; its graph lives no longer than this."""
        with _replayed(*random), torch.enable_grad(), torch.autocast(ctx.device, *ctx.autocast):
            embeddings = ctx.function(*rows)
        return torch.autograd.grad(embeddings, ctx.parameters, grad.to(embeddings), allow_unused=True)


@contextmanager
def _replayed(cpu_state: Tensor, device_states: tuple[list[int], list[Tensor]]) -> Iterator[None]:
    """Random numbers as they were, and afterwards as they are."""
    devices, states = device_states
    with torch.random.fork_rng(devices=devices):
        torch.set_rng_state(cpu_state)
        set_device_states(devices, states)
        yield
