"""SCL and SCL-HNM where texts have several labels: loops from the formulas, the single-label case, and the ends."""

import math

import pytest
import torch

from losses import HardNegativeContrastiveLoss, SupervisedContrastiveLoss, supervised_contrastive

LABELS = [[1, 0, 1, 0], [0] * 4, [1, 1, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 1, 0], [0] * 4]


def attract(first, other, positives):
    if positives == "any_label":
        return any(a and b for a, b in zip(first, other, strict=True))
    return 1 in first and 1 in other and first.index(1) == other.index(1)


def slow(z, labels, tau, k, positives, over_all=False):
    values = []
    for i, mine in enumerate(labels):
        similar = {j: float(z[i] @ z[j]) / tau for j in range(len(z)) if j != i}
        pulled = [j for j in similar if attract(mine, labels[j], positives)]
        others = sorted((j for j in similar if j not in pulled), key=lambda j: -similar[j])[:k]
        total = sum(math.exp(similar[j]) for j in pulled + others)
        if pulled:
            values.append(-sum(math.log(math.exp(similar[p]) / total) for p in pulled) / len(pulled))
    return sum(values) / (len(labels) if over_all else len(values))


@pytest.mark.parametrize("positives", ["any_label", "first_label"])
@pytest.mark.parametrize("k", [1, 3, 100])
def test_slow_reference(batch, positives, k):
    z, labels = batch(len(LABELS))[0], torch.tensor(LABELS, dtype=torch.float32)
    expected = slow(z.detach(), LABELS, 0.3, k, positives)
    actual = HardNegativeContrastiveLoss(0.3, k, positives=positives)(z, labels)
    assert actual.item() == pytest.approx(expected, abs=1e-10)
    assert actual.item() == HardNegativeContrastiveLoss(0.3, k, positives=positives)(z, labels.long()).item()
    over_all = HardNegativeContrastiveLoss(0.3, k, anchors="all", positives=positives)(z, labels)
    assert over_all.item() == pytest.approx(slow(z.detach(), LABELS, 0.3, k, positives, over_all=True), abs=1e-10)
    scl = SupervisedContrastiveLoss(0.3, positives)(z, labels)
    assert (scl.item() == pytest.approx(expected, abs=1e-10)) == (k == 100)


def test_any_label_is_the_default_and_differs_from_the_first(batch):
    z, labels = batch(len(LABELS))[0], torch.tensor(LABELS)
    for kind in (HardNegativeContrastiveLoss, SupervisedContrastiveLoss):
        assert kind(0.3)(z, labels) == kind(0.3, positives="any_label")(z, labels)
        assert kind(0.3)(z, labels) != kind(0.3, positives="first_label")(z, labels)


def test_one_label_each_is_the_single_label_loss(batch):
    z, classes = batch(12)
    labels = torch.nn.functional.one_hot(classes, 3)
    for positives in ("any_label", "first_label"):
        for kind in (HardNegativeContrastiveLoss, SupervisedContrastiveLoss):
            loss = kind(0.2, positives=positives)
            torch.testing.assert_close(loss(z, labels), loss(z, classes), rtol=0, atol=1e-12)


@pytest.mark.parametrize("positives", ["any_label", "first_label"])
def test_gradcheck(batch, positives):
    z, labels = batch(len(LABELS))[0], torch.tensor(LABELS)
    for loss in (HardNegativeContrastiveLoss(0.3, 2, positives=positives), SupervisedContrastiveLoss(0.3, positives)):
        assert torch.autograd.gradcheck(lambda x, loss=loss: loss(x, labels), (z,))


def test_rows_without_a_label_attract_nothing(batch):
    z = batch(3)[0]
    for loss in (HardNegativeContrastiveLoss(0.05), SupervisedContrastiveLoss(0.05)):
        value = loss(z, torch.zeros(3, 2))
        assert value.item() == 0 and not torch.autograd.grad(value, z)[0].any()


def test_what_does_not_fit_is_refused(batch):
    z = batch(4)[0]
    with pytest.raises(ValueError, match="positives must be one of any_label, first_label, got 'all'"):
        SupervisedContrastiveLoss(0.3, "all")
    for loss in (HardNegativeContrastiveLoss(), supervised_contrastive):
        with pytest.raises(ValueError, match=r"labels \(B,\) or \(B, C\), got \(4, 4\) and \(3, 2\)"):
            loss(z, torch.ones(3, 2))
