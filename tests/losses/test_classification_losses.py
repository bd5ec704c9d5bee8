"""Focal, Dice, class-balanced, Balanced Softmax and LDAM: slow references, gradients, degenerate batches, refusals."""

import json
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from losses import (
    BalancedSoftmaxLoss,
    ClassBalancedLoss,
    CrossEntropy,
    DiceLoss,
    FocalLoss,
    LDAMLoss,
    class_balanced_weights,
    class_margins,
    focal_per_sample,
    ldam,
)

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "acl.json"
COUNTS = torch.tensor([120, 40, 7, 3])
LABELS = torch.tensor([0, 2, 0, 1, 0, 2])  # no row of class 3

VARIANTS = {
    "focal": FocalLoss(),
    "focal, root": FocalLoss(0.5),
    **{
        f"dice {reading}{', squared' * squared}": DiceLoss(0.3, 0.7, reading, squared)
        for reading in ("per_sample", "batch")
        for squared in (False, True)
    },
    "dice batch, present": DiceLoss(0.3, 0.7, "batch", absent_classes=False),
    **{
        f"class_balanced {base} by {average}": ClassBalancedLoss(0.99, base, 1.5, average)
        for base in ("cross_entropy", "focal", "sigmoid")
        for average in ("rows", "weights")
    },
    "balanced_softmax": BalancedSoftmaxLoss(),
    "ldam": LDAMLoss(scale=4.0),
}
every_variant = pytest.mark.parametrize("loss", VARIANTS.values(), ids=VARIANTS)


def make_logits(rows=6, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, len(COUNTS), generator=generator, dtype=dtype).requires_grad_()


def softmax(row):
    exponentials = [math.exp(value) for value in row]
    return [value / sum(exponentials) for value in exponentials]


def slow_weights(beta):
    inverse = [(1 - beta) / (1 - beta**n) for n in COUNTS.tolist()]
    return [len(inverse) * value / sum(inverse) for value in inverse]


# ---- values ----


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_focal_formula(gamma):
    logits, total = make_logits(), 0.0
    for row, label in zip(logits.tolist(), LABELS.tolist(), strict=True):
        p = softmax(row)[label]
        total -= (1 - p) ** gamma * math.log(p)
    assert FocalLoss(gamma)(logits, LABELS).item() == pytest.approx(total / 6, abs=1e-10)


def test_focal_without_focus_is_cross_entropy_and_with_it_turns_easy_rows_down():
    logits = make_logits()
    assert FocalLoss(0.0)(logits, LABELS).item() == pytest.approx(CrossEntropy()(logits, LABELS).item(), abs=1e-12)
    ratio = focal_per_sample(logits, LABELS) / F.cross_entropy(logits, LABELS, reduction="none")
    by_ease = ratio[logits.softmax(1).gather(1, LABELS[:, None]).squeeze(1).argsort()]
    assert (by_ease.diff() < 0).all()


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("reading", ["per_sample", "batch"])
def test_dice_formula(reading, decay, squared):
    logits, s = make_logits(), 0.7
    q = [[(1 - p) ** decay * p for p in softmax(row)] for row in logits.tolist()]
    y = [[float(label == c) for c in range(4)] for label in LABELS.tolist()]

    def coefficient(rows, c):
        top = sum(2 * q[i][c] * y[i][c] for i in rows) + s
        return top / (sum(q[i][c] ** (2 if squared else 1) + y[i][c] for i in rows) + s)

    groups = [range(6)] if reading == "batch" else [[i] for i in range(6)]
    expected = sum(1 - coefficient(rows, c) for rows in groups for c in range(4)) / len(groups)
    assert DiceLoss(decay, s, reading, squared)(logits, LABELS).item() == pytest.approx(expected, abs=1e-10)


def test_dice_of_the_classes_present_leaves_out_the_push_on_absent_ones():
    logits, options = make_logits(), {"smoothing": 0.7, "reading": "batch", "squared_denominator": False}
    q = (1 - logits.softmax(1)) ** 0.01 * logits.softmax(1)
    push = 1 - 0.7 / (q[:, 3].sum() + 0.7)
    every, present = (DiceLoss(**options, absent_classes=choice)(logits, LABELS) for choice in (True, False))
    assert (every - present).item() == pytest.approx(push.item(), abs=1e-10)


@pytest.mark.parametrize("average", ["rows", "weights"])
@pytest.mark.parametrize("base", ["cross_entropy", "focal", "sigmoid"])
def test_class_balanced_formula(base, average):
    logits, weights, total, weight = make_logits(), slow_weights(0.99), 0.0, 0.0
    for row, label in zip(logits.tolist(), LABELS.tolist(), strict=True):
        p = softmax(row)[label]
        value = {
            "cross_entropy": -math.log(p),
            "focal": -((1 - p) ** 1.5) * math.log(p),
            "sigmoid": sum(math.log(1 + math.exp(-f if c == label else f)) for c, f in enumerate(row)),
        }[base]
        total, weight = total + weights[label] * value, weight + weights[label]
    expected = total / (weight if average == "weights" else 6)
    actual = ClassBalancedLoss(0.99, base, 1.5, average)(logits, LABELS, COUNTS)
    assert actual.item() == pytest.approx(expected, abs=1e-10)


def test_class_balanced_weights_and_torch():
    weights = class_balanced_weights(COUNTS, 0.99)
    assert weights.tolist() == pytest.approx(slow_weights(0.99), abs=1e-10)
    assert weights.sum().item() == pytest.approx(4) and (weights.diff() > 0).all()
    actual = ClassBalancedLoss(0.99, average="weights")(make_logits(), LABELS, COUNTS)
    expected = F.cross_entropy(make_logits(), LABELS, weight=weights)
    assert actual.item() == pytest.approx(expected.item(), abs=1e-12)


def test_balanced_softmax_golden():
    (case,) = (c for c in json.loads(GOLDEN.read_text())["cases"] if c["id"] == "balanced_softmax")
    inputs, expected = case["inputs"], case["expected"]
    logits = torch.tensor(inputs["logits"], dtype=torch.float64)
    labels, counts = torch.tensor(inputs["labels"]), torch.tensor(inputs["class_counts"])
    assert BalancedSoftmaxLoss()(logits, labels, counts).item() == pytest.approx(expected["mean"], abs=1e-10)
    for i, value in enumerate(expected["per_sample"]):
        loss = BalancedSoftmaxLoss()(logits[i : i + 1], labels[i : i + 1], counts)
        assert loss.item() == pytest.approx(value, abs=1e-10)


def test_balanced_softmax_formula():
    logits, total = make_logits(), 0.0
    for row, label in zip(logits.tolist(), LABELS.tolist(), strict=True):
        mass = [n * math.exp(f) for n, f in zip(COUNTS.tolist(), row, strict=True)]
        total -= math.log(mass[label] / sum(mass))
    assert BalancedSoftmaxLoss()(logits, LABELS, COUNTS).item() == pytest.approx(total / 6, abs=1e-10)


@pytest.mark.parametrize("average", ["rows", "weights"])
@pytest.mark.parametrize("reweight", [False, True])
def test_ldam_formula(reweight, average):
    cosines = make_logits().tanh()
    weights = slow_weights(0.99) if reweight else [1.0] * 4
    largest = max(n**-0.25 for n in COUNTS.tolist())
    margins = [0.4 * n**-0.25 / largest for n in COUNTS.tolist()]
    total = weight = 0.0
    for row, label in zip(cosines.tolist(), LABELS.tolist(), strict=True):
        shifted = [5.0 * (f - (margins[label] if c == label else 0)) for c, f in enumerate(row)]
        total, weight = total - weights[label] * math.log(softmax(shifted)[label]), weight + weights[label]
    expected = total / (weight if average == "weights" else 6)
    actual = LDAMLoss(0.4, 5.0, 0.99, average)(cosines, LABELS, COUNTS, reweight)
    assert actual.item() == pytest.approx(expected, abs=1e-10)


def test_margins_are_widest_for_the_rarest_class():
    margins = class_margins(COUNTS, 0.5)
    assert margins[-1] == 0.5 and (margins.diff() > 0).all()
    plain = ldam(make_logits(), LABELS, torch.zeros(4), 1.0)
    assert plain.item() == pytest.approx(CrossEntropy()(make_logits(), LABELS).item(), abs=1e-12)


# ---- gradients, precision, degenerate batches ----


@every_variant
def test_gradcheck(loss):
    assert torch.autograd.gradcheck(lambda logits: loss(logits, LABELS, COUNTS), make_logits())


def test_gradcheck_of_the_reweighted_margin_loss():
    assert torch.autograd.gradcheck(lambda x: LDAMLoss(scale=4.0)(x, LABELS, COUNTS, True), make_logits())


@every_variant
def test_it_falls_along_its_gradient(loss):
    logits = make_logits()
    before = loss(logits, LABELS, COUNTS)
    (grad,) = torch.autograd.grad(before, logits)
    assert grad.abs().max() > 1e-4
    assert loss(logits - 1e-2 * grad, LABELS, COUNTS) < before


# ---- refusals ----


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: FocalLoss(-1), "gamma must be >= 0, got -1"),
        (lambda: DiceLoss(decay=-1), "decay must be >= 0, got -1"),
        (lambda: DiceLoss(smoothing=0), "smoothing must be > 0, got 0"),
        (lambda: DiceLoss(reading="both"), "reading must be one of per_sample, batch, got 'both'"),
        (lambda: ClassBalancedLoss(1.0), r"effective_number_beta must be in \[0, 1\), got 1"),
        (lambda: ClassBalancedLoss(base="hinge"), "base must be one of cross_entropy, focal, sigmoid, got 'hinge'"),
        (lambda: ClassBalancedLoss(average="sum"), "average must be one of rows, weights, got 'sum'"),
        (lambda: ClassBalancedLoss(gamma=-1), "gamma must be >= 0, got -1"),
        (lambda: LDAMLoss(max_margin=-1), "max_margin must be >= 0, got -1"),
        (lambda: LDAMLoss(scale=0), "scale must be > 0, got 0"),
        (lambda: LDAMLoss(effective_number_beta=1), r"effective_number_beta must be in \[0, 1\), got 1"),
        (lambda: class_margins(torch.tensor([2, 0])), "got 0 for class 1"),
        (lambda: BalancedSoftmaxLoss()(make_logits(), LABELS, torch.tensor([1, 2, 0, 4])), "got 0 for class 2"),
        (lambda: ClassBalancedLoss()(make_logits(), LABELS, COUNTS[:3]), r"class_weights must be \(4,\).*got \(3,\)"),
        (lambda: LDAMLoss()(make_logits(), LABELS, COUNTS[:3]), r"margins must be \(4,\).*got \(3,\)"),
        (lambda: FocalLoss()(make_logits(), LABELS[:2]), r"logits must be \(B, D\)"),
        (lambda: DiceLoss()(make_logits(), LABELS[:2]), r"logits must be \(B, D\)"),
    ],
)
def test_bad_input_is_named(attempt, message):
    with pytest.raises(ValueError, match=message):
        attempt()
