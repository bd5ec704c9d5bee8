"""Decoupled supervised contrast: the own key and the class pull with fixed shares; and distillation of patches."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional

from losses.arguments import check_not_negative, check_tau, full_precision
from losses.log_sum_exp import masked_log_sum_exp
from losses.queued import key_and_queue_logits


class DecoupledContrastiveLoss(nn.Module):
    """Each query (B, D) against its own key and a queue (Q, D), whatever the number of rows of its class in it.

    L_i = -( log q_i,key + b / |P_i| sum_{p in P_i} log q_ip ) / (1 + b), q the softmax of z.z/tau over the own key and
    the queue, P_i the rows of i's class in the queue. Without any the term of the own key stands alone, with the same
    share. Source: Xuan and Zhang (AAAI 2024); b as in its published code.

    Args:
        tau: temperature, > 0.
        positive_weight: b, >= 0, of the rows of the class beside 1 for the own key (published code: 8).

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(
        self,
        tau: Annotated[float, "> 0", "with method.representation_share>0"] = 0.07,
        positive_weight: Annotated[float, ">= 0", "with method.queue_size>0"] = 8.0,
    ) -> None:
        super().__init__()
        self.tau, self.positive_weight = check_tau(tau), check_not_negative("positive_weight", positive_weight)

    @full_precision
    def forward(self, queries: Tensor, labels: Tensor, keys: Tensor, queue: Tensor, queue_labels: Tensor) -> Tensor:
        """The loss of a batch; its largest tensor is B x queue.

        Args:
            queries: (B, D) L2-normalised.
            labels: (B,).
            keys: (B, D) L2-normalised: the same rows by the momentum encoder.
            queue: (Q, D) L2-normalised; Q may be 0.
            queue_labels: (Q,).

        Returns:
            Scalar; 0 with zero gradient for an empty batch.

        Raises:
            ValueError: shapes that do not fit.
        """
        key_logits, queue_logits = key_and_queue_logits(queries, labels, keys, queue, queue_labels, self.tau)
        positive = labels[:, None] == queue_labels
        log_total = torch.logaddexp(key_logits, masked_log_sum_exp(queue_logits, torch.ones_like(positive)))
        number = positive.sum(1)
        mean_positive = queue_logits.masked_fill(~positive, 0.0).sum(1) / number.clamp_min(1)
        positive_terms = (mean_positive - log_total).masked_fill(number == 0, 0.0)
        values = (key_logits - log_total + self.positive_weight * positive_terms) / (1 + self.positive_weight)
        return -values.sum() / max(1, len(values))


class PatchDistillationLoss(nn.Module):
    """Patches (R, D) of images shall be as near to their keys and a queue as the same regions of feature maps are.

    L = -1/R sum_r sum_j t_rj log p_rj, t the softmax of z.z/tau of region r, without gradient, and p that of patch r,
    over the image's own key and the queue. Source: patch-based self-distillation of Xuan and Zhang (AAAI 2024).
    Shapes: see `forward`.

    Args:
        tau: temperature of both, > 0.

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(self, tau: Annotated[float, "> 0"] = 0.07) -> None:
        super().__init__()
        self.tau = check_tau(tau)

    @full_precision
    def forward(self, patches: Tensor, regions: Tensor, keys: Tensor, queue: Tensor) -> Tensor:
        """The loss of R patches.

        Args:
            patches: (R, D) L2-normalised.
            regions: (R, D) L2-normalised, of the same places.
            keys: (R, D) L2-normalised, of the image that each lies in.
            queue: (Q, D) L2-normalised; Q may be 0.

        Returns:
            Scalar; 0 with zero gradient for no patches.

        Raises:
            ValueError: shapes that do not fit.
        """
        for name, rows in (("regions", regions), ("keys", keys)):
            if rows.shape != patches.shape:
                raise ValueError(f"{name} must be {tuple(patches.shape)} as the patches, got {tuple(rows.shape)}")
        targets = self._logits(regions.detach(), keys, queue).softmax(1)
        logits = self._logits(patches, keys, queue)
        return functional.cross_entropy(logits, targets, reduction="sum") / max(1, len(logits))

    def _logits(self, rows: Tensor, keys: Tensor, queue: Tensor) -> Tensor:
        own = (rows * keys.to(rows)).sum(1, keepdim=True)
        return torch.cat([own, rows @ queue.to(rows).T], dim=1) / self.tau
