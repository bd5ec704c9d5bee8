"""Boxes in images, and what is read in them."""

import pytest
import torch

from lightning_modules.encoders.regions import random_boxes, samples_in

AREA, RATIO = (0.05, 0.6), (3 / 4, 4 / 3)


def test_boxes_lie_in_the_image_and_keep_their_bounds():
    boxes = random_boxes(2000, torch.Generator().manual_seed(0), AREA, RATIO).double()
    assert boxes.min() >= 0 and boxes.max() <= 1
    width, height = (boxes[:, 2:] - boxes[:, :2]).T
    assert AREA[0] - 1e-6 <= (width * height).min() and (width * height).max() <= AREA[1] + 1e-6
    assert RATIO[0] - 1e-5 <= (width / height).min() and (width / height).max() <= RATIO[1] + 1e-5
    assert (width * height).mean().item() == pytest.approx(sum(AREA) / 2, abs=0.01)
    assert (boxes[:, :2] / (1 - boxes[:, 2:] + boxes[:, :2])).mean().item() == pytest.approx(0.5, abs=0.02)


def test_samples_are_those_of_their_box():
    """On a map that rises by a pixel's place the mean of a box is its middle, and each sample its own place."""
    height, width = 10, 20
    rows, columns = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
    maps = torch.stack([columns, rows]).repeat(2, 1, 1, 1)
    boxes = torch.tensor([[0.1, 0.2, 0.5, 0.8], [0.3, 0.1, 0.9, 0.6]])
    samples = samples_in(maps, boxes, 4)
    for box, sample in zip(boxes, samples, strict=True):
        left, top, right, bottom = (box * torch.tensor([width, height, width, height])).tolist()
        for i in range(4):
            for j in range(4):
                place = [left + (j + 0.5) / 4 * (right - left), top + (i + 0.5) / 4 * (bottom - top)]
                assert sample[:, i, j].tolist() == pytest.approx(place, abs=1e-4)
