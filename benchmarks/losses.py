"""Race: every contrastive loss, forward and backward, against its formula written plainly.

    python -m benchmarks.losses [--threads 1] [--sizes 128 512 2048]

The plain form goes anchor by anchor, with exponentials, sums and logarithms as they are printed; where
pytorch-metric-learning has the loss it races too (its NT-Xent at B = 128 alone: at 512 a pass takes a minute). Values
must agree to 1e-4 before anything is timed. SharpReCL's step has a race of its own (`benchmarks.sharprecl_step`), and
so has supervised contrast at B = 8192 (`benchmarks.supcon`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
import torch.nn.functional as F
from tabulate import tabulate
from torch import Tensor

from benchmarks._measure import paired_milliseconds, ratio, spread
from losses import (
    ACLLoss,
    BalancedContrastiveLoss,
    DualContrastiveLoss,
    InfoNCELoss,
    ParametricContrastiveLoss,
    SimCSELoss,
    SupervisedContrastiveLoss,
    SupervisedPrototypicalContrastiveLoss,
    TargetedContrastiveLoss,
)

DIMENSION, CLASSES, QUEUE, TAU = 128, 23, 1024, 0.1
PACO_WEIGHT = 0.05  # of a positive pair, beside 1 of the class's centre
REPEATS = {128: 10, 512: 5, 2048: 3}
Loss = Callable[[], Tensor]


class Batch:
    """Unit rows of a batch of two views, with labels, class vectors and a queue."""

    def __init__(self, size: int) -> None:
        generator = torch.Generator().manual_seed(0)

        def unit(rows: int) -> Tensor:
            return F.normalize(torch.randn(rows, DIMENSION, generator=generator), dim=1)

        self.raw = unit(size).requires_grad_()
        self.labels = torch.randint(CLASSES, (size,), generator=generator)
        self.keys, self.centres, self.queue = unit(size), unit(CLASSES), unit(QUEUE)
        self.queue_labels = torch.randint(CLASSES, (QUEUE,), generator=generator)
        self.counts, self.classes = torch.arange(CLASSES, 0, -1) * 10, torch.arange(CLASSES)
        self.logits = torch.randn(size, CLASSES, generator=generator)
        self.generator = generator

    def rows(self) -> list[tuple[Tensor, Tensor, Tensor, int]]:
        """For each anchor: itself, the others, whether they are of its class, its class."""
        everyone = torch.arange(len(self.raw))
        return [
            (self.raw[i], self.raw[everyone != i], self.labels[everyone != i] == self.labels[i], int(self.labels[i]))
            for i in range(len(self.raw))
        ]


def mean(values: list[Tensor]) -> Tensor:
    return torch.stack(values).mean()


def plain_scl(b: Batch) -> Tensor:
    values = []
    for z, others, positive, _ in b.rows():
        if positive.any():
            e = (others @ z / TAU).exp()
            values.append(-(e / e.sum()).log()[positive].mean())
    return mean(values)


def plain_info_nce(b: Batch) -> Tensor:
    both, values = torch.cat([b.raw, b.keys]), []
    for i in range(len(both)):
        e = (both @ both[i] / TAU).exp()
        values.append(-(e[(i + len(b.raw)) % len(both)] / (e.sum() - e[i])).log())
    return mean(values)


def plain_simcse(b: Batch) -> Tensor:
    values = []
    for i, z in enumerate(b.raw):
        e = (b.keys @ z / TAU).exp()
        values.append(-(e[i] / e.sum()).log())
    return mean(values)


def plain_bcl(b: Batch) -> Tensor:
    values = []
    for i, (z, others, _, y) in enumerate(b.rows()):
        labels = torch.cat([b.labels[torch.arange(len(b.raw)) != i], b.classes])
        e = (torch.cat([others, b.centres]) @ z / TAU).exp()
        total = sum(e[labels == c].mean() for c in range(CLASSES))
        values.append(-(e / total).log()[labels == y].mean())
    return mean(values)


def plain_acl(b: Batch) -> Tensor:
    weights, values = 1 / b.counts.float(), []
    weights = weights / weights.mean()
    for i, (z, others, _, y) in enumerate(b.rows()):
        labels = torch.cat([b.labels[torch.arange(len(b.raw)) != i], b.classes])
        e = (torch.cat([others, b.centres]) @ z / TAU).exp()
        repelled = (weights[labels] * e)[labels != y].sum()
        values.append(-(e / (e + repelled)).log()[labels == y].mean())
    return mean(values)


def plain_spcl(b: Batch) -> Tensor:
    values = []
    for i, (z, others, _, y) in enumerate(b.rows()):
        labels = torch.cat([b.labels[torch.arange(len(b.raw)) != i], b.classes])
        e = (((1 + torch.cat([others, b.centres]) @ z) / 2 + 1e-8) / TAU).exp()
        values.append(-(e[labels == y].mean() / e.sum()).log())
    kept = torch.stack(values)
    return kept[kept > 0.3].mean()


def plain_dualcl(b: Batch) -> Tensor:
    everyone, halves = torch.arange(len(b.raw)), []
    for anchors, keys in ((b.keys, b.raw), (b.raw, b.keys)):
        values = []
        for i, z in enumerate(anchors):
            e = (keys[everyone != i] @ z / TAU).exp()
            positive = b.labels[everyone != i] == b.labels[i]
            if positive.any():
                values.append(-(e / e.sum()).log()[positive].mean())
        halves.append(mean(values))
    return mean(halves)


def plain_paco(b: Batch) -> Tensor:
    prior, values = (b.counts / b.counts.sum()).log(), []
    for i, (z, others, positive, y) in enumerate(b.rows()):
        same = torch.cat([positive, b.queue_labels == y])
        e, f = (torch.cat([others, b.queue]) @ z / TAU).exp(), (b.logits[i] + prior).exp()
        total = e.sum() + f.sum()
        sums = -(f[y] / total).log() - PACO_WEIGHT * (e / total).log()[same].sum()
        values.append(sums / (1 + PACO_WEIGHT * same.sum()))
    return mean(values)


def plain_tsc(b: Batch) -> Tensor:
    values = []
    for i, z in enumerate(b.raw):
        y = int(b.labels[i])
        e, own, t = (b.queue @ z / TAU).exp(), (b.keys[i] @ z / TAU).exp(), (b.centres @ z / TAU).exp()
        total, positive = e.sum() + own + t.sum(), b.queue_labels == y
        logs = (own / total).log() + (e / total).log()[positive].sum() + 0.2 * (t[y] / total).log()
        values.append(-logs / (positive.sum() + 2))
    return mean(values)


def contestants(b: Batch) -> dict[str, dict[str, Loss]]:
    """{loss: {ours, plain, and perhaps a peer}}, each a forward pass."""
    from pytorch_metric_learning.losses import NTXentLoss, SupConLoss

    z, y, seen = b.raw, b.labels, torch.ones(CLASSES, dtype=torch.bool)
    pml, nt_xent, texts = SupConLoss(temperature=TAU), NTXentLoss(temperature=TAU), torch.arange(len(z)).repeat(2)
    scl, info_nce, simcse = SupervisedContrastiveLoss(TAU), InfoNCELoss(TAU), SimCSELoss(TAU)
    bcl, acl = BalancedContrastiveLoss(TAU), ACLLoss(TAU)
    spcl, dualcl = SupervisedPrototypicalContrastiveLoss(TAU), DualContrastiveLoss(TAU)
    paco, tsc = ParametricContrastiveLoss(TAU, PACO_WEIGHT), TargetedContrastiveLoss(TAU, num_positives=0)
    races: dict[str, dict[str, Loss]] = {
        "scl": {"ours": lambda: scl(z, y), "plain": lambda: plain_scl(b), "peer": lambda: pml(z, y)},
        "info_nce": {"ours": lambda: info_nce(z, b.keys), "plain": lambda: plain_info_nce(b)},
        "simcse": {"ours": lambda: simcse(z, b.keys), "plain": lambda: plain_simcse(b)},
        "bcl": {"ours": lambda: bcl(z, y, b.centres), "plain": lambda: plain_bcl(b)},
        "acl": {"ours": lambda: acl(z, y, b.centres, seen, b.counts), "plain": lambda: plain_acl(b)},
        "spcl": {"ours": lambda: spcl(z, y, b.centres, b.classes), "plain": lambda: plain_spcl(b)},
        "dualcl": {"ours": lambda: dualcl(z, b.keys, y), "plain": lambda: plain_dualcl(b)},
        "paco": {
            "ours": lambda: paco(z, b.logits, y, b.queue, b.queue_labels, b.counts),
            "plain": lambda: plain_paco(b),
        },
        "tsc": {
            "ours": lambda: tsc(z, y, b.keys, b.queue, b.queue_labels, b.centres, b.generator),
            "plain": lambda: plain_tsc(b),
        },
    }
    if len(z) == min(REPEATS):
        races["info_nce"]["peer"] = lambda: nt_xent(torch.cat([z, b.keys]), texts)
    return races


def with_backward(loss: Loss, leaf: Tensor) -> Callable[[], Tensor]:
    return lambda: torch.autograd.grad(loss(), leaf)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(REPEATS))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    table = []
    for size in options.sizes:
        batch = Batch(size)
        for name, losses in contestants(batch).items():
            values = {who: loss().item() for who, loss in losses.items()}
            if max(values.values()) - min(values.values()) > 1e-4 * max(1.0, abs(values["plain"])):
                raise SystemExit(f"{name}, B = {size}: values differ: {values}")
            cases = {who: with_backward(loss, batch.raw) for who, loss in losses.items()}
            times = paired_milliseconds(cases, REPEATS.get(size, 3), warm_up=1)
            peer = ratio(times["peer"], times["ours"]) if "peer" in times else ""
            table.append((name, size, spread(times["ours"]), ratio(times["plain"], times["ours"]), peer))
    header = ("loss", "B", "ours, ms", "formula anchor by anchor, times", "pytorch-metric-learning, times")
    print(tabulate(table, headers=header, tablefmt="github"))


if __name__ == "__main__":
    main()
