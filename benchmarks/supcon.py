"""Race: supervised contrastive loss, forward and backward, against pytorch-metric-learning.

    python -m benchmarks.supcon [--threads 1]

Both get the same raw embeddings and normalise them; times in turn in one process, memory in one process a case.
"""

from __future__ import annotations

import argparse
import functools
import platform
from collections.abc import Callable

import torch
import torch.nn.functional as F
from tabulate import tabulate
from torch import Tensor

from benchmarks._measure import extra_peak_mib, in_own_process, paired_milliseconds, ratio, spread
from losses import supervised_contrastive

DIMENSION, CLASSES, TAU = 128, 23, 0.1
REPEATS = {128: 300, 512: 50, 2048: 10, 8192: 5}
OURS, PEER = "kontrast", "pytorch-metric-learning"


def cases(size: int) -> dict[str, Callable[[], torch.Tensor]]:
    """{implementation: one forward and backward, which returns the gradient}."""
    from pytorch_metric_learning.losses import SupConLoss

    generator = torch.Generator().manual_seed(0)
    raw = torch.randn(size, DIMENSION, generator=generator, requires_grad=True)
    labels = torch.randint(CLASSES, (size,), generator=generator)
    peer = SupConLoss(temperature=TAU)
    losses = {
        OURS: lambda: supervised_contrastive(F.normalize(raw, dim=1), labels, TAU),
        PEER: lambda: peer(raw, labels),
    }

    def gradient(loss: Callable[[], Tensor]) -> Tensor:
        return torch.autograd.grad(loss(), raw)[0]

    return {name: functools.partial(gradient, loss) for name, loss in losses.items()}


def check_equal(size: int) -> None:
    """Ends the race where the two do not give the same gradient."""
    ours, peer = (case() for case in cases(size).values())
    difference = ((ours - peer).norm() / peer.norm()).item()
    if difference > 1e-4:
        raise SystemExit(f"gradients differ by {difference:.1e} at B = {size}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory-of", nargs=2, metavar=("CASE", "B"), help="print one case's extra peak MiB")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.memory_of:
        name, size = arguments.memory_of
        cases(128)[name]()  # libraries' own first-call memory is no case's
        print(extra_peak_mib(cases(int(size))[name]))
        return

    check_equal(512)
    table = []
    for size, repeats in REPEATS.items():
        times = paired_milliseconds(cases(size), repeats, warm_up=1 if size > 2048 else 3)
        memory = {
            name: float(
                in_own_process("benchmarks.supcon", "--threads", str(arguments.threads), "--memory-of", name, str(size))
            )
            for name in times
        }
        for name in times:
            table.append([size, name, spread(times[name]), f"{memory[name]:.1f}", "", ""])
        table[-2][4:] = (
            ratio(times[PEER], times[OURS]),
            f"{memory[PEER] / memory[OURS]:.0f}" if memory[OURS] > 1 else "",
        )
    print(f"torch {torch.__version__}, {arguments.threads} thread(s), {platform.machine()}, d = {DIMENSION}, float32")
    headers = ["B", "loss", "ms: median (min to max)", "peak MiB", "times faster", "times less memory"]
    print(tabulate(table, headers, tablefmt="github"))


if __name__ == "__main__":
    main()
