"""The losses as naive loops straight from the formulas: slow, and with nothing shared with what they check."""

import torch
from torch import Tensor


def supervised_contrastive_per_anchor(z: Tensor, labels: list[int], tau: float) -> list[Tensor | None]:
    """Khosla et al., eq. 2: one value an anchor, None where the anchor has no positive."""
    values = []
    for i in range(len(z)):
        positives = [p for p in range(len(z)) if p != i and labels[p] == labels[i]]
        if not positives:
            values.append(None)
            continue
        denominator = sum(torch.exp(z[i] @ z[k] / tau) for k in range(len(z)) if k != i)
        terms = [-torch.log(torch.exp(z[i] @ z[p] / tau) / denominator) for p in positives]
        values.append(sum(terms) / len(positives))
    return values


def supervised_contrastive(z: Tensor, labels: list[int], tau: float) -> Tensor:
    values = [value for value in supervised_contrastive_per_anchor(z, labels, tau) if value is not None]
    return sum(values) / len(values)


def info_nce(a: Tensor, b: Tensor, tau: float, batch: str) -> Tensor:
    """SharpReCL, eq. 1, summed over anchors."""
    anchors = torch.cat((a, b)) if batch == "views" else a
    partner = torch.cat((b, a))
    total = 0.0
    for i in range(len(anchors)):
        denominator = sum(torch.exp(anchors[i] @ anchors[k] / tau) for k in range(len(anchors)) if k != i)
        total = total - torch.log(torch.exp(anchors[i] @ partner[i] / tau) / denominator) / len(anchors)
    return total


def sharprecl_per_anchor(
    z: Tensor,
    labels: list[int],
    positives: Tensor,
    negatives: Tensor,
    weights: list[float],
    tau: float,
    synthetic_positives_in_denominator: bool,
    printed_normaliser: bool,
) -> list[Tensor]:
    """SharpReCL, eq. 11: one value an anchor."""
    values = []
    for i in range(len(z)):
        y = labels[i]
        others = [z[k] for k in range(len(z)) if k != i]
        targets = [*positives[y], *(z[k] for k in range(len(z)) if k != i and labels[k] == y)]
        columns = [*negatives[y], *others, *(positives[y] if synthetic_positives_in_denominator else ())]
        denominator = sum(torch.exp(z[i] @ k / tau) for k in columns)
        terms = [-torch.log(torch.exp(z[i] @ p / tau) / denominator) for p in targets]
        values.append(weights[y] * sum(terms) / (len(z) if printed_normaliser else len(targets)))
    return values


def hard_sets(z: Tensor, labels: list[int], c: int, num_classes: int, K: int) -> tuple[list[int], list[int]]:
    """SharpReCL, eq. 9: (least similar members, most similar non-members) of class c by its prototype."""
    prototype = z[len(z) - num_classes + c]
    similarity = (z @ prototype).tolist()
    members = sorted((i for i in range(len(z)) if labels[i] == c), key=lambda i: similarity[i])
    others = sorted((i for i in range(len(z)) if labels[i] != c), key=lambda i: -similarity[i])
    return members[:K], others[:K]
