"""Classification losses average over the global batch: two processes equal one, whatever their shares."""

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from losses import (
    BalancedSoftmaxLoss,
    BilateralLoss,
    BinaryCrossEntropy,
    ClassBalancedLoss,
    CrossEntropy,
    DiceLoss,
    FocalLoss,
    GeneralisedReweightingLoss,
    LabelAwareSmoothingLoss,
    LADELoss,
    LDAMLoss,
    LogitCompensatedCrossEntropy,
    SoftLabelLoss,
)
from tests.losses.two_processes import in_two_processes

COUNTS = torch.tensor([9, 4, 2])
LOSSES = {
    "cross_entropy": CrossEntropy(),
    "logit_compensated": LogitCompensatedCrossEntropy(),
    "balanced_softmax": BalancedSoftmaxLoss(),
    "focal": FocalLoss(),
    "lade": LADELoss(),
    "dice_per_sample": DiceLoss(0.3),
    "class_balanced_rows": ClassBalancedLoss(0.9),
    "ldam_rows": LDAMLoss(scale=3.0, average="rows"),
    "dice": DiceLoss(0.3, reading="batch"),
    "class_balanced": ClassBalancedLoss(0.9, average="weights"),
    "ldam": LDAMLoss(scale=3.0, effective_number_beta=0.9),
    "generalised_reweighting": GeneralisedReweightingLoss(),
    "label_aware_smoothing": LabelAwareSmoothingLoss(),
    "bilateral": lambda logits, labels, _: BilateralLoss()(logits, labels, logits.flip(1), (labels + 1) % 3, 0.3),
    "soft_labels": lambda logits, labels, _: SoftLabelLoss()(logits, logits.detach().sigmoid() ** 2, labels == 0),
    "binary": lambda logits, labels, _: BinaryCrossEntropy()(logits, labels[:, None] >= torch.arange(3)),
}


def make_model():
    torch.manual_seed(0)
    return torch.nn.Linear(5, 3, dtype=torch.float64)


def make_batch():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(12, 5, dtype=torch.float64, generator=generator)
    return x, torch.randint(3, (12,), generator=generator)


def results(model, x, labels):
    actual = {}
    for name, loss in LOSSES.items():
        model.zero_grad()
        extra = {"reweight": True} if name.startswith("ldam") else {}
        value = loss(model(x), labels, COUNTS, **extra)
        value.backward()
        actual[name] = (value.item(), [parameter.grad.clone() for parameter in model.parameters()])
    return actual


def worker(rank, shares, folder):
    mine = [share.split(shares)[rank] for share in make_batch()]
    torch.save(results(DistributedDataParallel(make_model()), *mine), f"{folder}/{rank}.pt")


@pytest.mark.slow
@pytest.mark.parametrize("shares", [[6, 6], [5, 7]], ids=["equal", "unequal"])
def test_two_processes_equal_one(tmp_path, shares):
    in_two_processes(worker, tmp_path, shares, str(tmp_path))
    expected = results(make_model(), *make_batch())
    for rank in range(2):
        actual = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        for name, (value, grads) in expected.items():
            assert actual[name][0] == pytest.approx(value, abs=1e-12), name
            for grad, expected_grad in zip(actual[name][1], grads, strict=True):
                assert expected_grad.abs().max() > 1e-4
                torch.testing.assert_close(grad, expected_grad, atol=1e-12, rtol=0)
