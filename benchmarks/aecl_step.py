"""Race: AECL's cluster-level term and the whole loss of a stage-3 step, against the published way.

    python -m benchmarks.aecl_step [--threads 1] [--texts 400] [--clusters 152]

The published code computes the cosine of each pair of the 2M columns with `nn.CosineSimilarity(dim=2)` over
(2M, 1, N) and (1, 2M, N), which makes tensors of 2M x 2M x N. Values must agree to 1e-4 before anything is timed; a
pass is forward and backward.
"""

from __future__ import annotations

import argparse
import functools
import platform
from collections.abc import Callable

import torch
from tabulate import tabulate
from torch import Tensor, nn

from benchmarks._measure import extra_peak_mib, in_own_process, paired_milliseconds, ratio, spread
from losses import AECLLoss, ClusterContrastiveLoss

DIMENSION = 128
REPEATS = 10
WHOLE, TERM, PAIRWISE = "kontrast, whole stage-3 loss", "kontrast, cluster-level term", "pairwise cosine, the term"


def pairwise_cosine(logits: Tensor, tau: float) -> Tensor:
    """Eq. 10 and 11 with the positive in the denominator, over all pairs of columns at once."""
    columns = torch.cat([logits[0].softmax(1), logits[1].softmax(1)], dim=1).T
    number = logits.shape[2]
    similarity = nn.CosineSimilarity(dim=2)(columns[:, None], columns[None]) / tau
    positive = torch.cat([similarity.diagonal(number), similarity.diagonal(-number)])
    others = ~torch.eye(number, dtype=torch.bool).repeat(2, 2)
    negatives = similarity[others].view(2 * number, -1)
    return (torch.cat([positive[:, None], negatives], dim=1).logsumexp(1) - positive).mean()


def cases(texts: int, clusters: int) -> dict[str, Callable[[], Tensor]]:
    """{implementation: one forward and backward, which returns the loss}."""
    generator = torch.Generator().manual_seed(0)
    z, h = (torch.randn(2, texts, DIMENSION, generator=generator, requires_grad=True) for _ in range(2))
    attention = torch.randn(2, texts, texts, generator=generator).softmax(2).requires_grad_()
    logits = (3 * torch.randn(2, texts, clusters, generator=generator)).requires_grad_()
    term, whole = ClusterContrastiveLoss(1.0, positive_in_denominator=True), AECLLoss()
    losses = {
        WHOLE: lambda: whole(3, z, h, attention, logits)["loss"],
        TERM: lambda: term(logits[0], logits[1]),
        PAIRWISE: lambda: pairwise_cosine(logits, 1.0),
    }

    def a_pass(loss: Callable[[], Tensor]) -> Tensor:
        value = loss()
        torch.autograd.grad(value, (z, h, attention, logits), allow_unused=True)
        return value.detach()

    return {name: functools.partial(a_pass, loss) for name, loss in losses.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--clusters", type=int, default=152)
    parser.add_argument("--memory-of", metavar="CASE", help="print one case's extra peak MiB")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    size = options.texts, options.clusters
    if options.memory_of:
        cases(4, 3)[options.memory_of]()  # libraries' own first-call memory is no case's
        print(extra_peak_mib(cases(*size)[options.memory_of]))
        return

    small = cases(40, 15)
    if abs(small[TERM]() - small[PAIRWISE]()) > 1e-4:
        raise SystemExit("the two ways of computing the cluster-level term differ")
    times = paired_milliseconds(cases(*size), REPEATS)
    named = [f"--{name}={getattr(options, name)}" for name in ("threads", "texts", "clusters")]
    memory = {name: float(in_own_process("benchmarks.aecl_step", *named, "--memory-of", name)) for name in times}
    faster = {name: ratio(times[PAIRWISE], times[name]) for name in (WHOLE, TERM)}
    table = [[name, spread(times[name]), f"{memory[name]:.1f}", faster.get(name, "")] for name in times]
    print(f"torch {torch.__version__}, {options.threads} thread(s), {platform.machine()}, N = {size[0]}, M = {size[1]}")
    headers = ["loss", "ms: median (min to max)", "peak MiB", "times faster than the pairwise term"]
    print(tabulate(table, headers, tablefmt="github"))


if __name__ == "__main__":
    main()
