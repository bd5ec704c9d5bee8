"""The loss of two branches against its formula row by row."""

import math

import pytest
import torch

from losses import BilateralLoss, CrossEntropy

LABELS, OTHER_LABELS = torch.tensor([0, 2, 0, 1, 0]), torch.tensor([3, 3, 2, 1, 0])


def make_logits(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(5, 4, generator=generator, dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_slow_reference(share):
    logits, others, total = make_logits(), make_logits(1), 0.0
    for f, g, label, other in zip(
        logits.tolist(), others.tolist(), LABELS.tolist(), OTHER_LABELS.tolist(), strict=True
    ):
        mixed = [2 * (share * f[c] + (1 - share) * g[c]) for c in range(4)]
        norm = math.log(sum(math.exp(h) for h in mixed))
        total -= share * (mixed[label] - norm) + (1 - share) * (mixed[other] - norm)
    actual = BilateralLoss()(logits, LABELS, others, OTHER_LABELS, share)
    assert actual.item() == pytest.approx(total / 5, abs=1e-10)


def test_half_and_half_is_the_sum_of_the_branches():
    actual = BilateralLoss()(make_logits(), LABELS, make_logits(1), LABELS, 0.5)
    torch.testing.assert_close(actual, CrossEntropy()(make_logits() + make_logits(1), LABELS))


def test_gradcheck():
    def loss(logits, others):
        return BilateralLoss()(logits, LABELS, others, OTHER_LABELS, 0.3)

    assert torch.autograd.gradcheck(loss, (make_logits(), make_logits(1)))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"share must be in \[0, 1\], got 2"):
        BilateralLoss()(make_logits(), LABELS, make_logits(), LABELS, 2)
    with pytest.raises(ValueError, match=r"other_logits must be \(5, 4\), got \(3, 4\)"):
        BilateralLoss()(make_logits(), LABELS, make_logits()[:3], LABELS[:3], 0.5)
