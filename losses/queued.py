"""What contrast of queries with their own keys and a queue has in common."""

from __future__ import annotations

import torch
from torch import Tensor

from losses.arguments import check_rows


def key_and_queue_logits(
    queries: Tensor, labels: Tensor, keys: Tensor, queue: Tensor, queue_labels: Tensor, tau: float
) -> tuple[Tensor, Tensor]:
    """z.z / tau of each query (B, D) with its own key (B, D) and with every row of the queue (Q, D).

    Source: He et al. (CVPR 2020), eq. 1.

    Returns:
        (B,) and (B, Q).

    Raises:
        ValueError: shapes that do not fit.
    """
    check_rows("queries", queries, labels)
    check_rows("queue", queue, queue_labels)
    if keys.shape != queries.shape:
        raise ValueError(f"keys must be {tuple(queries.shape)} as the queries, got {tuple(keys.shape)}")
    return (queries * keys.to(queries)).sum(1) / tau, queries @ queue.to(queries).T / tau


def drawn_positives(same_class: Tensor, number: int, generator: torch.Generator | None) -> Tensor:
    """Of the True columns of each row (B, Q) `number` at random, all where there are no more; 0 takes all.

    Source: Kang et al. (ICLR 2021), section 3.3.

    Raises:
        ValueError: no generator where one is needed.
    """
    drawn = min(number, same_class.shape[1])
    if not drawn:
        return same_class
    if generator is None:
        raise ValueError(f"generator must be given for num_positives={number}")
    score = torch.rand(same_class.shape, generator=generator, device=same_class.device)
    sampled = score.masked_fill(~same_class, -1.0).topk(drawn, dim=1).indices
    return torch.zeros_like(same_class).scatter_(1, sampled, True) & same_class
