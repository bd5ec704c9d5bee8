"""Targeted supervised contrast: classes are drawn to targets spread evenly over the sphere."""

from __future__ import annotations

from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from losses.arguments import check_not_negative, check_tau, full_precision
from losses.log_sum_exp import masked_log_sum_exp
from losses.queued import drawn_positives, key_and_queue_logits


def uniformity(points: Tensor, tau: float = 0.07) -> Tensor:
    """1/C sum_i log sum_j e^{t_i.t_j / tau} of unit rows (C, D): the lower, the more evenly they are spread.

    Source: Li et al. (CVPR 2022), section 3.2; Wang and Isola (ICML 2020).
    """
    return (points @ points.T / check_tau(tau)).logsumexp(1).mean()


def uniform_targets(
    num_classes: int, dimension: int, generator: torch.Generator, tau: float = 0.07, steps: int = 1000
) -> Tensor:
    """Unit rows (C, D) that minimise :func:`uniformity`, float32 on the CPU; made once, before training.

    For C <= D + 1 the minimum is the regular simplex, all cosines -1/(C - 1). Adam from normal draws; the same
    generator state gives the same bits. Source: Li et al. (CVPR 2022), section 3.2.

    Args:
        num_classes: C, >= 1.
        dimension: D, >= 1.
        generator: of the start.
        tau: temperature of the objective, > 0 (published: 0.07).
        steps: of Adam (published: 10 000, at a hundredth of this rate).

    Raises:
        ValueError: an argument out of range.
    """
    check_tau(tau)
    for name, value in {"num_classes": num_classes, "dimension": dimension, "steps": steps}.items():
        if value < 1:
            raise ValueError(f"{name} must be >= 1, got {value}")
    points = torch.randn(num_classes, dimension, generator=generator, dtype=torch.float64).requires_grad_()
    optimizer = torch.optim.Adam([points], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    with torch.enable_grad():
        for _ in range(steps if num_classes > 1 else 0):
            optimizer.zero_grad()
            _log_excess(F.normalize(points, dim=1), tau).backward()
            optimizer.step()
            schedule.step()
    return F.normalize(points.detach(), dim=1).float()


def _log_excess(points: Tensor, tau: float) -> Tensor:
    """log(uniformity - 1/tau): the same minimum, and gradients that do not drown in a row's own term e^{1/tau}."""
    others = (points @ points.T / tau).fill_diagonal_(-torch.inf).logsumexp(1)
    return F.softplus(others - 1 / tau, threshold=40).mean().log()


class TargetedContrastiveLoss(nn.Module):
    """Each query against its own key, a queue and all targets.

    L_i = -( log q_i,key + sum_{p in P_i} log q_ip + target_weight log q_i,target(y_i) ) / (|P_i| + 2), q the softmax of
    z.z/tau over the own key, the queue and the targets; P_i are num_positives rows of i's class drawn from the queue
    (all, where it holds fewer). Rows of the class that are not drawn stay in the denominator.
    Source: Li et al. (CVPR 2022), eq. 4, over k-positive contrast (Kang et al., ICLR 2021); its published code for
    the divisor.

    Args:
        tau: temperature, > 0.
        num_positives: drawn from the queue for each query; 0 takes all of the class.
        target_weight: of the own target, >= 0 (published code: 0.2).

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(
        self,
        tau: Annotated[float, "> 0", "with method.representation_share>0"] = 0.07,
        num_positives: Annotated[int, ">= 0", "with method.queue_size>0"] = 6,
        target_weight: Annotated[float, ">= 0", "with method.representation_share>0"] = 0.2,
    ) -> None:
        super().__init__()
        self.tau = check_tau(tau)
        self.num_positives = check_not_negative("num_positives", num_positives)
        self.target_weight = check_not_negative("target_weight", target_weight)

    @full_precision
    def forward(
        self,
        queries: Tensor,
        labels: Tensor,
        keys: Tensor,
        queue: Tensor,
        queue_labels: Tensor,
        targets: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The loss of a batch; its largest tensor is B x queue, or B x C where that is more.

        Args:
            queries: (B, D) L2-normalised.
            labels: (B,) in [0, C).
            keys: (B, D) L2-normalised: the same texts by the momentum encoder.
            queue: (Q, D) L2-normalised; Q may be 0.
            queue_labels: (Q,).
            targets: (C, D) L2-normalised, row c the target of class c.
            generator: of the drawn positives; needed where num_positives > 0.

        Returns:
            Scalar; 0 with zero gradient for an empty batch.

        Raises:
            ValueError: shapes that do not fit, or no generator where one is needed.
        """
        key_logits, queue_logits = key_and_queue_logits(queries, labels, keys, queue, queue_labels, self.tau)
        target_logits = queries @ targets.to(queries).T / self.tau
        in_queue = masked_log_sum_exp(queue_logits, torch.ones_like(queue_logits, dtype=torch.bool))
        log_total = torch.logaddexp(torch.logaddexp(key_logits, target_logits.logsumexp(1)), in_queue)

        positive = drawn_positives(labels[:, None] == queue_labels, self.num_positives, generator)
        number = positive.sum(1)
        positive_terms = queue_logits.masked_fill(~positive, 0.0).sum(1) - number * log_total
        target_terms = target_logits.gather(1, labels[:, None]).squeeze(1) - log_total
        values = (key_logits - log_total + positive_terms + self.target_weight * target_terms) / (number + 2)
        return -values.sum() / max(1, len(values))
