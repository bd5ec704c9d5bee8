"""Label-aware smoothing against its formula row by row, and at its ends."""

import math

import pytest
import torch

from losses import LabelAwareSmoothingLoss, class_smoothing, label_aware_smoothing

COUNTS = torch.tensor([120, 40, 7, 3])
LABELS = torch.tensor([0, 2, 0, 1, 0, 2])


def make_logits():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(6, 4, generator=generator, dtype=torch.float64).requires_grad_()


def test_slow_reference():
    logits, total = make_logits(), 0.0
    for row, label in zip(logits.tolist(), LABELS.tolist(), strict=True):
        place = (COUNTS[label].item() - 3) / (120 - 3)
        smoothing = 0.1 + (0.4 - 0.1) * math.sin(place * math.pi / 2)
        log_p = [f - math.log(sum(math.exp(other) for other in row)) for f in row]
        total += -(1 - smoothing) * log_p[label] - smoothing / 4 * sum(log_p)
    assert LabelAwareSmoothingLoss(0.4, 0.1)(logits, LABELS, COUNTS).item() == pytest.approx(total / 6, abs=1e-10)


def test_equal_smoothing_is_that_of_torch():
    expected = torch.nn.functional.cross_entropy(make_logits(), LABELS, label_smoothing=0.2)
    torch.testing.assert_close(LabelAwareSmoothingLoss(0.2, 0.2)(make_logits(), LABELS, COUNTS), expected)


def test_the_ends_and_classes_of_one_size():
    smoothing = class_smoothing(COUNTS, 0.3, 0.1)
    assert smoothing[0].item() == pytest.approx(0.3) and smoothing[3].item() == pytest.approx(0.1)
    assert (smoothing.diff() < 0).all()
    assert class_smoothing(torch.tensor([5, 5]), 0.3, 0.1).tolist() == pytest.approx([0.3, 0.3])


def test_gradcheck():
    assert torch.autograd.gradcheck(lambda f: LabelAwareSmoothingLoss()(f, LABELS, COUNTS), make_logits())


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="tail_smoothing <= head_smoothing < 1, got 0.2 and 0.1"):
        LabelAwareSmoothingLoss(0.1, 0.2)
    with pytest.raises(ValueError, match=r"smoothing must be \(4,\).*got \(3,\)"):
        label_aware_smoothing(make_logits(), LABELS, torch.zeros(3))
    with pytest.raises(ValueError, match="got 0 for class 1"):
        class_smoothing(torch.tensor([2, 0]))
