"""Losses of SCCL, RSTC, Self-Train and CCSSL: loops from the formulas, an optimizer for the transport, the ends."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import minimize

from losses import (
    ClassAwareClusteringLoss,
    ClassAwareContrastiveLoss,
    RSTCLoss,
    SCCLLoss,
    StudentTClusteringLoss,
    info_nce,
    self_adaptive_transport,
    sharpened_targets,
    student_t_log_assignments,
)


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def unit(*shape, seed=0):
    return F.normalize(normal(*shape, seed=seed), dim=-1)


# Student's t

def slow_student_t(embeddings, centres, alpha):
    rows = []
    for e in embeddings:
        kernel = [(1 + ((e - c) ** 2).sum().item() / alpha) ** (-(alpha + 1) / 2) for c in centres]
        rows.append([value / sum(kernel) for value in kernel])
    return rows


def slow_targets(q, frequencies):
    rows = [[value**2 / f for value, f in zip(row, frequencies, strict=True)] for row in q]
    return [[value / sum(row) for value in row] for row in rows]


@pytest.mark.parametrize("alpha", [1.0, 10.0])
@pytest.mark.parametrize("clusters", [1, 2, 6])
def test_student_t_slow_reference(alpha, clusters):
    embeddings, centres = 3 * normal(5, 4), 3 * normal(clusters, 4, seed=1)
    q = slow_student_t(embeddings, centres, alpha)
    log_q = student_t_log_assignments(embeddings, centres, alpha)
    assert torch.allclose(log_q.exp(), torch.tensor(q, dtype=torch.float64), atol=1e-10, rtol=0)
    p = slow_targets(q, [sum(row[j] for row in q) for j in range(clusters)])
    assert torch.allclose(sharpened_targets(log_q), torch.tensor(p, dtype=torch.float64), atol=1e-10, rtol=0)
    expected = sum(p[i][j] * math.log(p[i][j] / q[i][j]) for i in range(5) for j in range(clusters))
    actual = StudentTClusteringLoss(alpha)(embeddings, centres).item()
    assert actual == pytest.approx(expected / 5, abs=1e-10)


def test_targets_of_given_frequencies():
    log_q = student_t_log_assignments(normal(4, 3), normal(3, 3, seed=1))
    frequencies = [7.0, 2.0, 1.0]
    actual = sharpened_targets(log_q, torch.tensor(frequencies).double().log())
    expected = slow_targets(log_q.exp().tolist(), frequencies)
    assert torch.allclose(actual, torch.tensor(expected, dtype=torch.float64), atol=1e-10, rtol=0)


def test_gradient_flows_through_assignments_alone():
    embeddings, centres = normal(4, 3).requires_grad_(), normal(2, 3, seed=1).requires_grad_()
    loss = StudentTClusteringLoss()
    targets = sharpened_targets(student_t_log_assignments(embeddings, centres))
    assert torch.autograd.gradcheck(lambda e, c: loss(e, c, targets), (embeddings, centres))
    by_default = torch.autograd.grad(loss(embeddings, centres), centres)[0]
    assert torch.equal(by_default, torch.autograd.grad(loss(embeddings, centres, targets), centres)[0])


@pytest.mark.parametrize(("size", "clusters"), [(0, 3), (1, 3), (3, 1)])
def test_student_t_at_the_ends(size, clusters):
    embeddings, centres = normal(size, 2).requires_grad_(), normal(clusters, 2, seed=1).requires_grad_()
    loss = StudentTClusteringLoss()(embeddings, centres)
    gradients = torch.autograd.grad(loss, (embeddings, centres))
    assert loss.isfinite() and all(g.isfinite().all() for g in gradients)
    if size == 0 or clusters == 1:
        assert loss.item() == pytest.approx(0, abs=1e-12)
        assert all(torch.allclose(g, torch.zeros_like(g)) for g in gradients)


def test_a_text_on_a_centre_and_a_far_cluster():
    centres = torch.tensor([[0.0, 0.0], [1e8, 0.0]]).requires_grad_()
    embeddings = torch.zeros(3, 2, requires_grad=True)
    loss = StudentTClusteringLoss()(embeddings, centres)
    assert loss.isfinite() and all(g.isfinite().all() for g in torch.autograd.grad(loss, (embeddings, centres)))


# totals

def test_sccl_adds_its_parts():
    a, b, embeddings, centres = unit(5, 4), unit(5, 4, seed=1), normal(5, 3), normal(2, 3, seed=2)
    parts = SCCLLoss(0.5, 10.0, 3.0)(a, b, embeddings, centres)
    contrastive, clustering = info_nce(a, b, 0.5), StudentTClusteringLoss(10.0)(embeddings, centres)
    assert parts["loss"].item() == pytest.approx((3 * contrastive + clustering).item(), abs=1e-12)
    assert parts["contrastive"] == contrastive and parts["clustering"] == clustering


def test_rstc_slow_reference():
    a, b, logits, labels = unit(4, 3), unit(4, 3, seed=1), normal(2, 4, 3, seed=2), torch.tensor([0, 2, 2, 1])
    parts = RSTCLoss(1.0, 2.0)(a, b, logits, labels)
    p = logits.softmax(2)
    pseudo = -sum(math.log(p[v, i, labels[i]]) for v in range(2) for i in range(4)) / 4
    assert parts["loss"].item() == pytest.approx(2 * info_nce(a, b, 1.0).item() + pseudo, abs=1e-10)
    assert RSTCLoss()(a[:1], b[:1], logits[:, :1], labels[:1])["loss"].isfinite()


# transport

def objective(log_plan, log_p, e1, e2):
    """RSTC, eq. 4, of a plan given by unconstrained numbers whose rows are normalised to 1/N."""
    plan = np.exp(log_plan.reshape(log_p.shape))
    plan = plan / plan.sum(1, keepdims=True) / len(plan)
    b = plan.sum(0)
    entropy = (plan * (np.log(plan) - 1)).sum()
    return -(plan * log_p).sum() + e1 * entropy - e2 * (np.log(b) + np.log1p(-b)).sum()


@pytest.mark.slow
@pytest.mark.parametrize(("e1", "e2"), [(0.1, 0.1), (0.1, 1.0), (0.05, 0.01), (1.0, 5.0)])
def test_transport_against_an_optimizer(e1, e2):
    log_p = (2 * normal(6, 3) + torch.tensor([3.0, 0.0, 0.0])).log_softmax(1)
    actual = self_adaptive_transport(log_p, e1, e2, tolerance=1e-9)
    reference = minimize(objective, np.zeros(18), (log_p.numpy(), e1, e2), method="BFGS", options={"gtol": 1e-7})
    plan = np.exp(reference.x.reshape(6, 3))
    plan = plan / plan.sum(1, keepdims=True) / 6
    assert np.abs(actual.plan.numpy() - plan).max() < 1e-4
    # the optimizer stops a little above the least value
    value = objective(actual.plan.log().numpy(), log_p.numpy(), e1, e2)
    assert reference.fun - 1e-5 < value <= reference.fun + 1e-9
    assert torch.allclose(actual.plan.sum(1), torch.full((6,), 1 / 6, dtype=torch.float64))
    assert torch.allclose(actual.plan.sum(0), actual.sizes, atol=1e-6) and actual.sizes.sum().item() == pytest.approx(1)


def test_uniform_sizes_are_sinkhorn():
    log_p = normal(6, 3).log_softmax(1)
    kernel = np.exp(log_p.numpy() / 0.2)
    u, v = np.ones(6), np.ones(3)
    for _ in range(5000):
        u = 1 / 6 / (kernel @ v)
        v = 1 / 3 / (kernel.T @ u)
    actual = self_adaptive_transport(log_p, 0.2, sizes="uniform", tolerance=1e-12, max_iterations=5000)
    assert np.abs(actual.plan.numpy() - u[:, None] * kernel * v).max() < 1e-10


@pytest.mark.slow
def test_sizes_adapt_between_the_data_and_even_ones():
    shares = torch.tensor([0.7, 0.2, 0.1]).double()
    truth = torch.tensor([0] * 14 + [1] * 4 + [2] * 2)
    log_p = (6.0 * F.one_hot(truth, 3).double()).log_softmax(1)
    sizes = [self_adaptive_transport(log_p, 0.1, e2).sizes for e2 in (1e-3, 1.0, 100.0)]
    spread = [(size - 1 / 3).abs().sum().item() for size in sizes]
    assert torch.allclose(sizes[0], shares, atol=0.02) and spread[0] > spread[1] > spread[2] and spread[2] < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("e1", [1e-3, 1e-2])
def test_nothing_underflows(e1):
    """exp(log p / e1) is 0 in double precision from log p = -0.75 on at e1 = 1e-3."""
    log_p = (30 * normal(40, 5, dtype=torch.float32)).log_softmax(1)
    actual = self_adaptive_transport(log_p, e1, 0.1, max_iterations=200)
    assert actual.plan.isfinite().all() and torch.allclose(actual.plan.sum(1), torch.full((40,), 1 / 40), rtol=1e-3)


def test_rows_hold_even_where_the_iterations_end_early():
    log_p = (5 * normal(30, 4)).log_softmax(1)
    actual = self_adaptive_transport(log_p, 0.02, 1.0, max_iterations=3)
    assert actual.gap > 1e-4
    assert torch.allclose(actual.plan.sum(1), torch.full((30,), 1 / 30, dtype=torch.float64))


@pytest.mark.parametrize(("size", "clusters"), [(1, 3), (4, 1), (1, 1)])
def test_transport_at_the_ends(size, clusters):
    actual = self_adaptive_transport(normal(size, clusters).log_softmax(1))
    assert actual.plan.sum().item() == pytest.approx(1) and actual.sizes.sum().item() == pytest.approx(1)


def test_an_empty_cluster_gets_its_share():
    log_p = torch.tensor([[0.0, 0.0, -500.0]]).double().log_softmax(1).repeat(6, 1)
    actual = self_adaptive_transport(log_p, 0.1, 0.1)
    assert actual.plan.isfinite().all() and actual.plan.sum(0)[2] > 1e-5


# class-aware contrast

def slow_class_aware(z, labels, confidence, tau, threshold):
    texts = len(labels)
    total = 0.0
    for i in range(2 * texts):
        others = [k for k in range(2 * texts) if k != i]
        weights = []
        for k in others:
            a, b = i % texts, k % texts
            kept = labels[a] == labels[b] and confidence[a] > threshold and confidence[b] > threshold
            weights.append(1.0 if a == b else confidence[a] * confidence[b] if kept else 0.0)
        denominator = sum(math.exp(z[i] @ z[k] / tau) for k in others)
        logs = [math.log(math.exp(z[i] @ z[k] / tau) / denominator) for k in others]
        total -= sum(w * value for w, value in zip(weights, logs, strict=True)) / sum(weights)
    return total / (2 * texts)


@pytest.mark.parametrize("threshold", [0.0, 0.6, 1.0])
def test_class_aware_slow_reference(threshold):
    z, labels = unit(10, 4).requires_grad_(), torch.tensor([0, 1, 0, 0, 1])
    confidence = torch.tensor([0.9, 0.7, 0.5, 0.95, 0.65]).double()
    loss = ClassAwareContrastiveLoss(0.3, threshold)
    expected = slow_class_aware(z.detach(), labels.tolist(), confidence.tolist(), 0.3, threshold)
    assert loss(z, labels, confidence).item() == pytest.approx(expected, abs=1e-10)
    assert torch.autograd.gradcheck(lambda z: loss(z, labels, confidence), (z,))
    if threshold == 1.0:
        assert expected == pytest.approx(info_nce(z[:5], z[5:], 0.3).item())


def test_class_aware_clustering_replaces_the_contrast_alone():
    z, h, attention, logits = normal(2, 5, 4), normal(2, 5, 4, seed=1), normal(2, 5, 5).softmax(2), 3 * normal(2, 5, 3)
    parts = ClassAwareClusteringLoss(0.5, 0.6)(3, z, h, attention, logits)
    confidence, clusters = logits[0].softmax(1).max(1)
    expected = ClassAwareContrastiveLoss(0.5, 0.6)(F.normalize(z, dim=2).flatten(0, 1), clusters, confidence)
    assert parts["instance"].item() == pytest.approx(expected.item(), abs=1e-12)
    assert set(parts) == {"loss", "instance", "pseudo", "cluster", "row_entropy", "balance_entropy"}


# all

def test_bad_input_is_named():
    with pytest.raises(ValueError, match="alpha must be > 0, got 0"):
        StudentTClusteringLoss(0)
    with pytest.raises(ValueError, match=r"centres \(M, D\), got \(4, 3\) and \(2, 2\)"):
        student_t_log_assignments(normal(4, 3), normal(2, 2))
    with pytest.raises(ValueError, match="contrastive_weight must be >= 0, got -1"):
        SCCLLoss(contrastive_weight=-1)
    with pytest.raises(ValueError, match="size_weight must be > 0, got 0"):
        self_adaptive_transport(normal(4, 3), size_weight=0)
    with pytest.raises(ValueError, match=r"log_p must be \(N, M\) of finite numbers, not empty, got \(0, 3\)"):
        self_adaptive_transport(normal(0, 3))
    with pytest.raises(ValueError, match="threshold must be in"):
        ClassAwareContrastiveLoss(threshold=2)
    with pytest.raises(ValueError, match=r"embeddings must be \(6, D\) and confidence \(3,\), got \(4, 2\) and \(3,\)"):
        ClassAwareContrastiveLoss()(normal(4, 2), torch.zeros(3), torch.zeros(3))
