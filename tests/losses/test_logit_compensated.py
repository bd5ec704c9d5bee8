"""Logit-compensated and plain cross-entropy."""

import math

import pytest
import torch

from losses import CrossEntropy, LogitCompensatedCrossEntropy, log_prior, logit_compensated_cross_entropy


@pytest.fixture
def case(golden):
    case = golden("logit_compensated_ce_eq6")
    inputs = case["inputs"]
    logits = torch.tensor(inputs["logits"], dtype=torch.float64, requires_grad=True)
    return logits, torch.tensor(inputs["labels"]), torch.tensor(inputs["class_counts"]), case["expected"]


def test_golden(case):
    logits, labels, counts, expected = case
    assert log_prior(counts).exp().tolist() == pytest.approx(expected["prior"], abs=1e-10)
    assert LogitCompensatedCrossEntropy()(logits, labels, counts).item() == pytest.approx(expected["mean"], abs=1e-10)
    assert CrossEntropy()(logits, labels, counts).item() == pytest.approx(expected["plain_ce_mean"], abs=1e-10)
    assert LogitCompensatedCrossEntropy(unit_norm_logits=True)(logits, labels, counts).item() == pytest.approx(
        expected["published_code_variant_mean"], abs=1e-10
    )
    for row, value in enumerate(expected["per_sample"]):
        loss = logit_compensated_cross_entropy(logits[row : row + 1], labels[row : row + 1], log_prior(counts))
        assert loss.item() == pytest.approx(value, abs=1e-10)


@pytest.mark.parametrize("strength", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("unit_norm", [False, True])
def test_formula_with_strength(case, strength, unit_norm):
    logits, labels, counts, _ = case
    total = 0.0
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        norm = math.sqrt(sum(value**2 for value in row)) if unit_norm else 1.0
        floor = 1e-9 if unit_norm else 0.0
        shifted = [v / norm + strength * math.log(n / 60 + floor) for v, n in zip(row, counts.tolist(), strict=True)]
        total += math.log(sum(map(math.exp, shifted))) - shifted[label]
    actual = LogitCompensatedCrossEntropy(strength, unit_norm)(logits, labels, counts)
    assert actual.item() == pytest.approx(total / 4, abs=1e-10)


def test_gradcheck(case):
    logits, labels, counts, _ = case
    for unit_norm in (False, True):
        assert torch.autograd.gradcheck(
            lambda x, u=unit_norm: LogitCompensatedCrossEntropy(0.7, u)(x, labels, counts), logits
        )


def test_a_rare_class_is_pushed_harder(case):
    _, _, counts, _ = case
    logits = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(LogitCompensatedCrossEntropy()(logits, torch.arange(3), counts), logits)
    assert (grad.diagonal().diff() < 0).all()


def test_bad_input_is_named(case):
    logits, labels, counts, _ = case
    with pytest.raises(ValueError, match="adjustment_strength must be >= 0, got -1"):
        LogitCompensatedCrossEntropy(-1)
    with pytest.raises(ValueError, match=r"log_prior must be \(3,\) for these logits, got \(2,\)"):
        LogitCompensatedCrossEntropy()(logits, labels, counts[:2])
    with pytest.raises(ValueError, match=r"logits must be \(B, D\)"):
        CrossEntropy()(logits, labels[:2])
