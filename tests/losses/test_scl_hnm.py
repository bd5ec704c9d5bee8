"""SCL-HNM against its golden cases, loops from the formula, its ends, and over two processes."""

import json
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from losses import HardNegativeContrastiveLoss, gather, supervised_contrastive
from tests.losses.two_processes import assert_two_processes_equal_one

CASES = json.loads((Path(__file__).parents[1] / "golden" / "scl_hnm.json").read_text())["cases"]
EQ2 = [case for case in CASES if case["id"].startswith("scl_hnm_")]


def inputs(case):
    z = F.normalize(torch.tensor(case["inputs"]["h"], dtype=torch.float64), dim=1)
    return z, torch.tensor(case["inputs"]["labels"])


def build(case, **options):
    return HardNegativeContrastiveLoss(case["inputs"]["tau"], case["inputs"]["k"], **options)


@pytest.mark.parametrize("case", EQ2, ids=lambda case: case["id"])
def test_golden(case):
    expected = case["expected"]
    mean = expected.get("mean_over_anchors_with_positives", 0.0)
    over_all = expected.get("mean_over_all_anchors_zero_if_no_positive", 0.0)
    assert build(case)(*inputs(case)).item() == pytest.approx(mean, abs=1e-10)
    assert build(case, anchors="all")(*inputs(case)).item() == pytest.approx(over_all, abs=1e-10)


def test_golden_of_eq_1():
    case = next(case for case in CASES if case["id"] == "scl_eq1_cosine")
    actual = supervised_contrastive(*inputs(case), case["inputs"]["tau"])
    assert actual.item() == pytest.approx(case["expected"]["mean_over_anchors_with_positives"], abs=1e-10)


def slow(z, labels, tau, k):
    values = []
    for i, y in enumerate(labels.tolist()):
        similar = {j: float(z[i] @ z[j]) / tau for j in range(len(z)) if j != i}
        positives = [j for j in similar if labels[j] == y]
        negatives = sorted((j for j in similar if labels[j] != y), key=lambda j: -similar[j])[:k]
        total = sum(math.exp(similar[j]) for j in positives + negatives)
        if positives:
            values.append(-sum(math.log(math.exp(similar[p]) / total) for p in positives) / len(positives))
    return sum(values) / len(values)


@pytest.mark.parametrize("k", [1, 3, 100])
def test_slow_reference(batch, k):
    z, labels = batch(11)
    actual = HardNegativeContrastiveLoss(0.3, k)(z, labels).item()
    assert actual == pytest.approx(slow(z.detach(), labels, 0.3, k), abs=1e-10)
    assert (actual == pytest.approx(supervised_contrastive(z, labels, 0.3).item(), abs=1e-10)) == (k == 100)


def test_gradcheck(batch):
    z, labels = batch(9)
    assert torch.autograd.gradcheck(lambda x: HardNegativeContrastiveLoss(0.3, 2)(x, labels), (z,))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="num_hard_negatives must be >= 1, got 0"):
        HardNegativeContrastiveLoss(num_hard_negatives=0)
    with pytest.raises(ValueError, match="anchors must be one of with_positives, all, got 'some'"):
        HardNegativeContrastiveLoss(anchors="some")


def shared_loss(weight, x, labels):
    return HardNegativeContrastiveLoss(0.3, 3)(gather(F.normalize(x @ weight, dim=1)), gather(labels))


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(10, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(3, (10,), generator=generator)
    assert_two_processes_equal_one([shared_loss], [x, labels], [], tmp_path)
