"""BCL against loops from the formula, at its ends, and over two processes."""


import pytest
import torch
import torch.nn.functional as F

from losses import BalancedContrastiveLoss, gather, supervised_contrastive
from tests.losses.two_processes import assert_two_processes_equal_one

READINGS = [(True, True), (True, False), (False, True), (False, False)]


def make(size=9, classes=4, dimension=5, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    z = F.normalize(torch.randn(size, dimension, generator=generator, dtype=dtype), dim=1).requires_grad_()
    prototypes = F.normalize(torch.randn(classes, dimension, generator=generator, dtype=dtype), dim=1)
    return z, torch.randint(classes - 1, (size,), generator=generator), prototypes.requires_grad_()


def slow(z, labels, prototypes, tau, averaging, complement):
    labels = labels.tolist()
    members = [(z[j], y, j) for j, y in enumerate(labels)]
    if complement:
        members += [(prototypes[c], c, None) for c in range(len(prototypes))]
    values = []
    for i, y in enumerate(labels):
        denominator = 0.0
        for k in range(len(prototypes)):
            of_class = [torch.exp(z[i] @ v / tau) for v, c, j in members if c == k and j != i]
            if of_class:
                denominator = denominator + sum(of_class) / (len(of_class) if averaging else 1)
        positives = [v for v, c, j in members if c == y and j != i]
        if positives:
            values.append(sum(torch.log(denominator) - z[i] @ p / tau for p in positives) / len(positives))
    return sum(values) / len(values)


@pytest.mark.parametrize("reading", READINGS, ids=str)
@pytest.mark.parametrize("tau", [0.07, 0.5])
def test_slow_reference(reading, tau):
    batch = make()
    assert BalancedContrastiveLoss(tau, *reading)(*batch).item() == pytest.approx(
        slow(*batch, tau, *reading).item(), abs=1e-10
    )


@pytest.mark.parametrize("reading", READINGS, ids=str)
def test_gradcheck(reading):
    z, labels, prototypes = make()
    loss = BalancedContrastiveLoss(0.3, *reading)
    assert torch.autograd.gradcheck(lambda x, p: loss(x, labels, p), (z, prototypes))


def test_without_averaging_and_complement_it_is_supervised_contrast():
    z, labels, prototypes = make()
    actual = BalancedContrastiveLoss(0.3, False, False)(z, labels, prototypes)
    assert actual.item() == pytest.approx(supervised_contrastive(z, labels, 0.3).item(), abs=1e-10)


@pytest.mark.parametrize("averaging", [True, False])
def test_copies_of_a_negative_do_not_weigh_more_under_averaging(averaging):
    z, _, prototypes = (tensor.detach() for tensor in make(2))
    prototypes = torch.cat([prototypes[:1], z[1:]])  # the second class: one row, its copies and its prototype
    loss, gradients = BalancedContrastiveLoss(0.3, averaging), []
    for copies in (1, 5):
        anchor = z[:1].clone().requires_grad_()
        labels = torch.tensor([0] + [1] * copies)
        total = (1 + copies) * loss(torch.cat([anchor, z[1:].expand(copies, -1)]), labels, prototypes)
        of_copy = torch.logaddexp(
            torch.exp(torch.cat([anchor, prototypes[:1]]) @ z[1] / 0.3).mean().log(), z[1] @ z[1] / 0.3
        )  # of its own class, the mean; of the first class too
        gradients.append(torch.autograd.grad(total - copies * of_copy, anchor)[0])
    assert torch.allclose(*gradients, atol=1e-10) == averaging


def test_bad_input_is_named():
    z, labels, prototypes = make()
    with pytest.raises(ValueError, match="tau must be > 0, got 0"):
        BalancedContrastiveLoss(0)
    with pytest.raises(ValueError, match=r"prototypes must be \(C, 5\), got \(4, 3\)"):
        BalancedContrastiveLoss()(z, labels, prototypes[:, :3])


def shared_loss(weight, x, labels, prototypes):
    z = gather(F.normalize(x @ weight, dim=1))
    return BalancedContrastiveLoss(0.3)(z, gather(labels), F.normalize(prototypes @ weight, dim=1))


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path):
    x, labels, prototypes = make()
    assert_two_processes_equal_one([shared_loss], [x, labels], [prototypes], tmp_path)
