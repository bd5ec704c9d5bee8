"""LADE: the regulariser against loops from the formula, what it estimates, and its weight of nothing."""

import math

import pytest
import torch

from losses import BalancedSoftmaxLoss, LADELoss, lade_regulariser

COUNTS = torch.tensor([60, 30, 10])


def make(size=8, present=3):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(size, 3, dtype=torch.float64, generator=generator).requires_grad_()
    return logits, torch.arange(size) % present


def slow(logits, labels, square_weight, importance):
    prior, size = [n / 100 for n in COUNTS.tolist()], len(logits)
    value = 0.0
    for c in range(3):
        own = [logits[i, c] for i in range(size) if labels[i] == c]
        a = sum(own) / len(own) if own else 0.0
        total = 0.0
        for i in range(size):
            weighed = labels[i].item() if importance == "of_rows" else c
            total = total + (1 / 3) / prior[weighed] * torch.exp(logits[i, c]) / size
        b = torch.log(total)
        value = value - prior[c] * (a - b - square_weight * b**2)
    return value


@pytest.mark.parametrize("importance", ["of_rows", "of_columns"])
@pytest.mark.parametrize("present", [3, 2, 1])
@pytest.mark.parametrize("square_weight", [0.0, 0.1])
def test_slow_reference(importance, present, square_weight):
    logits, labels = make(present=present)
    expected = slow(logits, labels, square_weight, importance)
    actual = lade_regulariser(logits, labels, COUNTS, square_weight, importance)
    assert actual.item() == pytest.approx(expected.item(), abs=1e-12)
    loss = LADELoss(0.3, square_weight, importance)(logits, labels, COUNTS)
    balanced = BalancedSoftmaxLoss()(logits, labels, COUNTS)
    assert loss.item() == pytest.approx((balanced + 0.3 * expected).item(), abs=1e-12)


@pytest.mark.parametrize("importance", ["of_rows", "of_columns"])
def test_gradcheck(importance):
    logits, labels = make()
    assert torch.autograd.gradcheck(lambda f: LADELoss(0.5, 0.1, importance)(f, labels, COUNTS), (logits,))


def test_its_minimum_is_the_log_likelihood_ratio():
    """Three values of x, classes with known p(x|c), a batch in the exact proportions of both."""
    given_class = torch.tensor([[6, 3, 1], [2, 6, 2], [2, 2, 6]]) / 10
    rows = [(x, c) for c in range(3) for x in range(3) for _ in range(int(given_class[c, x] * COUNTS[c] + 0.5))]
    x, labels = torch.tensor(rows).T
    table = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    exact = {"max_iter": 500, "tolerance_grad": 1e-12, "tolerance_change": 0, "line_search_fn": "strong_wolfe"}
    optimizer = torch.optim.LBFGS([table], **exact)

    def closure():
        optimizer.zero_grad()
        value = lade_regulariser(table[x], labels, COUNTS, 0.5)
        value.backward()
        return value

    optimizer.step(closure)
    uniform = given_class.mean(0)
    expected = (given_class / uniform).log().T.double()
    torch.testing.assert_close(table.detach(), expected, atol=1e-5, rtol=0)


def test_bad_options_are_named():
    with pytest.raises(ValueError, match="regulariser_weight must be >= 0, got -1"):
        LADELoss(-1)
    with pytest.raises(ValueError, match="square_weight must be >= 0, got nan"):
        LADELoss(square_weight=math.nan)
    with pytest.raises(ValueError, match="importance must be one of of_rows, of_columns, got 'rows'"):
        LADELoss(importance="rows")
