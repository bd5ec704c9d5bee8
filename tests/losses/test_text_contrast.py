"""SimCSE, DualCL, PSC and SPCL against loops from their formulas, at their ends, and over two processes."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from losses import (
    DualContrastiveLoss,
    PrototypicalContrastiveLoss,
    SimCSELoss,
    SupervisedPrototypicalContrastiveLoss,
    gather,
)
from tests.losses.two_processes import assert_two_processes_equal_one

SPCL = SupervisedPrototypicalContrastiveLoss
LOSSES = {
    "simcse": SimCSELoss(0.3),
    "dualcl": DualContrastiveLoss(0.3),
    "dualcl_and_one": DualContrastiveLoss(0.3, "others_and_one", "all"),
    "psc": PrototypicalContrastiveLoss(0.3),
    "psc_all": PrototypicalContrastiveLoss(0.3, "all_classes"),
    "spcl": SPCL(0.3, margin=2.5),
    "spcl_decoupled": SPCL(0.3, decoupled=True),
}


def make(size=9, classes=4, dimension=5, dtype=torch.float64, labels=None):
    """Two sets of rows (B, D), labels of all classes but the last, prototypes (C, D); unit rows."""
    generator = torch.Generator().manual_seed(0)

    def unit(rows):
        return F.normalize(torch.randn(rows, dimension, generator=generator, dtype=dtype), dim=1)

    a, b, prototypes = unit(size).requires_grad_(), unit(size).requires_grad_(), unit(classes).requires_grad_()
    drawn = torch.randint(classes - 1, (size,), generator=generator)
    return a, b, drawn if labels is None else torch.tensor(labels, dtype=torch.long), prototypes


def value(name, a, b, labels, prototypes):
    if name == "simcse":
        return LOSSES[name](a, b)
    if name.startswith("dualcl"):
        return LOSSES[name](a, b, labels)
    if name.startswith("psc"):
        return LOSSES[name](a, labels, prototypes)
    return LOSSES[name](a, labels, prototypes, torch.arange(len(prototypes)))


def slow(name, a, b, labels, prototypes):
    a, b, prototypes = a.detach(), b.detach(), prototypes.detach()
    loss, y, size = LOSSES[name], labels.tolist(), len(a)
    if name == "simcse":
        rows = [
            -math.log(math.exp(a[i] @ b[i] / 0.3) / sum(math.exp(a[i] @ b[j] / 0.3) for j in range(size)))
            for i in range(size)
        ]
        return sum(rows) / size
    if name.startswith("dualcl"):
        halves = []
        for anchors, keys in ((b, a), (a, b)):
            rows = []
            for i in range(size):
                positives = [p for p in range(size) if p != i and y[p] == y[i]]
                total = sum(math.exp(anchors[i] @ keys[j] / 0.3) for j in range(size) if j != i)
                total += loss.denominator == "others_and_one"
                logs = [math.log(math.exp(anchors[i] @ keys[p] / 0.3) / total) for p in positives]
                if positives:
                    rows.append(-sum(logs) / len(logs))
                elif loss.anchors == "all":
                    rows.append(0.0)
            halves.append(sum(rows) / len(rows))
        return sum(halves) / 2
    if name.startswith("psc"):
        rows = []
        for i in range(size):
            scores = [math.exp(a[i] @ p / 0.3) for p in prototypes]
            own = scores[y[i]]
            rows.append(-math.log(own / (sum(scores) - (own if loss.denominator == "other_classes" else 0))))
        return sum(rows) / size
    keys = [(a[j], y[j], j) for j in range(size)] + [(p, c, None) for c, p in enumerate(prototypes)]
    rows = []
    for i in range(size):
        scores = [(((1 + a[i] @ k) / 2 + 1e-8) / 0.3, c) for k, c, j in keys if j != i]
        positive = [float(s) for s, c in scores if c == y[i]]
        negative = [float(s) for s, c in scores if c != y[i]]
        above, below = sum(map(math.exp, positive)), sum(map(math.exp, negative))
        if loss.decoupled:
            row = math.log(below) - sum(positive) / len(positive)
        else:
            row = -math.log(above / (above + below) / len(positive))
        if row > (0 if loss.decoupled else loss.margin):
            rows.append(row)
    return sum(rows) / len(rows)


@pytest.mark.parametrize("name", LOSSES)
def test_slow_reference(name):
    batch = make()
    assert value(name, *batch).item() == pytest.approx(slow(name, *batch), abs=1e-10)


@pytest.mark.parametrize("name", LOSSES)
def test_gradcheck(name):
    a, b, labels, prototypes = make()
    assert torch.autograd.gradcheck(lambda x, y, p: value(name, x, y, labels, p), (a, b, prototypes))


def test_the_margin_drops_some_texts_and_their_gradient():
    a, b, labels, prototypes = make()
    loose = SPCL(0.3, margin=0.0)(a, labels, prototypes, torch.arange(4))
    tight = SPCL(0.3, margin=1e9)(a, labels, prototypes, torch.arange(4))
    assert loose > 0 and tight.item() == 0
    assert not torch.autograd.grad(tight, a)[0].any()
    assert loose.item() != value("spcl", a, b, labels, prototypes).item()


def test_texts_that_are_not_admitted_are_no_anchors_but_stay_in_the_denominators():
    a, _, labels, prototypes = make()
    admitted = torch.arange(9) < 4
    classes, loss = torch.arange(4), SPCL(0.3, margin=0.0)
    some = loss(a, labels, prototypes, classes, admitted)
    rest = loss(a, labels, prototypes, classes, ~admitted)
    every = loss(a, labels, prototypes, classes)
    assert (4 * some + 5 * rest).item() == pytest.approx(9 * every.item(), abs=1e-10)
    assert torch.autograd.grad(some, a)[0][4:].any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a, b, y, p: SimCSELoss(0.0), "tau must be > 0, got 0"),
        (lambda a, b, y, p: SimCSELoss()(a, b[:3]), r"both views must be \(N, D\), got \(9, 5\) and \(3, 5\)"),
        (lambda a, b, y, p: DualContrastiveLoss(0.1, "ours"), "denominator must be one of others, others_and_one"),
        (lambda a, b, y, p: DualContrastiveLoss()(a, b[:3], y), r"label_embeddings must be \(9, 5\), got \(3, 5\)"),
        (lambda a, b, y, p: PrototypicalContrastiveLoss()(a, y, p[:, :3]), r"must be \(C, 5\), got \(4, 3\)"),
        (lambda a, b, y, p: SPCL()(a, y[:3], p, y[:4]), r"labels \(B,\), got \(9, 5\) and \(3,\)"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(*make())


def shared_loss(name, weight, a, b, labels, prototypes):
    z = [gather(F.normalize(x @ weight, dim=1)) for x in (a, b)]
    return value(name, *z, gather(labels), F.normalize(prototypes @ weight, dim=1))


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path):
    a, b, labels, prototypes = make()
    losses = [partial(shared_loss, name) for name in LOSSES]
    assert_two_processes_equal_one(losses, [a, b, labels], [prototypes], tmp_path)
