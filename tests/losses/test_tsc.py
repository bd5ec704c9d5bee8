"""TSC: where the targets lie, the loss against loops from the formula, at its ends, over two processes."""

import math

import pytest
import torch
import torch.nn.functional as F

from losses import TargetedContrastiveLoss, gather, uniform_targets, uniformity
from losses.queued import drawn_positives
from tests.losses.two_processes import assert_two_processes_equal_one


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def make(size=5, queue=7, classes=4, dimension=4, dtype=torch.float64):
    """(queries, labels, keys, queue, queue labels, targets)"""
    generator = seeded()

    def rows(number):
        return F.normalize(torch.randn(number, dimension, generator=generator, dtype=dtype), dim=1)

    labels = torch.randint(3, (size + queue,), generator=generator)
    return rows(size).requires_grad_(), labels[:size], rows(size), rows(queue), labels[size:], rows(classes)


def slow(queries, labels, keys, queue, queue_labels, targets, tau, drawn, target_weight):
    """`drawn`: for each query the numbers of its positives in the queue."""
    values = []
    for i in range(len(queries)):
        everything = [keys[i], *queue, *targets]
        total = sum(torch.exp(queries[i] @ v / tau) for v in everything)
        terms = [(keys[i], 1.0), *((queue[j], 1.0) for j in drawn[i]), (targets[labels[i]], target_weight)]
        value = sum(-w * torch.log(torch.exp(queries[i] @ v / tau) / total) for v, w in terms)
        values.append(value / len(terms))
    return sum(values) / len(values)


def all_of_class(labels, queue_labels):
    return [[j for j, y in enumerate(queue_labels.tolist()) if y == own] for own in labels.tolist()]


@pytest.mark.slow
@pytest.mark.parametrize(("classes", "dimension"), [(2, 8), (4, 3), (8, 128), (23, 128)])
def test_few_targets_are_the_regular_simplex(classes, dimension):
    targets = uniform_targets(classes, dimension, seeded())
    cosines = targets @ targets.T
    expected = torch.full_like(cosines, -1 / (classes - 1)).fill_diagonal_(1)
    assert torch.allclose(cosines, expected, atol=1e-4)


@pytest.mark.slow
def test_many_targets_are_spread_better_than_draws():
    drawn = F.normalize(torch.randn(20, 3, generator=seeded(), dtype=torch.float64), dim=1)
    targets = uniform_targets(20, 3, seeded()).double()
    assert torch.allclose(targets.norm(dim=1), torch.ones(20, dtype=torch.float64))
    # the published objective as printed, row by row
    expected = sum(math.log(sum(math.exp(t @ s / 0.07) for s in targets)) for t in targets) / 20
    assert uniformity(targets).item() == pytest.approx(expected, abs=1e-10)
    assert uniformity(targets) < uniformity(drawn) - 0.1
    nearest = (targets @ targets.T).fill_diagonal_(-1).amax()
    assert nearest < 0.8  # 20 caps of 37 degrees and more between centres


def test_targets_come_from_the_generator_alone():
    first = uniform_targets(5, 8, seeded(3), steps=20)
    torch.randn(3)
    assert torch.equal(first, uniform_targets(5, 8, seeded(3), steps=20))
    assert not torch.equal(first, uniform_targets(5, 8, seeded(4), steps=20))
    assert uniform_targets(1, 4, seeded()).norm().item() == pytest.approx(1)


@pytest.mark.parametrize("tau", [0.07, 0.5])
@pytest.mark.parametrize("target_weight", [0.0, 0.2, 1.0])
def test_slow_reference_with_all_positives(tau, target_weight):
    batch = make()
    expected = slow(*batch, tau, all_of_class(batch[1], batch[4]), target_weight)
    for number, generator in ((0, None), (7, seeded())):  # all by name, and all because there are no more
        actual = TargetedContrastiveLoss(tau, number, target_weight)(*batch, generator)
        assert actual.item() == pytest.approx(expected.item(), abs=1e-10)


def test_drawn_positives_stay_within_the_class_and_in_the_denominator():
    batch, seen = make(2, 30), set()
    loss = TargetedContrastiveLoss(0.5, 3)
    same = batch[1][:, None] == batch[4]
    for seed in range(20):
        drawn = drawn_positives(same, 3, seeded(seed))
        assert drawn.sum(1).tolist() == [3, 3] and not (drawn & ~same).any()
        numbers = [row.nonzero().flatten().tolist() for row in drawn]
        expected = slow(*batch, 0.5, numbers, 0.2).item()
        assert loss(*batch, seeded(seed)).item() == pytest.approx(expected, abs=1e-10)
        seen |= set(numbers[0])
    assert len(seen) == same[0].sum()


def test_gradcheck():
    queries, labels, keys, *rest = make()
    loss = TargetedContrastiveLoss(0.3, 2)
    keys.requires_grad_()
    assert torch.autograd.gradcheck(lambda q, k: loss(q, labels, k, *rest, seeded()), (queries, keys))


def test_bad_input_is_named():
    queries, labels, keys, *rest = make()
    with pytest.raises(ValueError, match="target_weight must be >= 0, got -1"):
        TargetedContrastiveLoss(target_weight=-1)
    with pytest.raises(ValueError, match="generator must be given for num_positives=6"):
        TargetedContrastiveLoss()(queries, labels, keys, *rest)
    with pytest.raises(ValueError, match=r"keys must be \(5, 4\) as the queries, got \(4, 4\)"):
        TargetedContrastiveLoss()(queries, labels, keys[1:], *rest, seeded())
    with pytest.raises(ValueError, match="num_classes must be >= 1, got 0"):
        uniform_targets(0, 4, seeded())


def shared_loss(weight, queries, labels, keys, *rest):
    z, keys = gather(F.normalize(queries @ weight, dim=1)), gather(keys)
    return TargetedContrastiveLoss(0.3, 2)(z, gather(labels), keys, *rest, seeded())


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path):
    queries, labels, keys, *rest = make()
    assert_two_processes_equal_one([shared_loss], [queries, labels, keys], rest, tmp_path)
