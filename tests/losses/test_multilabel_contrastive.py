"""The multi-label contrastive loss against its golden cases, loops from the formula, its ends, two processes."""

import json
import math
from pathlib import Path

import pytest
import torch

from losses import MultiLabelContrastiveLoss, gather
from tests.losses.two_processes import assert_two_processes_equal_one

CASES = json.loads((Path(__file__).parents[1] / "golden" / "knn_mltc.json").read_text())["cases"]
GOLDEN = [case for case in CASES if case["id"].startswith("ml_contrastive")]


def rows(size=10, seed=0, classes=4):
    generator = torch.Generator().manual_seed(seed)
    z = 3 * torch.randn(size, 4, generator=generator, dtype=torch.float64)
    return z.requires_grad_(), (torch.rand(size, classes, generator=generator) < 0.35).long()


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["id"])
def test_golden(case):
    z = torch.tensor(case["inputs"]["z"], dtype=torch.float64)
    labels = torch.tensor(case["inputs"]["labels"])
    beta = "binary" if "without_beta" in case["id"] else "dynamic"
    for reduction, expected in (("sum", "total_sum"), ("mean", "mean_over_rows_with_a_positive")):
        actual = MultiLabelContrastiveLoss(case["inputs"]["tau"], beta, reduction)(z, labels)
        assert actual.item() == pytest.approx(case["expected"][expected], abs=1e-10)


def slow(z, labels, tau, binary):
    total = 0.0
    for i in range(len(z)):
        others = [j for j in range(len(z)) if j != i]
        shared = {j: int((labels[i] & labels[j]).sum()) for j in others}
        shared = {j: min(c, 1) if binary else c for j, c in shared.items()}
        near = {j: math.exp(-math.dist(z[i], z[j]) / tau) for j in others}
        for j in others:
            if shared[j]:
                total -= shared[j] / sum(shared.values()) * math.log(near[j] / sum(near.values()))
    return total


@pytest.mark.parametrize("beta", ["dynamic", "binary"])
def test_slow_reference(beta):
    z, labels = rows()
    actual = MultiLabelContrastiveLoss(2.0, beta, "sum")(z, labels).item()
    assert actual == pytest.approx(slow(z.tolist(), labels, 2.0, beta == "binary"), abs=1e-10)


def test_the_ablation_differs():
    assert MultiLabelContrastiveLoss(2.0)(*rows()) != MultiLabelContrastiveLoss(2.0, "binary")(*rows())


def test_gradcheck():
    z, labels = rows(7)
    assert torch.autograd.gradcheck(lambda x: MultiLabelContrastiveLoss(2.0)(x, labels), (z,))


def test_equal_rows_have_a_finite_gradient():
    z, labels = rows(6)
    z = z.detach()[[0, 0, 1, 2, 2, 2]].requires_grad_()
    labels[:, 0] = 1
    (grad,) = torch.autograd.grad(MultiLabelContrastiveLoss(1.0)(z, labels), z)
    assert grad.isfinite().all() and grad.any()


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="beta must be one of dynamic, binary, got 'static'"):
        MultiLabelContrastiveLoss(beta="static")
    with pytest.raises(ValueError, match=r"labels \(B, C\), got \(10, 4\) and \(10,\)"):
        MultiLabelContrastiveLoss()(rows()[0], torch.zeros(10))


def shared_loss(weight, x, labels):
    return MultiLabelContrastiveLoss(2.0)(gather(x @ weight), gather(labels))


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path):
    assert_two_processes_equal_one([shared_loss], rows(), [], tmp_path)
