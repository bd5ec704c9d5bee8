"""Supervised contrastive loss and InfoNCE: golden values, slow references, gradients, degenerate batches."""

import importlib

import pytest
import torch
import torch.nn.functional as F

from losses import InfoNCELoss, SupervisedContrastiveLoss, info_nce, supervised_contrastive
from tests.losses import reference

implementation = importlib.import_module("losses.supervised_contrastive")


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few rows, so that a small batch passes through all of the blocked code."""

    def use(tile, symmetric_from):
        monkeypatch.setattr(implementation, "TILE", tile)
        monkeypatch.setattr(implementation, "SYMMETRIC_FROM", symmetric_from)

    return use


def value_and_grad(loss, z):
    return loss.item(), torch.autograd.grad(loss, z)[0]


def test_supervised_golden(golden, unit):
    case = golden("scl_eq2")
    loss = supervised_contrastive(
        unit(case["inputs"]["z_raw"]), torch.tensor(case["inputs"]["labels"]), case["inputs"]["tau"]
    )
    assert loss.item() == pytest.approx(case["expected"]["mean_over_anchors_with_positives"], abs=1e-10)


def test_the_reference_meets_the_golden_anchors(golden, unit):
    case = golden("scl_eq2")
    values = reference.supervised_contrastive_per_anchor(
        unit(case["inputs"]["z_raw"]), case["inputs"]["labels"], case["inputs"]["tau"]
    )
    assert [None if v is None else v.item() for v in values] == [
        None if v is None else pytest.approx(v, abs=1e-10) for v in case["expected"]["per_anchor"]
    ]


def test_info_nce_golden(golden, unit):
    case = golden("infonce_eq1")
    a, b = unit(case["inputs"]["z_raw"]), unit(case["inputs"]["z_aug_raw"])
    tau, expected = case["inputs"]["tau"], case["expected"]
    assert InfoNCELoss(tau)(a, b).item() == pytest.approx(expected["reading_B_is_2N_views"]["ntxent_mean"], abs=1e-10)
    assert InfoNCELoss(tau, "originals")(a, b).item() == pytest.approx(
        expected["reading_B_is_N_originals"]["batch_sum"], abs=1e-10
    )


# One block, rows in blocks (the last one ragged), symmetric tiles (ragged), one tile an element.
@pytest.mark.parametrize(("tile", "symmetric_from"), [(512, 10**9), (4, 10**9), (4, 0), (1, 0), (512, 0)])
@pytest.mark.parametrize("tau", [0.1, 0.5])
def test_supervised_matches_the_formula(batch, small_blocks, tile, symmetric_from, tau):
    small_blocks(tile, symmetric_from)
    z, labels = batch(14)
    value, grad = value_and_grad(supervised_contrastive(z, labels, tau), z)
    expected, expected_grad = value_and_grad(reference.supervised_contrastive(z, labels.tolist(), tau), z)
    assert value == pytest.approx(expected, abs=1e-10)
    assert torch.allclose(grad, expected_grad, atol=1e-10, rtol=0)


@pytest.mark.parametrize("mode", ["views", "originals"])
@pytest.mark.parametrize(("tile", "symmetric_from"), [(512, 10**9), (3, 0)])
def test_info_nce_matches_the_formula(batch, small_blocks, tile, symmetric_from, mode):
    small_blocks(tile, symmetric_from)
    (a, _), (b, _) = batch(5), batch(5, seed=1)
    actual, expected = info_nce(a, b, 0.3, mode), reference.info_nce(a, b, 0.3, mode)
    assert actual.item() == pytest.approx(expected.item(), abs=1e-10)
    for grad, expected_grad in zip(
        torch.autograd.grad(actual, (a, b)), torch.autograd.grad(expected, (a, b)), strict=True
    ):
        assert torch.allclose(grad, expected_grad, atol=1e-10, rtol=0)


@pytest.mark.parametrize(("tile", "symmetric_from"), [(512, 10**9), (4, 10**9), (4, 0)])
def test_gradcheck(batch, small_blocks, tile, symmetric_from):
    small_blocks(tile, symmetric_from)
    z, labels = batch(9)
    assert torch.autograd.gradcheck(lambda z: supervised_contrastive(z, labels, 0.4), z)
    other, _ = batch(9, seed=1)
    for mode in ("views", "originals"):
        assert torch.autograd.gradcheck(lambda a, b, mode=mode: info_nce(a, b, 0.4, mode), (z, other))


def test_large_batch_in_float32_matches_one_shot_in_float64(batch):
    z, labels = batch(1300, classes=20, dimension=16, dtype=torch.float32)
    value, grad = value_and_grad(supervised_contrastive(z, labels, 0.1), z)
    wide = z.detach().double().requires_grad_()
    logits = (wide @ wide.T / 0.1).fill_diagonal_(-torch.inf)
    positive = (labels[:, None] == labels).fill_diagonal_(False)
    log_p = logits.log_softmax(1).masked_fill(~positive, 0)
    expected, expected_grad = value_and_grad(-(log_p.sum(1) / positive.sum(1)).mean(), wide)
    assert value == pytest.approx(expected, rel=1e-5)
    assert torch.allclose(grad.double(), expected_grad, atol=1e-8)


@pytest.mark.parametrize("tau", [0.001, 0.01])
def test_sharp_temperatures_stay_finite(batch, small_blocks, tau):
    small_blocks(4, 0)  # asks for the symmetric tiles; the size of the logits must send it to whole rows
    z, labels = batch(12, dtype=torch.float32)
    value, grad = value_and_grad(supervised_contrastive(z, labels, tau), z)
    expected = supervised_contrastive(z.double(), labels, tau).item()
    assert value == pytest.approx(expected, rel=1e-4) and grad.isfinite().all()


def test_one_class_is_finite(batch):
    z, _ = batch(6)
    value, grad = value_and_grad(supervised_contrastive(z, torch.zeros(6, dtype=torch.long), 0.5), z)
    assert value > 0 and grad.isfinite().all() and grad.abs().sum() > 0


def test_autocast_computes_in_float32(batch):
    z, labels = batch(40, dimension=16, dtype=torch.float32)
    expected = supervised_contrastive(z, labels, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        actual = supervised_contrastive(z, labels, 0.1)
        half = supervised_contrastive(z.bfloat16(), labels, 0.1)
        views = info_nce(z.bfloat16(), z.bfloat16(), 0.1)
    assert actual.dtype == half.dtype == views.dtype == torch.float32
    assert actual.item() == expected.item()
    assert half.item() == pytest.approx(expected.item(), rel=2e-2) and views.isfinite()
    (grad,) = torch.autograd.grad(half, z)
    assert grad.isfinite().all()


def test_attraction_lowers_the_loss(batch):
    z, labels = batch(10)
    loss = supervised_contrastive(z, labels, 0.5)
    moved = F.normalize(z - 0.1 * torch.autograd.grad(loss, z)[0], dim=1)
    assert supervised_contrastive(moved, labels, 0.5) < loss
    centre = F.one_hot(labels, 4).double()
    assert supervised_contrastive(F.normalize(z + centre, dim=1), labels, 0.5) < loss


def test_labels_may_be_any_integers(batch):
    z, labels = batch(12)
    assert supervised_contrastive(z, labels * 1000 - 7, 0.5).item() == supervised_contrastive(z, labels, 0.5).item()


def test_no_gradient_no_work_for_it(batch):
    z, labels = batch(8)
    with torch.no_grad():
        loss = supervised_contrastive(z, labels, 0.5)
    assert not loss.requires_grad and loss.item() == supervised_contrastive(z, labels, 0.5).item()


def test_a_nan_is_not_hidden():
    z = torch.full((4, 2), torch.nan, requires_grad=True)
    assert supervised_contrastive(z, torch.tensor([0, 0, 1, 1]), 0.5).isnan()


@pytest.mark.parametrize("loss", [SupervisedContrastiveLoss, InfoNCELoss])
@pytest.mark.parametrize("tau", [0, -1.0, float("nan")])
def test_tau_is_refused_by_name(loss, tau):
    with pytest.raises(ValueError, match=f"tau must be > 0, got {tau}"):
        loss(tau)


def test_shapes_are_refused_by_name():
    with pytest.raises(ValueError, match=r"labels \(B,\) or \(B, C\), got \(4, 2\) and \(3,\)"):
        supervised_contrastive(torch.zeros(4, 2), torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match=r"both views must be \(N, D\), got \(4, 2\) and \(3, 2\)"):
        info_nce(torch.zeros(4, 2), torch.zeros(3, 2))
    with pytest.raises(ValueError, match="batch must be one of views, originals, got 'both'"):
        InfoNCELoss(batch="both")
