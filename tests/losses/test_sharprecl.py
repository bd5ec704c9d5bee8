"""SharpReCL: the rebalanced sets, eq. 11 over explicit sets and over drawn samples."""

import math

import pytest
import torch
import torch.nn.functional as F

from losses import RebalancedSamples, SharpReCLLoss, class_weights, draw_samples, hard_ratio_schedule
from losses.sharprecl import _symmetric_beta
from tests.losses import reference

READINGS = [  # of SharpReCLLoss: (class_weight, denominator, normaliser)
    (weight, denominator, normaliser)
    for weight in ("effective_number", "negative_log_prior", "none")
    for denominator in ("with_synthetic_positives", "without_synthetic_positives")
    for normaliser in ("mean", "printed")
]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def make(views=10, classes=4, dimension=6, seed=0, dtype=torch.float64, absent=()):
    """(embeddings with gradient, labels, class_counts): two views of some texts, then the prototypes."""
    generator = seeded(seed)
    present = torch.tensor([c for c in range(classes) if c not in absent])
    text_labels = present[torch.randint(len(present), (views // 2,), generator=generator)]
    labels = torch.cat((text_labels, text_labels, torch.arange(classes)))
    z = F.normalize(torch.randn(len(labels), dimension, generator=generator, dtype=dtype), dim=1)
    return z.requires_grad_(), labels, torch.tensor([50, 20, 8, 2, 1][:classes])


@pytest.fixture
def eq11(golden, unit):
    case = golden("sharprecl_eq11")
    inputs = case["inputs"]
    z = torch.cat([unit(inputs[name]) for name in ("view1_raw", "view2_raw", "proto_raw")])
    labels = torch.tensor(inputs["batch_labels"] * 2 + [0, 1, 2])
    arguments = (z, labels, unit(inputs["syn_pos_raw"]), unit(inputs["syn_neg_raw"]), torch.tensor([50, 8, 2]))
    return arguments, inputs["tau"], case


PRINTED = {"denominator": "without_synthetic_positives", "normaliser": "printed"}
GOLDEN = {  # reading -> (arguments of the loss, which of the expected figures it is, sign)
    "literal_delta_logP": ({"class_weight": "negative_log_prior", **PRINTED}, "sum", -1),
    "delta_neg_logP": ({"class_weight": "negative_log_prior", **PRINTED}, "sum", 1),
    "delta_one": ({"class_weight": "none", **PRINTED}, "sum", 1),
    "recommended_effective_number": ({}, "mean", 1),
    "recommended_neg_logP": ({"class_weight": "negative_log_prior"}, "mean", 1),
    "published_code": ({"anchor_weight": "class_0"}, "mean", 1),
}


@pytest.mark.parametrize("reading", GOLDEN)
def test_eq11_golden(eq11, reading):
    arguments, tau, case = eq11
    options, figure, sign = GOLDEN[reading]
    actual = SharpReCLLoss(tau, **options)(*arguments).item()
    assert actual == pytest.approx(sign * case["expected"][reading][figure], abs=1e-10)


def test_total_golden(golden, eq11):
    arguments, tau, _ = eq11
    total = golden("total_eq12")
    contrastive = SharpReCLLoss(tau)(*arguments).item()
    assert total["inputs"]["l_cls"] + total["inputs"]["mu"] * contrastive == pytest.approx(total["expected"], abs=1e-10)


@pytest.mark.parametrize("reading", [None, "delta_neg_logP"])
def test_moving_positives_closer_lowers_the_loss(eq11, reading):
    (z, labels, positives, negatives, counts), tau, _ = eq11
    loss = SharpReCLLoss(tau, **(GOLDEN[reading][0] if reading else {}))
    closer = F.normalize(positives + 0.5 * z[-3:, None], dim=-1)
    assert loss(z, labels, closer, negatives, counts) < loss(z, labels, positives, negatives, counts)


@pytest.mark.parametrize(("class_weight", "denominator", "normaliser"), READINGS)
def test_both_paths_match_the_formula(class_weight, denominator, normaliser):
    z, labels, counts = make()
    loss = SharpReCLLoss(0.3, class_weight, denominator, normaliser)
    samples = draw_samples(z, labels, 4, K=3, n_pos=4, n_neg=7, hard_ratio=0.6, generator=seeded())
    positives, negatives = samples.sets(z)
    weights = class_weights(counts, class_weight).tolist()
    per_anchor = reference.sharprecl_per_anchor(
        z,
        labels.tolist(),
        positives,
        negatives,
        weights,
        0.3,
        denominator == "with_synthetic_positives",
        normaliser == "printed",
    )
    expected = sum(per_anchor) / (1 if normaliser == "printed" else len(z))
    (expected_grad,) = torch.autograd.grad(expected, z, retain_graph=True)
    for actual in (loss(z, labels, positives, negatives, counts), loss.from_samples(z, labels, samples, counts)):
        (grad,) = torch.autograd.grad(actual, z, retain_graph=True)
        assert actual.item() == pytest.approx(expected.item(), abs=1e-10)
        assert torch.allclose(grad, expected_grad, atol=1e-10, rtol=0)


@pytest.mark.parametrize(("views", "classes", "n_pos", "n_neg"), [(64, 5, 10, 50), (12, 5, 0, 20), (30, 2, 3, 0)])
def test_the_fused_path_equals_explicit_sets(views, classes, n_pos, n_neg):
    z, labels, counts = make(views, classes, dimension=16)
    raw = (3 * z.detach()).requires_grad_()
    unit_rows = F.normalize(raw, dim=1)
    samples = draw_samples(unit_rows, labels, classes, 20, n_pos, n_neg, 0.7, generator=seeded())
    loss = SharpReCLLoss(0.2)
    explicit = loss(unit_rows, labels, *samples.sets(unit_rows), counts)
    fused = loss.from_samples(unit_rows, labels, samples, counts)
    assert fused.item() == pytest.approx(explicit.item(), abs=1e-10)
    explicit_grad, fused_grad = (torch.autograd.grad(value, raw, retain_graph=True)[0] for value in (explicit, fused))
    assert fused_grad.abs().max() > 1e-3
    assert torch.allclose(fused_grad, explicit_grad, atol=1e-10, rtol=0)


def test_gradcheck():
    z, labels, counts = make(views=6, classes=3)
    samples = draw_samples(z, labels, 3, K=2, n_pos=3, n_neg=4, hard_ratio=0.7, generator=seeded())
    loss = SharpReCLLoss(0.4)
    assert torch.autograd.gradcheck(lambda z: loss.from_samples(z, labels, samples, counts), z)
    assert torch.autograd.gradcheck(lambda z: loss(z, labels, *samples.sets(z), counts), z)


def test_without_samples_it_is_the_supervised_contrastive_loss():
    z, labels, counts = make(views=20, classes=3)
    actual = SharpReCLLoss(0.3, "none")(z, labels, *draw_samples(z, labels, 3, n_pos=0, n_neg=0).sets(z), counts)
    assert actual.item() == pytest.approx(reference.supervised_contrastive(z, labels.tolist(), 0.3).item(), abs=1e-10)


# The rebalanced sets


@pytest.mark.parametrize("K", [1, 3, 20, 1000])
def test_hard_sets(K):
    z, labels, _ = make(views=24, classes=4, absent=(2,))
    samples = draw_samples(z, labels, 4, K=K, n_pos=400, n_neg=800, hard_ratio=1.0, generator=seeded())
    for c in range(4):
        members, others = reference.hard_sets(z, labels.tolist(), c, 4, K)
        assert set(samples.pos_i[c].tolist()) == set(samples.pos_j[c].tolist()) == set(members)
        assert set(samples.neg_i[c].tolist()) == set(samples.neg_j[c].tolist()) == set(others)


def test_hard_sets_golden(golden, unit):
    case = golden("hard_topk_eq9")
    inputs = case["inputs"]
    z = torch.cat([unit(inputs[name]) for name in ("view1_raw", "view2_raw", "proto_raw")])
    labels = torch.tensor(inputs["batch_labels"] * 2 + [0, 1, 2])
    samples = draw_samples(z, labels, 3, inputs["k"], n_pos=100, n_neg=100, hard_ratio=1.0, generator=seeded())
    for c, expected in case["expected"].items():
        assert set(samples.pos_i[int(c)].tolist()) == set(expected["pos_idx"])
        assert set(samples.neg_i[int(c)].tolist()) == set(expected["neg_idx"])


def test_simple_samples_are_single_rows_drawn_evenly():
    z, labels, _ = make(views=16, classes=4)
    samples = draw_samples(z, labels, 4, n_pos=4000, n_neg=4000, hard_ratio=0.0, generator=seeded())
    assert torch.equal(samples.pos_i, samples.pos_j) and torch.equal(samples.neg_i, samples.neg_j)
    assert (samples.pos_alpha == 1).all() and (samples.neg_alpha == 1).all()
    for c in range(4):
        for drawn, allowed in ((samples.pos_i[c], labels == c), (samples.neg_i[c], labels != c)):
            share = drawn.bincount(minlength=len(z)) / 4000
            expected = allowed / allowed.sum()
            assert (share[~allowed] == 0).all()
            assert (share - expected).abs().max() < 5 * math.sqrt(0.25 / 4000)


def test_mixing_golden(golden, unit):
    inputs, expected = golden("mixup_eq10")["inputs"], golden("mixup_eq10")["expected"]
    rows = torch.tensor([inputs["z_i"], inputs["z_j"]], dtype=torch.float64)
    first, second = torch.tensor([[0]]), torch.tensor([[1]])
    alpha = torch.tensor([[inputs["alpha"]]], dtype=torch.float64)
    positives, negatives = RebalancedSamples(first, second, alpha, second, first, 1 - alpha).sets(rows)
    assert positives.flatten().tolist() == pytest.approx(expected["normalised"], abs=1e-10)
    assert negatives.flatten().tolist() == pytest.approx(expected["normalised"], abs=1e-10)


def test_schedule_golden(golden):
    case = golden("hard_ratio_schedule")
    z, labels, _ = make()
    for row in case["expected"]:
        ratio = hard_ratio_schedule(row["t"], row["T"])
        assert ratio == pytest.approx(row["ratio"], abs=1e-12)
        samples = draw_samples(z, labels, 4, n_pos=10, n_neg=500, hard_ratio=ratio, generator=seeded())
        assert samples.pos_i.shape == (4, 10) and samples.neg_i.shape == (4, 500)
        # A mixed sample's share is below 1 (almost surely): what is exactly 1 is simple.
        assert (samples.neg_alpha[:, : row["n_neg_simple"]] == 1).all()
        assert (samples.neg_alpha[:, row["n_neg_simple"] :] < 1).float().mean() > 0.99 or not row["n_neg_hard"]
        assert (samples.pos_alpha[:, : row["n_pos_simple"]] == 1).all()
        assert (samples.pos_alpha[:, row["n_pos_simple"] :] < 1).all()


def test_sets_are_unit_rows_with_gradient():
    z, labels, _ = make(views=20)
    positives, negatives = draw_samples(z, labels, 4, n_pos=10, n_neg=50, generator=seeded()).sets(z)
    assert positives.shape == (4, 10, 6) and negatives.shape == (4, 50, 6)
    for rows in (positives, negatives):
        assert torch.allclose(rows.norm(dim=-1), torch.ones((), dtype=rows.dtype))
        assert torch.autograd.grad(rows.sum(), z, retain_graph=True)[0].abs().sum() > 0


def test_an_absent_class_has_its_prototype_alone():
    z, labels, _ = make(absent=(1, 3))
    positives, _ = draw_samples(z, labels, 4, n_pos=10, n_neg=5, generator=seeded()).sets(z)
    for c in (1, 3):
        assert torch.allclose(positives[c], z[-4 + c].expand(10, -1))


def test_the_generator_decides_every_draw():
    z, labels, _ = make(views=40)
    first, again, other = (draw_samples(z, labels, 4, generator=seeded(seed)) for seed in (3, 3, 4))
    assert all(map(torch.equal, first, again))
    assert not torch.equal(first.neg_i, other.neg_i) and not torch.equal(first.neg_alpha, other.neg_alpha)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    draw_samples(z, labels, 4, generator=seeded())
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("beta", [0.05, 0.5, 1.0, 2.5])
def test_mixing_shares_follow_beta(beta):
    draws = _symmetric_beta(beta, 200, 1000, torch.zeros(()), seeded()).double().flatten()
    variance = 1 / (4 * (2 * beta + 1))
    fourth = variance**2 * 3 * (2 * beta + 1) / (2 * beta + 3)
    assert ((draws >= 0) & (draws <= 1)).all()
    assert draws.mean().item() == pytest.approx(0.5, abs=5 * math.sqrt(variance / len(draws)))
    assert draws.var().item() == pytest.approx(variance, abs=5 * math.sqrt(fourth / len(draws)))
    assert ((draws - 0.5) ** 4).mean().item() == pytest.approx(fourth, rel=0.05)


# Degenerate batches


@pytest.mark.parametrize("denominator", ["with_synthetic_positives", "without_synthetic_positives"])
@pytest.mark.parametrize("views", [0, 2, 8])
def test_one_class(views, denominator):
    z, labels, counts = make(views, classes=1)
    samples = draw_samples(z, labels, 1, n_pos=10, n_neg=500, generator=seeded())
    assert samples.neg_i.shape == (1, 0)
    loss = SharpReCLLoss(0.5, denominator=denominator)
    for actual in (loss.from_samples(z, labels, samples, counts), loss(z, labels, *samples.sets(z), counts)):
        (grad,) = torch.autograd.grad(actual, z)
        assert actual.isfinite() and grad.isfinite().all()


@pytest.mark.parametrize("normaliser", ["mean", "printed"])
def test_no_anchor_has_a_positive(normaliser):
    z, labels, counts = make(views=0, classes=4)
    samples = draw_samples(z, labels, 4, n_pos=0, n_neg=5, generator=seeded())
    actual = SharpReCLLoss(0.5, normaliser=normaliser).from_samples(z, labels, samples, counts)
    (grad,) = torch.autograd.grad(actual, z)
    assert actual.item() == 0 and (grad == 0).all()


def test_anchors_without_positives_are_left_out_of_the_mean():
    z, labels, counts = make(views=8, classes=4, absent=(2,))
    actual = SharpReCLLoss(0.5, "none").from_samples(z, labels, draw_samples(z, labels, 4, n_pos=0, n_neg=0), counts)
    expected = reference.supervised_contrastive(z, labels.tolist(), 0.5)
    assert actual.item() == pytest.approx(expected.item(), abs=1e-10)


def test_opposite_rows_mix_to_something_finite():
    z = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], requires_grad=True)
    labels, counts = torch.tensor([0, 1, 0, 1]), torch.tensor([3, 2])
    pair = (torch.tensor([[0], [2]]), torch.tensor([[1], [3]]), torch.tensor([[0.5], [0.5]]))
    loss = SharpReCLLoss(0.1).from_samples(z, labels, RebalancedSamples(*pair, *pair), counts)
    (grad,) = torch.autograd.grad(loss, z)
    assert loss.isfinite() and grad.isfinite().all()


def test_nearly_opposite_rows_do_not_blow_up_rounding():
    # The Gram matrix knows the norm of such a mix to about 1e-7 only; without a floor, similarities would be noise.
    z = F.normalize(torch.randn(40, 100, generator=seeded()), dim=1)
    z = torch.cat((z, F.normalize(1e-5 * torch.randn(40, 100, generator=seeded(1)) - z, dim=1)))
    labels, counts = torch.arange(80) % 2, torch.tensor([3, 2])
    i = torch.arange(40).view(2, 20)
    mixes = (i, i + 40, torch.full((2, 20), 0.5))
    samples, loss = RebalancedSamples(*mixes, *mixes), SharpReCLLoss(1.0)
    fused, explicit = loss.from_samples(z, labels, samples, counts), loss(z, labels, *samples.sets(z), counts)
    assert fused.item() == pytest.approx(explicit.item(), rel=1e-3)


def test_autocast_computes_in_float32():
    z, labels, counts = make(views=40, dimension=32, dtype=torch.float32)
    loss = SharpReCLLoss(0.3)
    samples = draw_samples(z, labels, 4, generator=seeded())
    expected = loss.from_samples(z, labels, samples, counts)
    with torch.autocast("cpu", torch.bfloat16):
        again = draw_samples(z, labels, 4, generator=seeded())
        actual = loss.from_samples(z, labels, samples, counts)
        explicit = loss(z, labels, *samples.sets(z), counts)
        half = loss.from_samples(z.bfloat16(), labels, samples, counts)
    assert all(map(torch.equal, samples, again))
    assert actual.dtype == explicit.dtype == half.dtype == torch.float32
    assert actual.item() == expected.item()
    assert explicit.item() == pytest.approx(expected.item(), rel=1e-5)
    assert half.item() == pytest.approx(expected.item(), rel=2e-2)
    assert torch.autograd.grad(half, z)[0].isfinite().all()


# Refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tau": 0}, "tau must be > 0, got 0"),
        ({"class_weight": "inverse"}, "class_weight must be one of .* got 'inverse'"),
        ({"denominator": "all"}, "denominator must be one of .* got 'all'"),
        ({"normaliser": "sum"}, "normaliser must be one of mean, printed, got 'sum'"),
        ({"anchor_weight": "row"}, "anchor_weight must be one of label, class_0, got 'row'"),
        ({"effective_number_beta": 1.0}, r"effective_number_beta must be in \[0, 1\), got 1.0"),
    ],
)
def test_loss_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        SharpReCLLoss(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"K": 0}, "K must be >= 1, got 0"),
        ({"n_neg": -1}, "n_pos and n_neg must be >= 0, got 10 and -1"),
        ({"hard_ratio": 1.5}, r"hard_ratio must be in \[0, 1\], got 1.5"),
        ({"beta": 0}, "beta must be > 0, got 0"),
        ({"num_classes": 0}, "num_classes must be >= 1, got 0"),
        ({"num_classes": 3}, r"the last 3 rows must be the prototypes, labelled 0 \.\. 2"),
    ],
)
def test_draws_are_refused_by_name(arguments, message):
    z, labels, _ = make(classes=4)
    with pytest.raises(ValueError, match=message):
        draw_samples(z, labels, **{"num_classes": 4, **arguments})


@pytest.mark.parametrize(("step", "total"), [(5, 4), (-1, 4), (0, 0)])
def test_schedule_is_refused_outside_training(step, total):
    with pytest.raises(ValueError, match=f"got {step} of {total}"):
        hard_ratio_schedule(step, total)
