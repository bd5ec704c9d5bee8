"""k-positive contrast: as many positives for a row of a small class as for one of a large class."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import torch
from torch import Tensor, nn

from losses.arguments import check_choice, check_not_negative, check_tau, full_precision
from losses.log_sum_exp import masked_log_sum_exp
from losses.queued import drawn_positives, key_and_queue_logits

Surplus = Literal["kept", "removed"]


class KPositiveContrastiveLoss(nn.Module):
    """Each query against its own key and a queue, with num_positives rows of its class.

    L_i = -( log q_i,key + sum_{p in P_i} log q_ip ) / (|P_i| + 1), q the softmax of z.z/tau over the own key and the
    queue; P_i are num_positives rows of i's class drawn from the queue (all, where it holds fewer).
    Source: Kang et al. (ICLR 2021). Shapes: see `forward`.

    Args:
        tau: temperature, > 0.
        num_positives: k, drawn from the queue for each query; 0 takes all of the class.
        surplus: whether rows of the class that are not drawn are `kept` in the denominator, as printed, or `removed`,
            the second variant of the published code, which leaves them there as e^0.

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(
        self,
        tau: Annotated[float, "> 0", "with method.representation_share>0"] = 0.07,
        num_positives: Annotated[int, ">= 0", "with method.queue_size>0"] = 6,
        surplus: Annotated[Surplus, "with num_positives>0"] = "kept",
    ) -> None:
        super().__init__()
        self.tau, self.num_positives = check_tau(tau), check_not_negative("num_positives", num_positives)
        self.surplus = check_choice("surplus", surplus, get_args(Surplus))

    @full_precision
    def forward(
        self,
        queries: Tensor,
        labels: Tensor,
        keys: Tensor,
        queue: Tensor,
        queue_labels: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The loss of a batch; its largest tensor is B x queue.

        Args:
            queries: (B, D) L2-normalised.
            labels: (B,).
            keys: (B, D) L2-normalised: the same rows by the momentum encoder.
            queue: (Q, D) L2-normalised; Q may be 0.
            queue_labels: (Q,).
            generator: of the drawn positives; needed where num_positives > 0.

        Returns:
            Scalar; 0 with zero gradient for an empty batch.

        Raises:
            ValueError: shapes that do not fit, or no generator where one is needed.
        """
        key_logits, queue_logits = key_and_queue_logits(queries, labels, keys, queue, queue_labels, self.tau)
        same_class = labels[:, None] == queue_labels
        positive = drawn_positives(same_class, self.num_positives, generator)
        in_total = positive | ~same_class if self.surplus == "removed" else torch.ones_like(same_class)
        log_total = torch.logaddexp(key_logits, masked_log_sum_exp(queue_logits, in_total))
        number = positive.sum(1)
        positive_terms = queue_logits.masked_fill(~positive, 0.0).sum(1) - number * log_total
        values = (key_logits - log_total + positive_terms) / (number + 1)
        return -values.sum() / max(1, len(values))
