"""DSCL: decoupled contrast against loops from the printed formula, and what it is for."""

import pytest
import torch

from losses import DecoupledContrastiveLoss, PatchDistillationLoss
from tests.losses.test_tsc import make


def slow(queries, labels, keys, queue, queue_labels, tau, b):
    """As printed: weights in the exponentials, alpha (n + 1) of the own key, (1 - alpha) (n + 1) / n of others."""
    values, alpha = [], 1 / (1 + b)
    for i in range(len(queries)):
        total = sum(torch.exp(queries[i] @ v / tau) for v in [keys[i], *queue])
        same = [queue[j] for j in range(len(queue)) if queue_labels[j] == labels[i]]
        if not same:
            values.append(-alpha * torch.log(torch.exp(queries[i] @ keys[i] / tau) / total))
            continue
        n = len(same)
        weighted = [(keys[i], alpha * (n + 1)), *((v, (1 - alpha) * (n + 1) / n) for v in same)]
        values.append(sum(-torch.log(torch.exp(w * (queries[i] @ v) / tau) / total) for v, w in weighted) / (n + 1))
    return sum(values) / len(values)


@pytest.mark.parametrize("tau", [0.07, 0.5])
@pytest.mark.parametrize("weight", [0.0, 1.0, 8.0])
def test_slow_reference(tau, weight):
    *batch, _ = make(7, 9)
    batch[1][0] = 3  # a class that the queue lacks
    expected = slow(*batch, tau, weight)
    assert DecoupledContrastiveLoss(tau, weight)(*batch).item() == pytest.approx(expected.item(), abs=1e-10)


def test_gradcheck():
    queries, labels, keys, queue, queue_labels, _ = make()
    loss = DecoupledContrastiveLoss(0.3)
    keys.requires_grad_()
    assert torch.autograd.gradcheck(lambda q, k: loss(q, labels, k, queue, queue_labels), (queries, keys))


def test_the_pull_of_the_own_key_does_not_depend_on_the_size_of_the_class():
    queries, labels, keys, queue, _, _ = make(1, 8)
    pulls = []
    for number in (1, 4, 8):
        queue_labels = torch.where(torch.arange(8) < number, labels, labels + 1)
        key = keys.clone().requires_grad_()
        DecoupledContrastiveLoss(0.5)(queries, labels, key, queue, queue_labels).backward()
        pulls.append(key.grad)
    torch.testing.assert_close(pulls[0], pulls[1])
    torch.testing.assert_close(pulls[0], pulls[2])


def slow_distillation(patches, regions, keys, queue, tau):
    total = 0.0
    for patch, region, key in zip(patches, regions, keys, strict=True):
        others = [key, *queue]
        logits = [torch.stack([row @ other for other in others]) / tau for row in (patch, region)]
        p, t = (torch.exp(row) / torch.exp(row).sum() for row in logits)
        total = total - sum(t[j] * torch.log(p[j]) for j in range(len(others)))
    return total / len(patches)


@pytest.mark.parametrize("size", [0, 1, 9])
def test_distillation_of_patches(size):
    patches, _, keys, queue, _, _ = make(7, size)
    regions = keys.roll(1, 0).requires_grad_()
    loss = PatchDistillationLoss(0.3)
    value = loss(patches, regions, keys, queue)
    assert value.item() == pytest.approx(slow_distillation(patches, regions, keys, queue, 0.3).item(), abs=1e-10)
    value.backward()
    assert regions.grad is None  # the regions teach
    assert torch.autograd.gradcheck(lambda p: loss(p, regions, keys, queue), (patches,))


def test_distillation_of_no_patches_and_of_other_shapes():
    patches, _, keys, queue, _, _ = make(3, 4)
    none = patches[:0].detach().requires_grad_()
    PatchDistillationLoss()(none, keys[:0], keys[:0], queue).backward()
    assert none.grad.shape == none.shape
    with pytest.raises(ValueError, match=r"keys must be \(3, "):
        PatchDistillationLoss()(patches, keys, keys[:2], queue)
