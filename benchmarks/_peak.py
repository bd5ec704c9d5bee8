"""Share of the machine's matrix peak that a training reaches, and where the rest of its time goes."""

from __future__ import annotations

import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

SQUARE, REPEATS = 2048, 5
ATTENTION = {  # its kernels on a CPU, which PyTorch does not count by itself; from shapes
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: lambda *shapes, **_: sdpa_flop_count(*shapes[:3]),
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: lambda *shapes, **_: sdpa_backward_flop_count(
        *shapes[:4]
    ),
}
KINDS = {  # of a profiled operator, by its name or that of the outermost operator around it
    "data loading": r"enumerate\(DataLoader\)",
    "optimizer": r"_fused_|_foreach_",
    # its products included, which our steps take by `matmul`, and the rows that they move to it and back
    "attention": r"scaled_dot_product|ScaledDotProduct|[Ss]oftmax|BmmBackward|aten::matmul$|_Moved",
    "embedding lookups": r"[Ee]mbedding",
    "matrix products": r"aten::(linear|addmm|mm|bmm)$|(Linear|Addmm|Mm)Backward",
    "normalisation and activations": r"layer_norm|LayerNorm|[Gg]elu|[Tt]anh|dropout|bernoulli|random_"
    r"|aten::(add|mul|div|ge)_?$|(Add|Mul|Div)Backward",
}
OTHER, BETWEEN = "other", "between operators"


def multiply_adds(step: Callable[[], object]) -> int:
    """In the matrix products of `step()`, attention's among them; of padding too, where it is multiplied."""
    with FlopCounterMode(display=False, custom_mapping=ATTENTION) as counter:
        step()
    return counter.get_total_flops() // 2


def peak_rate(sizes: Iterable[tuple[int, int, int]], dtype: torch.dtype) -> float:
    """Multiply-adds a second of `torch.matmul` with the threads of this process: the best of `sizes`.

    Args:
        sizes: (rows, in, out) of linear layers. Each counts by the median of its repeats.
    """
    return max(_rate(*size, dtype) for size in sizes)


def _rate(rows: int, inputs: int, outputs: int, dtype: torch.dtype) -> float:
    left, right = torch.randn(rows, inputs, dtype=dtype), torch.randn(outputs, inputs, dtype=dtype).T
    times = []
    for _ in range(1 + REPEATS):
        start = time.perf_counter()
        torch.matmul(left, right)
        times.append(time.perf_counter() - start)
    return rows * inputs * outputs / statistics.median(times[1:])


class Work:
    """What a training multiplies, epoch by epoch, beside what the machine could in the same time.

    The peak is measured after each epoch, so that whatever else the machine does strikes both alike.

    Args:
        model: what trains; its linear layers give sizes of products for the peak.
        encoder: the part of it that is called with token ids (B, L) and mask (B, L).
        dtype: what the training multiplies in.
    """

    def __init__(self, model: nn.Module, encoder: nn.Module, dtype: torch.dtype) -> None:
        layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
        self.widths = {(layer.in_features, layer.out_features) for layer in layers}
        self.dtype = dtype
        self.examples: dict[torch.Size, tuple[Tensor, ...]] = {}  # a batch of each shape
        self.shapes: list[torch.Size] = []  # of the batches of this epoch
        self.epochs: list[tuple[list[torch.Size], float, float]] = []  # shapes of the batches, seconds, peak
        self.hook = encoder.register_forward_pre_hook(self._see)

    def _see(self, encoder: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if encoder.training:
            self.examples.setdefault(inputs[0].shape, inputs)
            self.shapes.append(inputs[0].shape)

    def end_epoch(self, seconds: float) -> None:
        tokens = int(statistics.median(shape.numel() for shape in self.shapes))
        sizes = [(SQUARE, SQUARE, SQUARE), *((tokens, *widths) for widths in self.widths)]
        self.epochs.append((self.shapes, seconds, peak_rate(sizes, self.dtype)))
        self.shapes = []

    def shares(self, step: Callable[..., object]) -> list[float]:
        """Of the peak, for each epoch; `step` does forward and backward for the inputs of the encoder."""
        self.hook.remove()
        counts = {shape: multiply_adds(partial(step, *inputs)) for shape, inputs in self.examples.items()}
        return [sum(counts[shape] for shape in shapes) / seconds / peak for shapes, seconds, peak in self.epochs]


def kind_of(names: Iterable[str]) -> str:
    """Kind of an operator, from the names of those around it, outermost first, and its own."""
    for name in names:
        for kind, pattern in KINDS.items():
            if re.search(pattern, name):
                return kind
    return OTHER


def time_by_kind(events: Iterable[Any], seconds: float) -> list[tuple[str, float, str]]:
    """Of what `torch.profiler` recorded in `seconds`: rows (kind, share, its three largest operators and their %)."""
    times: dict[str, Counter[str]] = {kind: Counter() for kind in (*KINDS, OTHER)}
    for event in events:
        times[kind_of(_names(event))][event.name] += event.self_cpu_time_total / 1e6
    rows = [
        (
            kind,
            of_kind.total() / seconds,
            ", ".join(f"{name} {100 * own / seconds:.1f}" for name, own in of_kind.most_common(3)),
        )
        for kind, of_kind in times.items()
    ]
    return [*rows, (BETWEEN, 1 - sum(share for _, share, _ in rows), "")]


def _names(event: Any) -> list[str]:
    names = []
    while event is not None:
        names.append(event.name)
        event = event.cpu_parent
    return names[::-1]
