"""AECL's losses: golden values, loops from the formulas, finite differences, batches at the ends."""

import json
import math
from itertools import product
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from losses import (
    AECLLoss,
    ClusterContrastiveLoss,
    SimilarityGuidedLoss,
    assignment_entropy,
    balance_entropy,
    confident_clusters,
    divergence_from_uniform,
    pseudo_label_cross_entropy,
)

FILE = Path(__file__).resolve().parent.parent / "golden" / "aecl.json"
GOLDEN = {case["id"]: case for case in json.loads(FILE.read_text(encoding="utf-8"))["cases"]}
AS_PUBLISHED = {"directions": "log_each", "guided_pairs": "all", "weight_floor": 1e-5, "rows": "every"}
OPTIONS = {
    "default": {},
    "log_each": {"directions": "log_each"},
    "all_pairs": {"guided_pairs": "all"},
    "floor": {"weight_floor": 1e-5},
    "attention_alone": {"positives": "all"},
    "others": {"positives": "others_of_cluster"},
    "unguided": {"guided": False},
    "rows_own": AS_PUBLISHED | {"rows": "own"},
    "as_published": AS_PUBLISHED,
}


def tensor(rows):
    return torch.tensor(rows, dtype=torch.float64)


def golden(name, *keys):
    """The case's inputs under these keys as float64, and what is expected."""
    case = GOLDEN[name]
    return *(tensor(case["inputs"][key]) for key in keys), case["expected"]


def both(name, key):
    inputs = GOLDEN[name]["inputs"]
    return torch.stack([tensor(inputs[f"{key}0"]), tensor(inputs[f"{key}1"])])


def make(size=5, clusters=3, dimension=4, dtype=torch.float64, seed=0):
    """(z, h, attention, cluster of each text): views first."""
    generator = torch.Generator().manual_seed(seed)
    z, h = (torch.randn(2, size, dimension, generator=generator, dtype=dtype) for _ in range(2))
    attention = torch.randn(2, size, size, generator=generator, dtype=dtype).softmax(2)
    labels = torch.randint(clusters, (size,), generator=generator)
    return z.requires_grad_(), h.requires_grad_(), attention.requires_grad_(), labels


def make_logits(size=5, clusters=3, scale=2.0, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(2, size, clusters, generator=generator, dtype=torch.float64)).requires_grad_()


def slow_similarity_guided(z, h, attention, labels, tau, itself=True):
    """Eq. 6, 7, 9 as they are printed; without `itself` a text is not among its own positives in eq. 7."""

    def e(a, b):
        return math.exp(F.cosine_similarity(a, b, dim=0).item() / tau)

    def ratio(numerator, anchor, same, other, i):
        return numerator / sum(e(anchor[i], same[k]) + e(anchor[i], other[k]) for k in range(n) if k != i)

    n, total = len(labels), 0.0
    for i, v in product(range(n), range(2)):
        value = ratio(e(z[0][i], z[1][i]), z[0], z[0], z[1], i) + ratio(e(z[1][i], z[0][i]), z[1], z[1], z[0], i)
        near = [j for j in range(n) if labels[j] == labels[i] and (itself or j != i)]
        for a, b in ((z[v], h[v]), (h[v], z[v])):
            value += ratio(sum(attention[v][i][j].item() * e(a[i], b[j]) for j in near), a, a, b, i)
        total -= math.log(value)
    return total / (2 * n)


def slow_cluster_contrast(logits, tau, positive_in_denominator):
    """Eq. 10, 11 as they are printed, column by column."""
    p = logits.softmax(2)
    clusters, total = p.shape[2], 0.0
    for i, v in product(range(clusters), range(2)):
        columns = {(u, k): p[u][:, k] for u in (0, 1) for k in range(clusters)}
        cosine = {key: F.cosine_similarity(p[v][:, i], column, dim=0).item() for key, column in columns.items()}
        positive = math.exp(cosine[1 - v, i] / tau)
        others = sum(math.exp(c / tau) for (_, k), c in cosine.items() if k != i)
        total -= math.log(positive / (others + (positive if positive_in_denominator else 0)))
    return total / (2 * clusters)


@pytest.mark.parametrize("tau", ["0.5", "1.0"])
def test_golden_similarity_guided(tau):
    name = f"similarity_guided_eq6_7_9_tau{tau}"
    inputs = both(name, "Z"), both(name, "H"), both(name, "S")
    clusters, expected = torch.tensor(GOLDEN[name]["inputs"]["argmax_labels"]), GOLDEN[name]["expected"]
    readings = {
        "L_I": {},
        "published_loss_py_if_rows_were_aligned": AS_PUBLISHED | {"rows": "own"},
        "published_loss_py_value": AS_PUBLISHED,
    }
    for key, options in readings.items():
        actual = SimilarityGuidedLoss(float(tau), **options)(*inputs, clusters)
        assert actual.item() == pytest.approx(expected[key], abs=1e-10, rel=0)
    unguided = SimilarityGuidedLoss(float(tau), guided=False)(*inputs, clusters).item()
    assert unguided == pytest.approx(-sum(map(math.log, expected["l1"])) / 5, abs=1e-10)


@pytest.mark.parametrize("tau", ["0.5", "1.0"])
def test_golden_cluster_contrast(tau):
    *logits, expected = golden(f"cluster_contrastive_eq10_11_tau{tau}", "logits0", "logits1")
    for printed, key in ((True, "L_C"), (False, "published_loss_py_value")):
        actual = ClusterContrastiveLoss(float(tau), positive_in_denominator=not printed)(*logits).item()
        assert actual == pytest.approx(expected[key], abs=1e-10, rel=0)


def test_golden_assignments():
    logits, expected = golden("pseudo_label_eq4", "logits0")
    assert confident_clusters(logits).tolist() == [-1 if label is None else label for label in expected["pseudo"]]
    logits, expected = golden("row_entropy_eq5", "logits0")
    assert assignment_entropy(logits).item() == pytest.approx(expected, abs=1e-10, rel=0)
    a, b, expected = golden("pseudo_ce_eq12", "logits0", "logits1")
    actual = pseudo_label_cross_entropy(b, confident_clusters(a, 0.95)).item()
    assert actual == pytest.approx(expected, abs=1e-10, rel=0)
    a, b, expected = golden("balance_entropy_eq13", "logits0", "logits1")
    assert balance_entropy(a, b).item() == pytest.approx(expected["L_E2"], abs=1e-10, rel=0)
    assert divergence_from_uniform(a, b).item() == pytest.approx(expected["published_ne_loss"], abs=1e-10, rel=0)


@pytest.mark.parametrize(
    ("key", "options"),
    [
        ("stage3_recommended_minus_minus", {}),
        ("stage3_literal_plus_plus", {"entropies": "as_printed"}),
        ("stage3_code_scaling", {"balance": "divergence_from_uniform"}),
    ],
)
def test_golden_totals(key, options, monkeypatch):
    """The golden totals add the golden parts of one set of vectors and logits at tau 0.5."""
    name = "similarity_guided_eq6_7_9_tau0.5"
    logits = both("cluster_contrastive_eq10_11_tau0.5", "logits")
    loss = AECLLoss(instance_tau=0.5, cluster_tau=0.5, balance_weight=0.18, **options)
    vectors = both(name, "Z"), both(name, "H"), both(name, "S")
    # the golden clusters of L_I are not the arg max of the golden logits
    clusters = torch.tensor(GOLDEN[name]["inputs"]["argmax_labels"])
    instance = loss.instance.forward
    monkeypatch.setattr(loss.instance, "forward", lambda z, h, s, _: instance(z, h, s, clusters))
    expected = GOLDEN["totals_eq14_15"]["expected"]
    actual = loss(3, *vectors, logits)
    assert actual["loss"].item() == pytest.approx(expected[key], abs=1e-10, rel=0)
    assert loss(1, *vectors, logits)["loss"].item() == pytest.approx(expected["stage1"], abs=1e-10, rel=0)
    labels = confident_clusters(logits[0])
    assert loss(2, *vectors, logits, labels)["loss"].item() == pytest.approx(expected["stage2"], abs=1e-10, rel=0)


@pytest.mark.parametrize("tau", [0.07, 0.5, 1.0])
@pytest.mark.parametrize("clusters", [1, 2, 7])
@pytest.mark.parametrize(("positives", "itself"), [("same_cluster", True), ("others_of_cluster", False)])
def test_similarity_guided_slow_reference(tau, clusters, positives, itself):
    batch = make(6, clusters)
    expected = slow_similarity_guided(*batch, tau, itself)
    assert SimilarityGuidedLoss(tau, positives=positives)(*batch).item() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("tau", [0.1, 1.0])
@pytest.mark.parametrize("positive_in_denominator", [True, False])
def test_cluster_contrast_slow_reference(tau, positive_in_denominator):
    logits = make_logits(6, 4)
    actual = ClusterContrastiveLoss(tau, positive_in_denominator)(*logits).item()
    assert actual == pytest.approx(slow_cluster_contrast(logits, tau, positive_in_denominator), abs=1e-10)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_gradcheck_similarity_guided(options):
    z, h, attention, labels = make(4, 2)
    loss = SimilarityGuidedLoss(0.4, **options)
    assert torch.autograd.gradcheck(lambda z, h, s: loss(z, h, s, labels), (z, h, attention))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"entropies": "as_printed"}, {"balance": "divergence_from_uniform"}], ids=str)
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_gradcheck_of_the_stages(stage, options):
    z, h, attention, labels = make(4, 3)
    loss = AECLLoss(threshold=0.6, **options)

    def total(z, h, s, logits):
        return loss(stage, z, h, s, logits, labels)["loss"]

    assert torch.autograd.gradcheck(total, (z, h, attention, make_logits(4)))


def test_the_options_differ():
    batch = make(6, 2)
    values = [SimilarityGuidedLoss(**options)(*batch).item() for options in OPTIONS.values()]
    assert len({round(value, 6) for value in values}) == len(values)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_constant_weights_change_no_other_gradient(options):
    z, h, attention, labels = make(6, 2)
    losses = [SimilarityGuidedLoss(**options, attention_weights=way) for way in ("trained", "constant")]
    trained, constant = (
        torch.autograd.grad(loss(z, h, attention, labels), (z, h, attention), allow_unused=True) for loss in losses
    )
    assert constant[2] is None
    assert all(a is b is None or a.equal(b) for a, b in zip(trained[:2], constant[:2], strict=True))


def test_what_the_batch_draws_together():
    """With all attention on a text of another cluster the guided term is gone; inside the cluster it attracts."""
    z, h, _, _ = make(4, 2)
    partner = torch.tensor([1, 0, 3, 2])
    attention = F.one_hot(partner).double().expand(2, 4, 4)
    loss = SimilarityGuidedLoss()
    apart = loss(z, h, attention, torch.tensor([0, 1, 0, 1]))
    assert apart.item() == pytest.approx(SimilarityGuidedLoss(guided=False)(z, h, attention, partner).item())
    (grad,) = torch.autograd.grad(loss(z, h, attention, torch.tensor([0, 0, 1, 1])), h)
    step = h - 0.1 * grad
    cosines = [F.cosine_similarity(z, rows[:, partner], dim=2).mean() for rows in (h, step)]
    assert cosines[1] > cosines[0]


def test_zeros_in_the_attention_leave_the_gradient_finite():
    """Dropout after the soft-max sets whole rows to 0."""
    z, h, attention, labels = make(5, 1)
    kept = attention * (torch.arange(5) % 2)[:, None]
    for options in OPTIONS.values():
        loss = SimilarityGuidedLoss(**options)(z, h, kept, labels)
        gradients = torch.autograd.grad(loss, (z, h, attention), allow_unused=True, retain_graph=True)
        assert all(g is None or g.isfinite().all() for g in gradients)


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize(("size", "clusters"), [(1, 3), (4, 1), (1, 1), (2, 5)])
def test_stages_at_the_ends(stage, size, clusters):
    z, h, attention, _ = make(size)
    logits = make_logits(size, clusters)
    parts = AECLLoss()(stage, z, h, attention, logits, torch.zeros(size, dtype=torch.long))
    parts["loss"].backward()
    assert all(value.isfinite() for value in parts.values())
    assert z.grad.isfinite().all() and (logits.grad is None or logits.grad.isfinite().all())
    if stage == 3 and clusters == 1:
        assert parts["cluster"].item() == parts["row_entropy"].item() == parts["balance_entropy"].item() == 0


def test_an_empty_cluster():
    """Its column underflows in probabilities; the cosine of two such columns is that of their logarithms."""
    logits = make_logits(5, 3).detach()
    near, far = (logits - shift * tensor([0.0, 0.0, 1.0]) for shift in (20.0, 400.0))
    near.requires_grad_(), far.requires_grad_()
    loss = ClusterContrastiveLoss()
    assert far.softmax(2)[..., 2].float().abs().max() == 0
    assert loss(*far.float()).item() == pytest.approx(loss(*near).item(), abs=1e-5)
    for value in (loss(*far), assignment_entropy(far[0]), balance_entropy(*far)):
        (grad,) = torch.autograd.grad(value, far)
        assert value.isfinite() and grad.isfinite().all()


def test_entropies_at_their_ends():
    even, sharp = torch.zeros(4, 3, dtype=torch.float64), 100 * torch.eye(3, dtype=torch.float64)[[0, 1, 2, 0]]
    assert assignment_entropy(even).item() == pytest.approx(math.log(3))
    assert assignment_entropy(sharp).item() == pytest.approx(0, abs=1e-12)
    assert balance_entropy(sharp[:3], even[:3]).item() == pytest.approx(math.log(3))
    assert divergence_from_uniform(sharp[:1], sharp[:1]).item() == pytest.approx(2 * math.log(3))
    empty = torch.zeros(0, 3)
    assert assignment_entropy(empty).item() == balance_entropy(empty, empty).item() == 0
    assert pseudo_label_cross_entropy(empty, empty[:, 0].long()).item() == 0


def test_raised_entropies_soften_rows_and_even_out_clusters():
    z, h, attention, _ = make(6)
    logits = make_logits(6, 3)
    only = {"instance_weight": 0, "pseudo_weight": 0}
    for weight, measure in (
        ("row_entropy_weight", lambda rows: assignment_entropy(rows[0])),
        ("balance_weight", lambda rows: balance_entropy(*rows)),
    ):
        other = {"row_entropy_weight": 0, "balance_weight": 0}
        changes = []
        for entropies in ("raised", "as_printed"):
            losses = [
                AECLLoss(**only, **other | {weight: value}, entropies=entropies)(3, z, h, attention, logits)["loss"]
                for value in (1.0, 0.0)
            ]
            (grad,) = torch.autograd.grad(losses[0] - losses[1], logits)
            changes.append((measure(logits - 0.01 * grad) - measure(logits)).item())
        assert changes[0] > 0 > changes[1]


def test_bad_input_is_named():
    z, h, attention, labels = make()
    with pytest.raises(ValueError, match="directions must be log_each with rows=every, got 'one_log'"):
        SimilarityGuidedLoss(rows="every")
    with pytest.raises(ValueError, match="weight_floor must be >= 0, got -1"):
        SimilarityGuidedLoss(weight_floor=-1)
    with pytest.raises(ValueError, match=r"attention must be \(2, 5, 5\), got \(2, 4, 5\)"):
        SimilarityGuidedLoss()(z, h, attention[:, 1:], labels)
    with pytest.raises(ValueError, match=r"must be \(2, 5, D\), got \(2, 4, 4\) and \(2, 5, 4\)"):
        SimilarityGuidedLoss()(z[:, 1:], h, attention, labels)
    with pytest.raises(ValueError, match=r"both views must be \(N, M\), got \(5, 3\) and \(4, 3\)"):
        ClusterContrastiveLoss()(torch.zeros(5, 3), torch.zeros(4, 3))
    with pytest.raises(ValueError, match="pseudo_labels must be given in stage 2"):
        AECLLoss()(2, z, h, attention, make_logits())
    with pytest.raises(ValueError, match="stage must be one of 1, 2, 3, got 4"):
        AECLLoss()(4, z, h, attention, make_logits())
    with pytest.raises(ValueError, match="balance_weight must be >= 0, got -0.1"):
        AECLLoss(balance_weight=-0.1)
