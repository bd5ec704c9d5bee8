"""KCL: k-positive contrast against loops from the formula, and at its ends."""

import pytest
import torch

from losses import KPositiveContrastiveLoss
from losses.queued import drawn_positives
from tests.losses.test_tsc import all_of_class, make, seeded


def slow(queries, labels, keys, queue, queue_labels, tau, drawn, removed=False):
    """`drawn`: for each query the numbers of its positives in the queue."""
    values = []
    for i in range(len(queries)):
        in_total = [j for j in range(len(queue)) if not removed or j in drawn[i] or queue_labels[j] != labels[i]]
        total = sum(torch.exp(queries[i] @ v / tau) for v in [keys[i], *(queue[j] for j in in_total)])
        positives = [keys[i], *(queue[j] for j in drawn[i])]
        values.append(sum(-torch.log(torch.exp(queries[i] @ v / tau) / total) for v in positives) / len(positives))
    return sum(values) / len(values)


@pytest.mark.parametrize("tau", [0.07, 0.5])
@pytest.mark.parametrize("surplus", ["kept", "removed"])
def test_slow_reference(tau, surplus):
    *batch, _ = make(6, 20)
    loss = KPositiveContrastiveLoss(tau, 2, surplus)
    drawn = drawn_positives(batch[1][:, None] == batch[4], 2, seeded())
    assert drawn.sum(1).max() == 2 < len(all_of_class(batch[1], batch[4])[0])
    expected = slow(*batch, tau, [row.nonzero().flatten().tolist() for row in drawn], surplus == "removed")
    assert loss(*batch, seeded()).item() == pytest.approx(expected.item(), abs=1e-10)
    everything = slow(*batch, tau, all_of_class(batch[1], batch[4]))
    assert KPositiveContrastiveLoss(tau, 0, surplus)(*batch).item() == pytest.approx(everything.item(), abs=1e-10)


@pytest.mark.parametrize("surplus", ["kept", "removed"])
def test_gradcheck(surplus):
    queries, labels, keys, queue, queue_labels, _ = make(5, 12)
    loss = KPositiveContrastiveLoss(0.3, 2, surplus)
    keys.requires_grad_()
    assert torch.autograd.gradcheck(lambda q, k: loss(q, labels, k, queue, queue_labels, seeded()), (queries, keys))


def test_bad_options_are_named():
    with pytest.raises(ValueError, match="num_positives must be >= 0, got -1"):
        KPositiveContrastiveLoss(num_positives=-1)
    with pytest.raises(ValueError, match="surplus must be one of kept, removed, got 'left'"):
        KPositiveContrastiveLoss(surplus="left")
