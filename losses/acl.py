"""Aligned contrastive loss for long-tailed classes: every positive attracts, weighted negatives repel."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from losses.arguments import check_choice, check_rows, check_share, check_tau, full_precision
from losses.log_sum_exp import masked_log_sum_exp

NegativeWeight = Literal["none", "inverse_frequency", "mean_one_classes", "mean_one_negatives", "batch_count"]
Denominator = Literal["effective_positive", "all_positives"]


def views_of_classes(
    class_counts: Tensor, many: int, medium: int, few: int, many_above: int = 100, few_below: int = 20
) -> Tensor:
    """Views of each class: ``many`` above ``many_above`` rows, ``few`` below ``few_below``, else ``medium``.

    Source: ACL, section 6.2 (2, 3 and 4 views; >100, 20 to 100, <20 rows). (C,) counts -> (C,) int64.

    Raises:
        ValueError: few_below > many_above + 1, so that a class would belong to two groups.
    """
    if few_below > many_above + 1:
        raise ValueError(f"few_below must be <= many_above + 1 = {many_above + 1}, got {few_below}")
    views = torch.full_like(class_counts, medium, dtype=torch.long)
    return views.masked_fill(class_counts > many_above, many).masked_fill(class_counts < few_below, few)


@full_precision
@torch.no_grad()
def updated_centres(
    centres: Tensor, is_seen: Tensor, embeddings: Tensor, labels: Tensor, momentum: float = 0.9
) -> tuple[Tensor, Tensor]:
    """Class centres after a batch: c <- normalise(momentum c + (1 - momentum) mean of the class's embeddings).

    A class seen for the first time takes the direction of its mean; one absent from the batch keeps its centre.
    Source: ACL, section 5, which gives neither the momentum nor a normalisation.

    Args:
        centres: (C, D), unit rows, or 0 where not seen.
        is_seen: (C,) bool.
        embeddings: (B, D) L2-normalised.
        labels: (B,) in [0, C).
        momentum: in [0, 1).

    Returns:
        New centres (C, D) and is_seen (C,); the arguments stay as they are.

    Raises:
        ValueError: momentum outside [0, 1) or shapes that do not fit.
    """
    check_share("momentum", momentum, may_be_1=False)
    check_rows("embeddings", embeddings, labels)
    count = labels.bincount(minlength=len(centres))
    mean = torch.zeros_like(centres).index_add(0, labels, embeddings.to(centres)) / count.clamp_min(1)[:, None]
    moved = F.normalize(momentum * centres + (1 - momentum) * mean, dim=1)
    return torch.where(count[:, None] > 0, moved, centres), is_seen | (count > 0)


class ACLLoss(nn.Module):
    """Aligned contrastive loss over a batch (B, D) and class centres (C, D).

    L_i = -1/(|P_i|+1) sum_{p in P_i u {c_y}} log( e^{s_ip} / (e^{s_ip} + sum_{n in N_i} w_n e^{s_in}) ), s = z.z/tau,
    with P_i the other rows of i's class, c_y its centre, and N_i the rows and centres of all other classes; averaged
    over the anchors that have a positive. Centres are never anchors, get no gradient, and take part once seen.
    Source: ACL (Ma et al., 2025), eq. 9.

    Args:
        tau: temperature, > 0 (not given in the paper).
        negative_weight: w_n; the paper says only "inversely proportional to the class frequency". With N_c training
            rows: ``inverse_frequency`` 1/N_c; ``mean_one_classes`` the same over its mean over all classes;
            ``mean_one_negatives`` over its mean over the anchor's negatives; ``batch_count`` 1 over the members of
            the class in the batch, its centre included; ``none`` 1.
        denominator: ``effective_positive`` (eq. 9), or ``all_positives`` of the anchor, as in supervised contrast
            (eq. 1), where an easy positive is pushed away.
        with_centres: without, ``all_positives`` and ``none`` give eq. 1.

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(
        self,
        tau: Annotated[float, "> 0"] = 0.2,
        negative_weight: NegativeWeight = "mean_one_classes",
        denominator: Denominator = "effective_positive",
        with_centres: bool = True,
    ) -> None:
        super().__init__()
        self.tau = check_tau(tau)
        self.negative_weight = check_choice("negative_weight", negative_weight, get_args(NegativeWeight))
        self.denominator = check_choice("denominator", denominator, get_args(Denominator))
        self.with_centres = with_centres

    @full_precision
    def forward(
        self, embeddings: Tensor, labels: Tensor, centres: Tensor, is_seen: Tensor, class_counts: Tensor
    ) -> Tensor:
        """The loss of a batch.

        Args:
            embeddings: (B, D) L2-normalised, all views that take part.
            labels: (B,) in [0, C).
            centres: (C, D) L2-normalised where seen.
            is_seen: (C,) bool.
            class_counts: (C,) training rows of each class, each >= 1.

        Returns:
            Scalar >= 0; 0 with zero gradient where no anchor has a positive.
        """
        keys, key_labels = self._keys(embeddings, labels, centres, is_seen)
        return self._loss_from_logits(embeddings @ keys.T / self.tau, labels, key_labels, class_counts)

    @full_precision
    def pair_gradients(
        self, embeddings: Tensor, labels: Tensor, centres: Tensor, is_seen: Tensor, class_counts: Tensor
    ) -> Tensor:
        """dL/d(z_i.z_k/tau) as (B, B): anchor i attracts row k where it is below 0 and repels it above.

        Arguments as in ``forward``. Source: ACL, eqs. 5 and 11, over the number of anchors.
        """
        with torch.enable_grad():
            keys, key_labels = self._keys(embeddings.detach(), labels, centres, is_seen)
            logits = (embeddings.detach() @ keys.T / self.tau).requires_grad_()
            loss = self._loss_from_logits(logits, labels, key_labels, class_counts)
            return torch.autograd.grad(loss, logits)[0][:, : len(labels)]

    def _keys(self, embeddings: Tensor, labels: Tensor, centres: Tensor, is_seen: Tensor) -> tuple[Tensor, Tensor]:
        """What anchors are compared with: rows, then the centres that take part; and their labels."""
        check_rows("embeddings", embeddings, labels)
        if centres.shape != (len(is_seen), embeddings.shape[1]):
            raise ValueError(
                f"centres must be ({len(is_seen)}, {embeddings.shape[1]}) for these embeddings and is_seen, "
                f"got {tuple(centres.shape)}"
            )
        if not self.with_centres:
            return embeddings, labels
        classes = is_seen.nonzero().squeeze(1)
        return torch.cat([embeddings, centres[classes].to(embeddings)]), torch.cat([labels, classes])

    def _loss_from_logits(self, logits: Tensor, labels: Tensor, key_labels: Tensor, class_counts: Tensor) -> Tensor:
        """Eq. 9 from similarities over tau, (B, B + centres)."""
        is_self = torch.eye(*logits.shape, dtype=torch.bool, device=logits.device)
        same_class = labels[:, None] == key_labels
        positive = same_class & ~is_self
        number = positive.sum(1)
        log_weight = self._log_weights(~same_class, key_labels, class_counts).to(logits)
        if self.denominator == "effective_positive":
            log_rest = masked_log_sum_exp(logits + log_weight, ~same_class)
            # -log(e^s / (e^s + R)) is softplus(log R - s): 0 for empty R; torch's default threshold costs 2e-9
            terms = F.softplus(log_rest[:, None] - logits, threshold=40)
        else:
            log_all = masked_log_sum_exp(logits + log_weight.masked_fill(same_class, 0.0), ~is_self)
            terms = log_all[:, None] - logits
        sums = terms.masked_fill(~positive, 0.0).sum(1)
        return (sums / number.clamp_min(1)).sum() / (number > 0).sum().clamp_min(1)

    def _log_weights(self, negative: Tensor, key_labels: Tensor, class_counts: Tensor) -> Tensor:
        """log w_n, broadcastable to (B, number of keys)."""
        if self.negative_weight == "none":
            return torch.zeros(1, len(key_labels), dtype=torch.float64, device=key_labels.device)
        if self.negative_weight == "batch_count":
            in_batch = key_labels.bincount(minlength=len(class_counts))
            return -in_batch[key_labels].double().log()[None]
        inverse = 1 / class_counts.double()
        weight = inverse[key_labels][None]
        if self.negative_weight == "mean_one_classes":
            weight = weight / inverse.mean()
        elif self.negative_weight == "mean_one_negatives":
            number = negative.sum(1, keepdim=True)
            mean = (weight * negative).sum(1, keepdim=True) / number.clamp_min(1)
            weight = weight / torch.where(number > 0, mean, 1.0)
        return weight.log()
