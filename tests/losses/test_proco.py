"""ProCo: the Bessel function against mpmath, the expectation against draws and loops, the loss at its ends."""

import math

import mpmath
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.special import ive
from scipy.stats import vonmises_fisher

from losses import BalancedSoftmaxLoss, ProCoLoss, expected_logits, log_scaled_bessel

COUNTS = torch.tensor([50, 20, 8])
ARGUMENTS = (1e-6, 0.1, 1.0, 20.0, 63.0, 700.0, 1e5, 2e5)


@pytest.mark.parametrize("order", [0.0, 0.5, 1.0, 15.0, 63.0, 511.0])
def test_log_bessel_is_that_of_mpmath(order):
    squared = torch.tensor([x**2 for x in ARGUMENTS], dtype=torch.float64, requires_grad=True)
    value = log_scaled_bessel(squared, order)
    value.sum().backward()
    with mpmath.workdps(40):
        bessel = [mpmath.besseli(order, x) for x in ARGUMENTS]
        ratios = [mpmath.besseli(order + 1, x) / b for x, b in zip(ARGUMENTS, bessel, strict=True)]
        expected = [float(mpmath.log(b) - order * mpmath.log(x)) for x, b in zip(ARGUMENTS, bessel, strict=True)]
    assert value.tolist() == pytest.approx(expected, rel=1e-10, abs=1e-11)
    slope = [float(ratio) / (2 * x) for ratio, x in zip(ratios, ARGUMENTS, strict=True)]
    assert squared.grad.tolist() == pytest.approx(slope, rel=1e-9)


def test_log_bessel_is_that_of_scipy_and_smooth_at_zero():
    x = np.linspace(5, 400, 30)
    expected = np.log(ive(15, x)) + x - 15 * np.log(x)
    assert log_scaled_bessel(torch.from_numpy(x**2), 15).numpy() == pytest.approx(expected, rel=1e-11)
    zero = torch.zeros((), dtype=torch.float64, requires_grad=True)
    value = log_scaled_bessel(zero, 3)
    value.backward()
    assert value.item() == pytest.approx(-3 * math.log(2) - math.lgamma(4), rel=1e-10)
    assert zero.grad.item() == pytest.approx(1 / 16, rel=1e-9)


def slow(embeddings, means, tau):
    """Each logit from printed constants, log C_d(k) = (d/2 - 1) log k - log I_{d/2-1}(k) + const."""
    size = embeddings.shape[1]

    def log_constant(k):
        return (size / 2 - 1) * mpmath.log(k) - mpmath.log(mpmath.besseli(size / 2 - 1, k))

    logits = []
    for z in embeddings.detach():
        for mean in means:
            length = mean.norm()
            k = size * length / (1 - length**2)
            shifted = (k * mean / length + z / tau).norm()
            logits.append(float(log_constant(k.item()) - log_constant(shifted.item())))
    return torch.tensor(logits, dtype=torch.float64).view(len(embeddings), len(means))


def make(size=5, dimension=6):
    generator = torch.Generator().manual_seed(0)
    z = F.normalize(torch.randn(size, dimension, dtype=torch.float64, generator=generator), dim=1)
    means = F.normalize(torch.randn(3, dimension, dtype=torch.float64, generator=generator), dim=1)
    return z.requires_grad_(), torch.arange(size) % 3, means * torch.tensor([[0.3], [0.6], [0.9]]), COUNTS


@pytest.mark.parametrize("dimension", [2, 5, 6, 128])
@pytest.mark.parametrize("tau", [0.1, 1.0])
def test_slow_reference(dimension, tau):
    z, labels, means, counts = make(dimension=dimension)
    expected = slow(z, means, tau)
    torch.testing.assert_close(expected_logits(z, means, tau), expected, atol=1e-9, rtol=1e-10)
    loss = BalancedSoftmaxLoss()(expected, labels, counts)
    assert ProCoLoss(tau)(z, labels, means, counts).item() == pytest.approx(loss.item(), abs=1e-9)


def test_it_is_the_mean_over_draws():
    z, _, means, _ = make()
    for c, mean in enumerate(means):
        length = mean.norm().item()
        draws = vonmises_fisher((mean / length).numpy(), 6 * length / (1 - length**2)).rvs(200_000, random_state=0)
        mean_kernel = np.exp(draws @ z.detach().numpy().T / 0.5).mean(0)
        actual = expected_logits(z, means, 0.5)[:, c].detach().numpy()
        assert actual == pytest.approx(np.log(mean_kernel), abs=0.02)


def test_gradcheck():
    z, labels, means, counts = make()
    means[0] = 0  # the uniform distribution
    assert torch.autograd.gradcheck(lambda rows: ProCoLoss(0.3)(rows, labels, means, counts), (z,))


def test_a_class_of_one_row_is_bounded():
    z, labels, _, counts = make()
    means = z.detach()[:3].clone().requires_grad_()
    loss = ProCoLoss()(z, labels, means, counts)
    loss.backward()
    assert loss.isfinite() and z.grad.isfinite().all() and means.grad is None
    # as concentrated as that it is a prototype: z.m / tau up to a constant
    near = expected_logits(z, means, 0.1)
    torch.testing.assert_close(near, z @ means.T / 0.1, atol=1e-2, rtol=0)


def test_bad_shapes_are_named():
    z, labels, means, counts = make()
    with pytest.raises(ValueError, match=r"means must be \(C, 6\) with 6 >= 2, got \(3, 5\)"):
        ProCoLoss()(z, labels, means[:, 1:], counts)
