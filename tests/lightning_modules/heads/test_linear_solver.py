"""The solved linear classifier against scikit-learn's logistic regression and against its own optimality."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch.nn import functional

from lightning_modules.heads.linear_solver import PATIENCE, solve_and_choose, solve_linear
from losses import BalancedSoftmaxLoss


@pytest.fixture
def rows():
    """Embeddings (200, 12) and labels of five overlapping classes of different sizes."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.repeat_interleave(torch.arange(5), torch.tensor([90, 50, 30, 20, 10]))
    centres = torch.randn(5, 12, generator=generator)
    embeddings = centres[labels] + torch.randn(200, 12, generator=generator)
    return embeddings, labels


@pytest.mark.parametrize("strength", [1e-1, 1e-4])
def test_cross_entropy_gives_scikit_learns_logistic_regression(rows, strength):
    embeddings = functional.normalize(rows[0].double())
    solution = solve_linear(lambda logits: functional.cross_entropy(logits, rows[1]), embeddings, 5, strength)
    peer = LogisticRegression(C=1 / (strength * len(embeddings)), tol=1e-10, max_iter=10_000)
    expected = peer.fit(embeddings.numpy(), rows[1].numpy()).predict_proba(embeddings.numpy())
    actual = (embeddings @ solution.weight.T + solution.bias).softmax(1).numpy()
    assert solution.converged
    np.testing.assert_allclose(actual, expected, atol=2e-3)


def test_the_length_of_the_embeddings_does_not_change_the_classifier(rows):
    def logits(embeddings):
        solution = solve_linear(lambda z: functional.cross_entropy(z, rows[1]), embeddings, 5, 1e-3)
        return embeddings.double() @ solution.weight.T + solution.bias

    torch.testing.assert_close(logits(rows[0]), logits(100 * rows[0]), atol=1e-3, rtol=1e-3)


def test_any_loss_of_the_logits_is_solved(rows):
    counts, loss = rows[1].bincount(), BalancedSoftmaxLoss()
    solution = solve_linear(lambda logits: loss(logits, rows[1], counts), rows[0], 5, 1e-2)
    weight = solution.weight.clone().requires_grad_()
    length = rows[0].double().square().sum(1).mean()
    logits = rows[0].double() @ weight.T + solution.bias
    (loss(logits, rows[1], counts) + 1e-2 / 2 * length * weight.square().sum()).backward()
    assert weight.grad.abs().max() < 1e-3


def test_validation_rows_choose_the_penalty(rows):
    generator = torch.Generator().manual_seed(1)
    order = torch.randperm(200, generator=generator)
    parts = [(rows[0][part], rows[1][part]) for part in (order[:100], order[100:])]
    chosen = solve_and_choose(functional.cross_entropy, *parts, num_classes=5)
    losses = chosen.validation_losses
    assert losses[chosen.best.strength] == min(losses.values())
    assert min(losses) < chosen.best.strength < max(losses), "noise: neither end of the range is best"
    assert len([strength for strength in losses if strength < chosen.best.strength]) == PATIENCE


def test_a_penalty_that_is_none():
    with pytest.raises(ValueError, match="strength: found 0"):
        solve_linear(torch.sum, torch.ones(2, 2), 2, 0.0)
