"""The regressions of many labels against scikit-learn's of each, and against the solver for any loss."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch.nn import functional

from lightning_modules.heads.label_solver import LabelRegressions
from lightning_modules.heads.linear_solver import solve_linear


@pytest.fixture
def rows():
    """Embeddings (400, 12) around no origin, and six labels: common, rare, of no row and of every row."""
    generator = torch.Generator().manual_seed(0)
    embeddings = torch.randn(400, 12, generator=generator) + 0.7
    scores = embeddings @ torch.randn(12, 6, generator=generator) + torch.randn(400, 6, generator=generator)
    return embeddings, (scores > torch.tensor([0.0, 1.0, 4.0, 9.0, 100.0, -100.0])).float()


@pytest.mark.parametrize("has_bias", [True, False])
def test_each_label_is_scikit_learns_logistic_regression(rows, has_bias):
    (embeddings, labels), solution = rows, None
    solver, inputs = LabelRegressions(*rows, has_bias), embeddings.double().numpy()
    for strength in (1e-1, 1e-3, 1e-5):
        solution = solver.solve(strength, solution)
        assert solution.converged
        inverse = 1 / (strength * float((inputs**2).sum()))
        actual = solution.logits(embeddings).sigmoid().numpy()
        for label in range(4):
            peer = LogisticRegression(C=inverse, fit_intercept=has_bias, tol=1e-10, solver="newton-cg", max_iter=10_000)
            expected = peer.fit(inputs, labels[:, label].numpy()).predict_proba(inputs)[:, 1]
            np.testing.assert_allclose(actual[:, label], expected, atol=2e-3)
        if has_bias:
            assert actual[:, 4].max() < 1e-4 and actual[:, 5].min() > 1 - 1e-4


def test_its_loss_is_that_of_the_solver_for_any_loss(rows):
    def loss(logits):
        return 6 * functional.binary_cross_entropy_with_logits(logits, rows[1].double())

    ours, theirs = LabelRegressions(*rows).solve(1e-3), solve_linear(loss, rows[0], 6, 1e-3)
    length = rows[0].double().square().sum(1).mean()
    value = loss(ours.logits(rows[0])) + 1e-3 / 2 * length * ours.weight.square().sum()
    assert 6 * ours.value == pytest.approx(float(value), rel=1e-9)
    assert 6 * ours.value == pytest.approx(theirs.value, abs=1e-5)


def test_a_penalty_that_is_none(rows):
    with pytest.raises(ValueError, match="strength: found 0"):
        LabelRegressions(*rows).solve(0.0)
