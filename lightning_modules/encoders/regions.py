"""Random boxes in images, and what lies in them: patches of the pixels, or the same regions of a feature map."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional


def random_boxes(
    number: int, generator: torch.Generator, area: tuple[float, float], ratio: tuple[float, float]
) -> Tensor:
    """Boxes inside the unit square, placed uniformly.

    Args:
        number: R.
        generator: on the CPU.
        area: least and most share of the square, drawn uniformly; within (0, 1].
        ratio: least and most of width to height, drawn uniformly in its logarithm; a side longer than 1 is cut to 1.

    Returns:
        (R, 4): left, top, right, bottom.
    """
    draws = torch.rand(4, number, generator=generator, dtype=torch.float64)
    shares = area[0] + (area[1] - area[0]) * draws[0]
    ratios = torch.exp(math.log(ratio[0]) + (math.log(ratio[1]) - math.log(ratio[0])) * draws[1])
    sides = torch.stack([(shares * ratios).sqrt(), (shares / ratios).sqrt()]).clamp_max(1.0)
    first = draws[2:] * (1 - sides)
    return torch.cat([first, first + sides]).T.float()


def samples_in(maps: Tensor, boxes: Tensor, side: int) -> Tensor:
    """A square of bilinear samples of each map, evenly spaced in its box.

    The mean of 4 x 4 is RoIAlign with bins of 2 x 2 and 2 x 2 samples in each (He et al., ICCV 2017), averaged.

    Args:
        maps: (R, C, H, W).
        boxes: (R, 4) in the unit square, as `random_boxes` gives them.
        side: of the squares, in samples.

    Returns:
        (R, C, side, side).
    """
    size, middle = boxes[:, 2:] - boxes[:, :2], boxes[:, 2:] + boxes[:, :2] - 1  # of a square from -1 to 1
    grid = functional.affine_grid(
        torch.cat([torch.diag_embed(size), middle[:, :, None]], dim=2), [len(maps), 1, side, side], align_corners=False
    )
    return functional.grid_sample(maps, grid.to(maps), padding_mode="border", align_corners=False)
