"""Generalised re-weighting and adaptive calibration against their formulas."""

import math

import pytest
import torch

from losses import CrossEntropy, GeneralisedReweightingLoss, adaptive_calibration, generalised_weights

COUNTS = torch.tensor([120, 40, 7, 3])
LABELS = torch.tensor([0, 2, 0, 1, 0, 2])


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def slow_weights(exponent):
    powers = [(COUNTS.sum().item() / n) ** exponent for n in COUNTS.tolist()]
    return [4 * power / sum(powers) for power in powers]


@pytest.mark.parametrize("average", ["rows", "weights"])
@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.2])
def test_slow_reference(exponent, average):
    logits, weights, total, weight = randn(6, 4), slow_weights(exponent), 0.0, 0.0
    for row, label in zip(logits.tolist(), LABELS.tolist(), strict=True):
        log_p = row[label] - math.log(sum(math.exp(f) for f in row))
        total, weight = total - weights[label] * log_p, weight + weights[label]
    expected = total / (weight if average == "weights" else 6)
    actual = GeneralisedReweightingLoss(exponent, average)(logits, LABELS, COUNTS)
    assert actual.item() == pytest.approx(expected, abs=1e-10)
    assert generalised_weights(COUNTS, exponent).tolist() == pytest.approx(weights, abs=1e-10)


def test_without_exponent_it_is_cross_entropy():
    actual = GeneralisedReweightingLoss(0.0)(randn(6, 4), LABELS, COUNTS)
    torch.testing.assert_close(actual, CrossEntropy()(randn(6, 4), LABELS))


def test_calibration_entry_by_entry():
    f, w, s, b = randn(5, 4), randn(5, 1, seed=1), randn(4, seed=2), randn(4, seed=3)
    actual = adaptive_calibration(f, w, s, b)
    for i in range(5):
        sigma = 1 / (1 + math.exp(-w[i].item()))
        for c in range(4):
            score = f[i, c].item()
            expected = sigma * (s[c].item() * score + b[c].item()) + (1 - sigma) * score
            assert actual[i, c].item() == pytest.approx(expected, abs=1e-12)
    torch.testing.assert_close(adaptive_calibration(f, w, torch.ones(4), torch.zeros(4)), f)


def test_gradcheck():
    def loss(f, w, s, b):
        return GeneralisedReweightingLoss()(adaptive_calibration(f, w, s, b), LABELS, COUNTS)

    assert torch.autograd.gradcheck(loss, (randn(6, 4), randn(6, 1, seed=1), randn(4, seed=2), randn(4, seed=3)))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="exponent must be >= 0, got -1"):
        GeneralisedReweightingLoss(-1)
    with pytest.raises(ValueError, match="average must be one of rows, weights, got 'sum'"):
        GeneralisedReweightingLoss(average="sum")
    with pytest.raises(ValueError, match="got 0 for class 1"):
        generalised_weights(torch.tensor([2, 0]))
