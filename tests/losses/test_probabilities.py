"""Logarithms of probabilities and of their complements."""

import pytest
import torch

from losses.probabilities import log_softmax_and_complement


def test_it_equals_the_softmax():
    logits = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 3
    log_p, log_rest = log_softmax_and_complement(logits)
    p = logits.softmax(dim=1)
    torch.testing.assert_close(log_p.exp(), p, atol=1e-14, rtol=0)
    torch.testing.assert_close(log_rest.exp(), 1 - p, atol=1e-14, rtol=0)


def test_a_probability_that_rounds_to_one_keeps_its_complement():
    log_p, log_rest = log_softmax_and_complement(torch.tensor([[50.0, 0.0, 0.0]]))
    assert log_p[0, 0] == 0
    assert log_rest[0, 0].item() == pytest.approx(-50 + torch.tensor(2.0).log().item(), abs=1e-4)


@pytest.mark.parametrize("logits", [[[0.0]], [[1e4, -1e4]], [[0.0, 0.0, 0.0]]], ids=["one class", "certain", "tie"])
@pytest.mark.parametrize("power", [0.0, 0.01, 0.5, 5.0])
def test_powers_have_finite_gradients(logits, power):
    logits = torch.tensor(logits, requires_grad=True)
    log_p, log_rest = log_softmax_and_complement(logits)
    value = (power * log_rest + log_p).exp().sum()
    (grad,) = torch.autograd.grad(value, logits)
    assert value.isfinite() and grad.isfinite().all()
