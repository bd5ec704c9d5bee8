"""PaCo and GPaCo against loops from the formula, at their ends, and over two processes."""

import math

import pytest
import torch
import torch.nn.functional as F

from losses import BalancedSoftmaxLoss, ParametricContrastiveLoss, gather
from tests.losses.two_processes import assert_two_processes_equal_one

COUNTS = torch.tensor([40, 9, 3, 1])
OPTIONS = [
    {},
    {"label_smoothing": 0.1, "adjustment_strength": 0.0},
    {"positive_weight": 0.7, "centre_weight": 0.2, "contrast_weight": 0.5, "logit_temperature": 2.0},
    {"contrast_weight": 0.0},
    {"centre_weight": 0.0, "positive_weight": 1.0},
]


def make(size=6, keys=5, dimension=4, dtype=torch.float64):
    """(anchors, logits, labels, keys, key labels, class counts)"""
    generator = torch.Generator().manual_seed(0)

    def rows(number):
        return F.normalize(torch.randn(number, dimension, generator=generator, dtype=dtype), dim=1)

    labels = torch.randint(3, (size + keys,), generator=generator)
    logits = torch.randn(size, len(COUNTS), generator=generator, dtype=dtype).requires_grad_()
    return rows(size).requires_grad_(), logits, labels[:size], rows(keys), labels[size:], COUNTS


def slow(anchors, logits, labels, keys, key_labels, counts, tau=0.05, **options):
    a, b, gamma = (
        options.get(name, default)
        for name, default in {"positive_weight": 0.05, "centre_weight": 1, "contrast_weight": 1}.items()
    )
    smoothing, strength = options.get("label_smoothing", 0), options.get("adjustment_strength", 1)
    values, classes = [], len(counts)
    for i in range(len(anchors)):
        y = int(labels[i])
        prior = [math.log(n / counts.sum().item()) for n in counts.tolist()]
        f = [(logits[i, c] + strength * prior[c]) / options.get("logit_temperature", 1) for c in range(classes)]
        others = [(anchors[j], labels[j]) for j in range(len(anchors)) if j != i]
        others += list(zip(keys, key_labels, strict=True))
        total = sum(torch.exp(x) for x in f) + gamma * sum(torch.exp(anchors[i] @ k / tau) for k, _ in others)
        value, weight = 0.0, 0.0
        for c in range(classes):
            share = (1 - smoothing if c == y else smoothing / (classes - 1)) * b
            value, weight = value - share * torch.log(torch.exp(f[c]) / total), weight + share
        for k, label in others:
            if label == y:
                value, weight = value - a * torch.log(torch.exp(anchors[i] @ k / tau) / total), weight + a
        if weight > 0:
            values.append(value / weight)
    return sum(values) / len(values)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("tau", [0.05, 0.5])
def test_slow_reference(options, tau):
    actual = ParametricContrastiveLoss(tau, **options)(*make())
    assert actual.item() == pytest.approx(slow(*make(), tau, **options).item(), abs=1e-10)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_gradcheck(options):
    anchors, logits, *rest = make()
    loss = ParametricContrastiveLoss(0.3, **options)
    assert torch.autograd.gradcheck(lambda z, f: loss(z, f, *rest), (anchors, logits))


def test_without_the_samples_it_is_balanced_softmax():
    anchors, logits, labels, *rest = make()
    actual = ParametricContrastiveLoss(positive_weight=0.0, contrast_weight=0.0)(anchors, logits, labels, *rest)
    assert actual.item() == pytest.approx(BalancedSoftmaxLoss()(logits, labels, COUNTS).item(), abs=1e-10)


def test_a_single_class_has_no_other_to_smooth_towards():
    anchors, logits, labels, keys, key_labels, _ = make()
    loss = ParametricContrastiveLoss(label_smoothing=0.1)
    assert loss(anchors, logits[:, :1], labels * 0, keys, key_labels * 0, COUNTS[:1]).isfinite()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tau": 0}, "tau must be > 0, got 0"),
        ({"positive_weight": -1}, "positive_weight must be >= 0, got -1"),
        ({"logit_temperature": 0}, "logit_temperature must be > 0, got 0"),
        ({"label_smoothing": 1}, r"label_smoothing must be in \[0, 1\), got 1"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        ParametricContrastiveLoss(**options)


def test_bad_shapes_are_named():
    anchors, logits, *rest = make()
    with pytest.raises(ValueError, match=r"logits must be \(6, 4\), got \(6, 3\)"):
        ParametricContrastiveLoss()(anchors, logits[:, :3], *rest)


def shared_loss(weight, anchors, logits, labels, keys, key_labels, counts):
    """Anchors and logits over all processes; the keys, a queue, are the same on each."""
    z, f = gather(F.normalize(anchors @ weight, dim=1)), gather(logits @ weight)
    return ParametricContrastiveLoss(0.3)(z, f, gather(labels), keys, key_labels, counts)


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path):
    anchors, logits, labels, *rest = make()
    assert_two_processes_equal_one([shared_loss], [anchors, logits, labels], rest, tmp_path)
