"""The loss of true and guessed labels against its formula in plain Python."""

import math

import pytest
import torch

from losses import PseudoLabelLoss, SoftLabelLoss

LOGITS = torch.tensor([[1.0, -0.5, 0.2], [0.3, 0.1, -2.0], [0.0, 2.0, 1.0]], dtype=torch.float64)
LABELS = torch.tensor([0, 2, 1])


@pytest.mark.parametrize("q", [0.7, 1.0])
def test_it_is_the_formula(q):
    is_true = torch.tensor([True, False, False])
    total = weights = 0.0
    for row, label, true in zip(LOGITS.tolist(), LABELS.tolist(), is_true.tolist(), strict=True):
        p = math.exp(row[label]) / sum(map(math.exp, row))
        total += -4 * math.log(p) if true else (1 - p**q) / q
        weights += 4 if true else 1
    assert PseudoLabelLoss(q, label_weight=4.0)(LOGITS, LABELS, is_true).item() == pytest.approx(total / weights)


def test_a_small_q_is_cross_entropy_and_a_wrong_guess_pulls_less():
    guesses = torch.zeros(3, dtype=torch.bool)
    expected = torch.nn.functional.cross_entropy(LOGITS, LABELS)
    assert PseudoLabelLoss(1e-6)(LOGITS, LABELS, guesses).item() == pytest.approx(expected.item(), rel=1e-4)
    assert PseudoLabelLoss(0.7)(LOGITS, LABELS, ~guesses).item() == pytest.approx(expected.item())
    wrong = torch.tensor([[30.0, 0.0]], requires_grad=True)
    PseudoLabelLoss(0.7)(wrong, torch.tensor([1]), torch.tensor([False])).backward()
    assert wrong.grad.abs().max() < 1e-6  # cross-entropy pulls with 1


def test_degenerate_batches_and_bad_options():
    logits = torch.zeros(0, 3, requires_grad=True)
    PseudoLabelLoss()(logits, torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.bool)).backward()
    assert logits.grad.abs().sum() == 0
    for options in ({"q": 0.0}, {"q": 1.5}, {"label_weight": 0.0}):
        with pytest.raises(ValueError, match="must be"):
            PseudoLabelLoss(**options)


def test_soft_labels_are_the_formula():
    targets = torch.tensor([[1.0, 0.0, 1.0], [0.2, 0.9, 0.5], [0.0, 0.0, 0.1]], dtype=torch.float64)
    is_true = torch.tensor([True, False, False])
    total = weights = 0.0
    for row, aims, true in zip(LOGITS.tolist(), targets.tolist(), is_true.tolist(), strict=True):
        p = [1 / (1 + math.exp(-value)) for value in row]
        of_row = -sum(t * math.log(q) + (1 - t) * math.log(1 - q) for t, q in zip(aims, p, strict=True)) / 3
        total += of_row * (4 if true else 1)
        weights += 4 if true else 1
    assert SoftLabelLoss(label_weight=4.0)(LOGITS, targets, is_true).item() == pytest.approx(total / weights)
    with pytest.raises(ValueError, match=r"must both be \(B, C\), got \(3, 3\) and \(3,\)"):
        SoftLabelLoss()(LOGITS, LABELS, is_true)
    with pytest.raises(ValueError, match="label_weight must be > 0, got 0"):
        SoftLabelLoss(0.0)
