"""Race: one SharpReCL step (rebalanced sets, loss, backward) against loops over classes.

    python -m benchmarks.sharprecl_step [--threads 1]

The loops are written plainly from the paper (eqs. 8-11): sets are drawn class by class; the loss compares each anchor
with the sets of all classes and keeps its own (`all columns`, as published), or goes class by class with own columns.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable

import torch
import torch.nn.functional as F
from tabulate import tabulate
from torch import Tensor

from benchmarks._measure import extra_peak_mib, in_own_process, paired_milliseconds, ratio, spread
from losses import SharpReCLLoss, class_weights, draw_samples

TEXTS, DIMENSION, N_POS, N_NEG, K, HARD_RATIO, TAU = 128, 100, 10, 500, 20, 0.5, 0.5
REPEATS = {6: 40, 23: 30, 52: 20}
OURS = "kontrast"
PEERS = ("loop, all columns", "loop, own columns")


def batch(num_classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """(raw rows with gradient (M, D), labels (M,), class_counts (C,)), labels long-tailed, two views, prototypes."""
    generator = torch.Generator().manual_seed(0)
    share = 1 / torch.arange(1, num_classes + 1)
    texts = torch.multinomial(share, TEXTS, replacement=True, generator=generator)
    labels = torch.cat((texts, texts, torch.arange(num_classes)))
    raw = torch.randn(len(labels), DIMENSION, generator=generator, requires_grad=True)
    return raw, labels, (5000 * share / share.sum()).long() + 1


def sets_by_loop(z: Tensor, labels: Tensor, num_classes: int) -> tuple[list[Tensor], list[Tensor]]:
    """Eqs. 8-10, one class after the other: lists of (n_pos, D) and (n_neg, D)."""
    beta = torch.distributions.Beta(0.5, 0.5)

    def draw(candidates: Tensor, scores: Tensor, count: int) -> Tensor:
        num_hard = int(HARD_RATIO * count)
        simple = candidates[torch.randint(len(candidates), (count - num_hard,))]
        hardest = candidates[scores.topk(min(K, len(candidates))).indices]
        first, second = (hardest[torch.randint(len(hardest), (num_hard,))] for _ in range(2))
        alpha = beta.sample((num_hard, 1))
        return torch.cat((simple, F.normalize(alpha * first + (1 - alpha) * second, dim=1)))

    positives, negatives = [], []
    for c in range(num_classes):
        prototype = z[len(z) - num_classes + c]
        members, others = z[labels == c], z[labels != c]
        positives.append(draw(members, -(members @ prototype).detach(), N_POS))
        negatives.append(draw(others, (others @ prototype).detach(), N_NEG))
    return positives, negatives


def loss_all_columns(z: Tensor, labels: Tensor, positives: list, negatives: list, weights: Tensor) -> Tensor:
    """Eq. 11 (mean reading): similarities to the sets of all classes, of which each anchor keeps its own."""
    num_classes, size = len(positives), len(z)
    to_positives = (z @ torch.cat(positives).T).view(size, num_classes, N_POS)[torch.arange(size), labels]
    to_negatives = (z @ torch.cat(negatives).T).view(size, num_classes, N_NEG)[torch.arange(size), labels]
    itself = torch.eye(size, dtype=torch.bool)
    logits = torch.cat(((z @ z.T).masked_fill(itself, -torch.inf), to_positives, to_negatives), 1) / TAU
    same_class = (labels[:, None] == labels) & ~itself
    mask = torch.cat((same_class, torch.ones(size, N_POS), torch.zeros(size, N_NEG)), 1).bool()
    log_p = logits.log_softmax(1).masked_fill(~mask, 0)
    return (weights[labels] * -log_p.sum(1) / mask.sum(1)).mean()


def loss_own_columns(z: Tensor, labels: Tensor, positives: list, negatives: list, weights: Tensor) -> Tensor:
    """Eq. 11 (mean reading), one class of anchors after the other."""
    total = z.new_zeros(())
    for c in range(len(positives)):
        rows = (labels == c).nonzero()[:, 0]
        itself = rows[:, None] == torch.arange(len(z))
        logits = (z[rows] @ torch.cat((z, positives[c], negatives[c])).T) / TAU
        mask = torch.zeros_like(logits, dtype=torch.bool)
        mask[:, : len(z)] = (labels == c) & ~itself
        mask[:, len(z) : len(z) + N_POS] = True
        logits = torch.cat((logits[:, : len(z)].masked_fill(itself, -torch.inf), logits[:, len(z) :]), 1)
        log_p = logits.log_softmax(1).masked_fill(~mask, 0)
        total = total + weights[c] * (-log_p.sum(1) / mask.sum(1)).sum()
    return total / len(z)


def cases(num_classes: int) -> dict[str, Callable[[], Tensor]]:
    """{implementation: one step, which returns the gradient}."""
    raw, labels, class_counts = batch(num_classes)
    weights = class_weights(class_counts, "effective_number").float()
    loss = SharpReCLLoss(TAU)
    generator = torch.Generator().manual_seed(0)

    def ours() -> Tensor:
        z = F.normalize(raw, dim=1)
        samples = draw_samples(z, labels, num_classes, K, N_POS, N_NEG, HARD_RATIO, generator=generator)
        return torch.autograd.grad(loss.from_samples(z, labels, samples, class_counts), raw)[0]

    def loop(loss_function: Callable[..., Tensor]) -> Tensor:
        z = F.normalize(raw, dim=1)
        value = loss_function(z, labels, *sets_by_loop(z, labels, num_classes), weights)
        return torch.autograd.grad(value, raw)[0]

    return {OURS: ours, PEERS[0]: lambda: loop(loss_all_columns), PEERS[1]: lambda: loop(loss_own_columns)}


def check_equal(num_classes: int) -> None:
    """Ends the race where the losses differ on the same sets."""
    raw, labels, class_counts = batch(num_classes)
    z = F.normalize(raw.detach().double(), dim=1)
    samples = draw_samples(z, labels, num_classes, K, N_POS, N_NEG, HARD_RATIO)
    sets = [list(part) for part in samples.sets(z)]
    weights = class_weights(class_counts, "effective_number")
    expected = SharpReCLLoss(TAU).from_samples(z, labels, samples, class_counts)
    loops: list[Callable[..., Tensor]] = [loss_all_columns, loss_own_columns]
    for loss in loops:
        difference = (loss(z, labels, *sets, weights) - expected).abs().item()
        if difference > 1e-9:
            raise SystemExit(f"{loss.__name__} differs by {difference:.1e} at C = {num_classes}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory-of", nargs=2, metavar=("CASE", "C"), help="print one case's extra peak MiB")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    if arguments.memory_of:
        name, num_classes = arguments.memory_of
        cases(2)[name]()  # libraries' own first-call memory is no case's
        print(extra_peak_mib(cases(int(num_classes))[name]))
        return

    table = []
    for num_classes, repeats in REPEATS.items():
        check_equal(num_classes)
        times = paired_milliseconds(cases(num_classes), repeats)
        for name in times:
            memory = in_own_process(
                "benchmarks.sharprecl_step",
                *("--threads", str(arguments.threads), "--memory-of", name, str(num_classes)),
            )
            faster = "" if name == OURS else ratio(times[name], times[OURS])
            table.append([num_classes, name, spread(times[name]), f"{float(memory):.1f}", faster])
    print(
        f"torch {torch.__version__}, {arguments.threads} thread(s), {platform.machine()}, {TEXTS} texts x 2 views, "
        f"d = {DIMENSION}, n_pos {N_POS}, n_neg {N_NEG}, float32"
    )
    headers = ["C", "step", "ms: median (min to max)", "peak MiB", "kontrast is times faster"]
    print(tabulate(table, headers, tablefmt="github"))


if __name__ == "__main__":
    main()
