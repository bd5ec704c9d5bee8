"""ACL: eq. 9 in all readings, its gradients, the centres, the views of classes."""

import itertools
import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as draw

from losses import (
    ACLLoss,
    BalancedSoftmaxLoss,
    gather,
    supervised_contrastive,
    updated_centres,
    views_of_classes,
)
from tests.losses.two_processes import assert_two_processes_equal_one

CASES = {
    case["id"]: case
    for case in json.loads((Path(__file__).resolve().parent.parent / "golden" / "acl.json").read_text())["cases"]
}
READINGS = {  # option: name in the golden case
    "none": "none",
    "inverse_frequency": "raw_inverse",
    "mean_one_classes": "mean1_over_classes",
    "mean_one_negatives": "mean1_over_negatives",
    "batch_count": "inverse_batch_count",
}
DENOMINATORS = ("effective_positive", "all_positives")
OPTIONS = list(itertools.product(READINGS, DENOMINATORS, (True, False)))
# every two choices meet: the third option alternates
PAIRWISE = [(w, d, (i + j) % 2 == 0) for i, w in enumerate(READINGS) for j, d in enumerate(DENOMINATORS)]


def arguments(case):
    """(embeddings, labels, centres, is_seen, class_counts) of a golden case."""
    inputs = case["inputs"]
    z, centres = (F.normalize(torch.tensor(inputs[k], dtype=torch.float64), dim=1) for k in ("z_raw", "centres_raw"))
    counts = torch.tensor(inputs.get("class_counts", [1] * len(centres)))
    return z, torch.tensor(inputs["labels"]), centres, torch.ones(len(centres), dtype=torch.bool), counts


def make(size=9, classes=4, dimension=5, seed=0, dtype=torch.float64, seen=(0, 1, 3)):
    """A random batch in which one class has no centre yet."""
    generator = torch.Generator().manual_seed(seed)
    z = F.normalize(torch.randn(size, dimension, generator=generator, dtype=dtype), dim=1).requires_grad_()
    labels = torch.randint(classes, (size,), generator=generator)
    is_seen = torch.tensor([c in seen for c in range(classes)])
    centres = F.normalize(torch.randn(classes, dimension, generator=generator, dtype=dtype), dim=1)
    counts = torch.tensor([120, 30, 8, 2, 1][:classes])
    return z, labels, centres * is_seen[:, None], is_seen, counts


def slow(z, labels, centres, is_seen, counts, tau, weight, denominator, with_centres):
    """Eq. 9 (or eq. 1's denominator) by loops: the mean over anchors with a positive."""
    labels, counts = labels.tolist(), counts.tolist()
    keys = [(z[i], labels[i], i) for i in range(len(z))]
    if with_centres:
        keys += [(centres[c], c, None) for c in range(len(counts)) if is_seen[c]]
    inverse = [1 / n for n in counts]
    values = []
    for i in range(len(z)):
        positives = [k for k, c, j in keys if c == labels[i] and j != i]
        negatives = [(k, c) for k, c, _ in keys if c != labels[i]]
        if not positives:
            continue
        weights = [
            {
                "none": 1.0,
                "inverse_frequency": inverse[c],
                "mean_one_classes": inverse[c] / (sum(inverse) / len(inverse)),
                "mean_one_negatives": inverse[c] / (sum(inverse[d] for _, d in negatives) / len(negatives)),
                "batch_count": 1 / sum(d == c for _, d, _ in keys),
            }[weight]
            for _, c in negatives
        ]
        rest = sum(w * torch.exp(z[i] @ k / tau) for w, (k, _) in zip(weights, negatives, strict=True))
        own = [torch.exp(z[i] @ p / tau) for p in positives]
        total = sum(own) if denominator == "all_positives" else None
        terms = [-torch.log(e / ((e if total is None else total) + rest)) for e in own]
        values.append(sum(terms) / len(positives))
    return sum(values) / len(values)


@pytest.mark.parametrize(("option", "name"), READINGS.items())
def test_golden_readings(option, name):
    case = CASES["acl_eq9"]
    z, labels, *state = arguments(case)
    loss = ACLLoss(case["inputs"]["tau"], option)
    assert loss(z, labels, *state).item() == pytest.approx(case["expected"][name]["mean"], abs=1e-10)
    _, key_labels = loss._keys(z, labels, *state[:2])
    negative = labels[:, None] != key_labels
    weights = loss._log_weights(negative, key_labels, state[2]).exp().expand(len(z), -1)
    for row, keep, expected in zip(weights, negative, case["expected"][name]["weights_of_negatives"], strict=True):
        assert row[keep].tolist() == pytest.approx(expected, abs=1e-10)


@given(draw.sampled_from(OPTIONS), draw.floats(0.05, 1), draw.integers(0, 10**6), draw.sets(draw.integers(0, 3)))
def test_slow_reference(options, tau, seed, seen):
    batch = make(seed=seed, seen=seen)
    expected = slow(*batch, tau, *options).item()
    assert ACLLoss(tau, *options)(*batch).item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("options", PAIRWISE, ids=lambda o: "-".join(map(str, o)))
def test_gradcheck(options):
    z, *rest = make()
    assert torch.autograd.gradcheck(lambda x: ACLLoss(0.3, *options)(x, *rest), z)


def test_without_alignment_weights_and_centres_it_is_supervised_contrast():
    z, labels, *rest = make()
    actual = ACLLoss(0.3, "none", "all_positives", with_centres=False)(z, labels, *rest)
    expected = supervised_contrastive(z, labels, 0.3)
    assert actual.item() == pytest.approx(expected.item(), abs=1e-10)
    grads = [torch.autograd.grad(loss, z)[0] for loss in (actual, expected)]
    assert torch.allclose(*grads, atol=1e-10, rtol=0)


def test_golden_gradients_every_positive_attracts():
    case = CASES["acl_gradient_eq11"]
    z, labels, *state = arguments(case)
    tau, pairs = case["inputs"]["tau"], ACLLoss(case["inputs"]["tau"]).pair_gradients(*arguments(case))
    same = (labels[:, None] == labels).fill_diagonal_(False)
    assert (pairs[same] < 0).all() and (pairs[labels[:, None] != labels] > 0).all()
    for expected in case["expected"]:
        if not expected["is_centre"]:
            # the golden's positives are numbered among the rows of the class without the anchor
            others = [k for k in range(len(z)) if k != expected["anchor"] and labels[k] == labels[expected["anchor"]]]
            actual = pairs[expected["anchor"], others[expected["positive"]]].item() * len(z) / tau
            assert actual == pytest.approx(expected["coef_on_z_i"], abs=1e-10)


def test_golden_conflicts_of_supervised_contrast():
    case = CASES["scl_gradient_conflict_eq5"]
    z, labels, *state = arguments({"inputs": case["inputs"] | {"centres_raw": [[1.0, 0, 0]] * 3}})
    tau = case["inputs"]["tau"]
    pairs = ACLLoss(tau, "none", "all_positives", with_centres=False).pair_gradients(z, labels, *state)
    anchors = 6  # the seventh is alone in its class
    for expected in case["expected"]:
        actual = pairs[expected["anchor"], expected["positive"]].item() * anchors / tau
        assert actual == pytest.approx(expected["coef_on_z_i"], abs=1e-10)
        assert (actual > 0) == expected["repelled"]


def test_golden_centres():
    case = CASES["ema_centre_convention"]
    z, labels, centres, is_seen, _ = arguments(case)
    actual, seen = updated_centres(centres, is_seen, z, labels, case["inputs"]["momentum"])
    assert torch.allclose(actual, torch.tensor(case["expected"]["normalised"], dtype=torch.float64), atol=1e-10, rtol=0)
    assert seen.all()


def test_a_centre_starts_at_the_mean_direction_and_stays_while_absent():
    z, labels, centres, is_seen, _ = make(6)
    labels = torch.tensor([2, 2, 2, 0, 0, 0])
    actual, seen = updated_centres(centres, is_seen, z, labels, 0.9)
    assert not is_seen[2] and seen.all()
    assert torch.allclose(actual[2], F.normalize(z[:3].mean(0), dim=0))
    assert torch.equal(actual[[1, 3]], centres[[1, 3]]) and not torch.equal(actual[0], centres[0])


def test_golden_views_pairs_and_total():
    case = CASES["distribution_aware_views"]
    assert views_of_classes(torch.tensor(case["inputs"]), 2, 3, 4).tolist() == case["expected"]
    with pytest.raises(ValueError, match="few_below must be <= many_above"):
        views_of_classes(torch.tensor([3]), 2, 3, 4, many_above=10, few_below=12)
    pairs = CASES["positive_pair_counts"]["inputs"]
    counts = [m * n * (m * n - 1) for m, n in zip(pairs["m_aware"], pairs["n"], strict=True)]
    assert counts == CASES["positive_pair_counts"]["expected"]["aware"]
    soft = CASES["balanced_softmax"]["inputs"]
    logits = torch.tensor(soft["logits"], dtype=torch.float64)
    actual = BalancedSoftmaxLoss()(logits, torch.tensor(soft["labels"]), torch.tensor(soft["class_counts"])).item()
    assert actual == pytest.approx(CASES["balanced_softmax"]["expected"]["mean"], abs=1e-10)


COUNTS = torch.tensor([5, 4, 3, 2])


def test_bad_input_is_named():
    z, labels, centres, is_seen, counts = make()
    with pytest.raises(ValueError, match="tau must be > 0, got 0"):
        ACLLoss(0)
    with pytest.raises(ValueError, match="negative_weight must be one of .*, got 'inverse'"):
        ACLLoss(negative_weight="inverse")
    with pytest.raises(ValueError, match=r"centres must be \(4, 5\)"):
        ACLLoss()(z, labels, centres[:, :3], is_seen, counts)
    with pytest.raises(ValueError, match=r"momentum must be in \[0, 1\), got 1"):
        updated_centres(centres, is_seen, z, labels, 1)


def shared_loss(weight, x, labels, centres, is_seen, counts):
    z, labels = gather(F.normalize(x @ weight, dim=1)), gather(labels)
    loss = ACLLoss(0.3)(z, labels, centres, is_seen, counts)
    return loss, updated_centres(centres, is_seen, z, labels)[0]


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path):
    x, labels, *state = make()
    assert_two_processes_equal_one([shared_loss], [x, labels], state, tmp_path)
