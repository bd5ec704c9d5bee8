"""Pair gradients against the derivative of each formula, and the ones ACL gives for anchors alone."""

import pytest
import torch

from losses import (
    ACLLoss,
    BalancedContrastiveLoss,
    SharpReCLLoss,
    SimCSELoss,
    SupervisedContrastiveLoss,
    SupervisedPrototypicalContrastiveLoss,
    draw_samples,
    pair_gradients,
)

COUNTS = torch.tensor([9, 4, 2])


def by_differences(loss, z, step=1e-6):
    """dL/d(z_i.z_k), one pair after another: in more dimensions than rows a similarity can be moved alone."""
    gram, size = (z @ z.T).detach(), len(z)
    actual = torch.zeros(size, size, dtype=z.dtype)
    for i in range(size):
        for k in range(i):
            values = []
            for sign in (1, -1):
                moved = gram.clone()
                moved[i, k] += sign * step
                moved[k, i] += sign * step
                values.append(loss(torch.linalg.cholesky(moved)).item())
            actual[i, k] = actual[k, i] = (values[0] - values[1]) / (2 * step)
    return actual


@pytest.fixture
def rows(batch):
    """Seven rows in ten dimensions, so that their Gram matrix has full rank; the last ones stand for prototypes."""
    z, _ = batch(7, dimension=10)
    return z.detach(), torch.tensor([0, 0, 1, 1, 0, 1, 2])


@pytest.mark.parametrize("name", ["scl", "simcse"])
def test_against_differences(rows, name):
    z, labels = rows
    if name == "simcse":
        z = z[:6]
        loss = SimCSELoss(0.3)
        actual = pair_gradients(lambda x, extend: loss(*x.chunk(2)), z)
        expected = by_differences(lambda x: loss(*x.chunk(2)), z)
    else:
        loss = SupervisedContrastiveLoss(0.3)
        actual, expected = (
            pair_gradients(lambda x, extend: loss(x, labels), z),
            by_differences(lambda x: loss(x, labels), z),
        )
    actual = actual.fill_diagonal_(0)
    assert expected.abs().max() > 1e-2
    torch.testing.assert_close(actual, expected, atol=1e-6, rtol=1e-5)


def test_against_acl_with_both_ends_of_a_pair_added_up(rows):
    z, labels = rows
    state = (torch.zeros(3, 10, dtype=torch.float64), torch.zeros(3, dtype=torch.bool), COUNTS)
    loss = ACLLoss(0.3)
    anchors = loss.pair_gradients(z, labels, *state) / 0.3
    actual = pair_gradients(lambda x, extend: loss(x, labels, extend(state[0]), *state[1:]), z)
    expected = anchors + anchors.T
    torch.testing.assert_close(actual.fill_diagonal_(0), expected.fill_diagonal_(0), atol=1e-10, rtol=1e-8)


def test_vectors_beside_the_batch_keep_their_similarities(rows):
    z, labels = rows
    prototypes = torch.eye(3, 10, dtype=torch.float64)
    samples = draw_samples(z, labels, 3, 2, 3, 4, 0.5, generator=torch.Generator().manual_seed(0))
    sets, seen = samples.sets(z), []
    losses = {
        "bcl": lambda x, extend: BalancedContrastiveLoss(0.3)(x, labels, extend(prototypes)),
        "spcl": lambda x, extend: SupervisedPrototypicalContrastiveLoss(0.3)(
            x, labels, extend(prototypes), torch.arange(3)
        ),
        "sharprecl": lambda x, extend: SharpReCLLoss(0.3)(x, labels, *map(extend, sets), COUNTS),
    }
    for name, loss in losses.items():

        def remembered(x, extend, loss=loss):
            seen.append(loss(x, extend))
            return seen[-1]

        gradients = pair_gradients(remembered, z)
        assert seen[-1].item() == pytest.approx(loss(z, lambda v: v).item(), abs=1e-12), name
        assert gradients.abs().max() > 1e-4 and torch.equal(gradients, gradients.T), name
