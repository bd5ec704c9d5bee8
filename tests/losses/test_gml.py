"""GML: the mixtures against loops from the formula, what moves what, and classes without keys."""

import math

import pytest
import torch
import torch.nn.functional as F

from losses import GaussianMixtureLoss, class_log_mean_exp

COUNTS = torch.tensor([50, 20, 8, 2])


def make(size=5, queue=9, classes=4):
    """(anchors, labels, keys, key labels, counts); the last class occurs in the batch alone."""
    generator = torch.Generator().manual_seed(0)

    def rows(number):
        return F.normalize(torch.randn(number, 4, dtype=torch.float64, generator=generator), dim=1)

    labels = torch.arange(size) % classes
    key_labels = torch.cat([labels, torch.randint(classes - 1, (queue,), generator=generator)])
    return rows(size).requires_grad_(), labels, rows(size + queue), key_labels, COUNTS


def slow(anchors, labels, keys, key_labels, counts, tau, without_own):
    values = []
    for i in range(len(anchors)):
        scores = {}
        for c in range(len(counts)):
            members = [k for k in range(len(keys)) if key_labels[k] == c and not (without_own and k == i)]
            if members:
                kernel = sum(torch.exp(anchors[i] @ keys[k] / tau) for k in members) / len(members)
                scores[c] = kernel * counts[c] / counts.sum()
        if labels[i].item() in scores:
            values.append(-torch.log(scores[labels[i].item()] / sum(scores.values())))
    return sum(values) / len(values)


@pytest.mark.parametrize("tau", [0.07, 0.5])
def test_slow_reference_and_what_moves_what(tau):
    batch, loss = make(), GaussianMixtureLoss(tau).double()
    log_tau = torch.tensor(math.log(tau), dtype=torch.float64, requires_grad=True)
    first = slow(*batch, log_tau.exp().detach(), False)
    second = slow(batch[0].detach(), *batch[1:], log_tau.exp(), True)
    value = loss(*batch)
    assert value.item() == pytest.approx((first + second).item(), rel=1e-6)
    actual = torch.autograd.grad(value, [batch[0], loss.log_tau])
    of_anchors, of_tau = torch.autograd.grad(first, batch[0])[0], torch.autograd.grad(second, log_tau)[0]
    torch.testing.assert_close(actual, (of_anchors, of_tau), rtol=1e-5, atol=1e-8)
    assert of_anchors.abs().max() > 0.01 and of_tau.abs() > 0.01


def test_gradcheck_of_the_kernels():
    logits = torch.randn(3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    mask = torch.tensor([[True, True, False, True, True, True]]).expand(3, -1)
    labels = torch.tensor([0, 1, 1, 2, 0, 2])
    assert torch.autograd.gradcheck(lambda x: class_log_mean_exp(x, labels, 3, mask), (logits,))


def test_kernels_neither_underflow_nor_let_a_class_without_keys_in():
    logits = torch.tensor([[900.0, 900.0, -900.0, 3.0]])
    value = class_log_mean_exp(logits, torch.tensor([0, 0, 1, 2]), 4, torch.tensor([[True, True, True, False]]))
    assert value.tolist() == [[900.0, -900.0, -math.inf, -math.inf]]


def test_keys_of_fewer_rows_than_anchors_are_refused():
    anchors, labels, keys, key_labels, counts = make(5, 0)
    with pytest.raises(ValueError, match="keys must begin with those of the 5 anchors, got 4 of them"):
        GaussianMixtureLoss()(anchors, labels, keys[1:], key_labels[1:], counts)
