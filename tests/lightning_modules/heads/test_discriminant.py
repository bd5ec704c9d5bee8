"""Prototypes and the semi-supervised discriminant against a slow loop, and what they are for."""

import pytest
import torch
from torch.nn import functional

from lightning_modules.heads.discriminant import (
    best_discriminant,
    discriminant_em,
    fitted_gaussians,
    nearest_prototype,
)


@pytest.fixture
def texts():
    """Unit-length embeddings (300, 6) of three classes that share a stretched covariance, their labels, rough names."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (300,), generator=generator)
    centres = torch.eye(6)[:3] * 2
    noise = torch.randn(300, 6, generator=generator) * torch.tensor([0.3, 0.3, 0.3, 2.0, 0.3, 0.3])
    anchors = functional.normalize(centres + torch.randn(3, 6, generator=generator))
    return functional.normalize(centres[labels] + noise), labels, anchors


def accuracy(solution, texts):
    return float(((texts[0] @ solution.weight.T + solution.bias).argmax(1) == texts[1]).double().mean())


def test_prototypes_are_centred_means_of_rows_and_names(texts):
    embeddings, labels, anchors = texts
    some = torch.where(torch.arange(300) < 20, labels, -1)
    origin = embeddings.mean(0)
    solution = nearest_prototype(embeddings, some, anchors, 3, 5.0, origin)
    length = sum(float((row - origin).norm()) for row in embeddings) / 300
    for c in range(3):
        prototype = sum(embeddings[i] - origin for i in range(20) if labels[i] == c)
        name = anchors[c] - anchors.mean(0)
        prototype = prototype + 5.0 * length * name / name.norm()
        torch.testing.assert_close(solution.weight[c], prototype / prototype.norm())
        torch.testing.assert_close(solution.bias[c], -(prototype / prototype.norm()) @ origin)


def test_a_step_of_em_is_the_discriminant_of_the_assignment(texts):
    embeddings, labels, anchors = texts
    some = torch.where(torch.arange(300) < 12, labels, -1)
    start = nearest_prototype(embeddings, some, anchors, 3)
    assigned = (embeddings @ start.weight.T + start.bias).argmax(1)
    weights = [4.0 if i < 12 else 1.0 for i in range(300)]
    classes = [int(labels[i]) if i < 12 else int(assigned[i]) for i in range(300)]
    rows = embeddings.double()
    total, covariance, means = sum(weights), torch.zeros(6, 6).double(), []
    for c in range(3):
        members = [i for i in range(300) if classes[i] == c]
        size = sum(weights[i] for i in members)
        mean = sum(weights[i] * rows[i] for i in members) / size
        covariance += sum(weights[i] * torch.outer(rows[i] - mean, rows[i] - mean) for i in members) / total
        means.append((mean, size))
    covariance = 0.8 * covariance + 0.2 * covariance.trace() / 6 * torch.eye(6)
    solution = discriminant_em(embeddings, some, start, shrinkage=0.2, label_rows=4.0, max_steps=1)
    for c, (mean, size) in enumerate(means):
        direction = torch.linalg.inv(covariance) @ mean
        offset = torch.log(torch.tensor(size / total)) - mean @ direction / 2
        torch.testing.assert_close(solution.weight[c].double(), direction, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(float(solution.bias[c]), float(offset), rtol=1e-4, atol=1e-4)
    gaussians = [torch.distributions.MultivariateNormal(mean, covariance) for mean, _ in means]
    shares = [size / total for _, size in means]
    mixture = sum(share * gaussian.log_prob(rows).exp() for share, gaussian in zip(shares, gaussians, strict=True))
    assert solution.log_likelihood == pytest.approx(float(mixture.log().mean()), abs=1e-4)


def test_texts_without_labels_improve_on_names_alone(texts):
    embeddings, _, anchors = texts
    names = nearest_prototype(embeddings, torch.full((300,), -1), anchors, 3)
    pool = discriminant_em(embeddings, torch.full((300,), -1), names)
    assert accuracy(pool, texts) > accuracy(names, texts) + 0.05
    assert 1 < pool.steps <= 10


def test_a_name_is_one_more_row_of_a_class_of_few(texts):
    """By a loop over rows: where the name says, and the less the more texts the class has."""
    embeddings, labels, anchors = texts
    kept = (labels > 0) | (torch.arange(300) < 30)
    rows, classes = embeddings[kept].double(), labels[kept]
    weights = torch.ones(len(rows)).double()
    weights[:5] = 4.0
    names = anchors.double() - anchors.double().mean(0)
    names = names / names.norm(dim=1, keepdim=True)
    total = float(weights.sum())
    centre = sum(weights[i] * rows[i] for i in range(len(rows))) / total
    reach = sum(float(weights[i] * ((rows[i] - centre) @ names[classes[i]])) for i in range(len(rows))) / total
    sizes = [float(weights[classes == c].sum()) for c in range(3)]
    added = [10.0 * max(1 - size / 100, 0) for size in sizes]
    assert added[0] > 0 and added[1] == 0 and reach > 0
    more = torch.stack([centre + reach * names[c] for c in range(3) if added[c]])
    more_classes = torch.tensor([c for c in range(3) if added[c]])
    more_weights = torch.tensor([share for share in added if share]).double()
    expected = fitted_gaussians(
        torch.cat([rows, more]), torch.cat([weights, more_weights]), torch.cat([classes, more_classes]), 3, 0.2
    )
    grown = torch.tensor([size + share for size, share in zip(sizes, added, strict=True)]).double()
    counted = torch.tensor([size + share / 10 for size, share in zip(sizes, added, strict=True)]).double()  # one row
    sides = (grown / grown.sum()).log(), (counted / counted.sum()).log()
    wanted = expected[0], expected[1] - sides[0] + sides[1], expected[2]
    for result, side in zip(fitted_gaussians(rows, weights, classes, 3, 0.2, None, anchors), wanted, strict=True):
        torch.testing.assert_close(result, side)
    assert not torch.equal(expected[0], fitted_gaussians(rows, weights, classes, 3, 0.2)[0])


@pytest.mark.parametrize("number", [6, 12, 60])
def test_few_texts_are_told_as_well_as_by_their_names(texts, number):
    embeddings, _, anchors = texts
    none = torch.full((number,), -1)
    of_names = nearest_prototype(embeddings[:number], none, anchors, 3)
    assert accuracy(best_discriminant(embeddings[:number], none, anchors, 3), texts) > accuracy(of_names, texts) - 0.03


def test_a_class_without_texts_or_name_takes_no_other_text(texts):
    embeddings, labels, _ = texts
    directions, offsets, _ = fitted_gaussians(embeddings.double(), torch.ones(300).double(), labels, 4, 0.1)
    assert (directions[3] == 0).all()
    assert ((embeddings.double() @ directions.T + offsets).argmax(1) < 3).sum() >= 299  # of one it is as good


def test_the_likeliest_of_the_starts_is_taken(texts):
    embeddings, _, anchors = texts
    none = torch.full((300,), -1)
    best = best_discriminant(embeddings, none, anchors, 3)
    origins = (None, embeddings.mean(0))
    starts = [nearest_prototype(embeddings, none, anchors, 3, origin=origin) for origin in origins]
    single = [discriminant_em(embeddings, none, start, anchors=anchors) for start in starts]
    assert best.log_likelihood >= max(solution.log_likelihood for solution in single)


def test_the_mean_of_all_texts_is_no_origin_where_one_class_has_most_of_them():
    generator = torch.Generator().manual_seed(0)
    labels = (torch.arange(400) < 20).long()
    scale = torch.tensor([0.3, 0.3, 1.5, 0.3])  # what the larger class differs in most has no name
    embeddings = functional.normalize(torch.eye(4)[labels] + torch.randn(400, 4, generator=generator) * scale)
    rows, unknown, anchors = (embeddings, labels), torch.full_like(labels, -1), torch.eye(4)[:2]
    split = discriminant_em(embeddings, unknown, nearest_prototype(embeddings, unknown, anchors, 2, 5.0,
                                                                   embeddings.mean(0)))  # fmt: skip
    assert accuracy(best_discriminant(embeddings, unknown, anchors, 2), rows) > 0.9 > accuracy(split, rows)


def test_a_class_that_nobody_named_is_looked_for_in_the_texts(texts):
    embeddings, labels, _ = texts
    some = torch.where((torch.arange(300) < 40) & (labels != 2), labels, -1)
    solution = discriminant_em(embeddings, some, nearest_prototype(embeddings, some, None, 3))
    assert accuracy(solution, texts) > 0.8  # without the third class at most two thirds


@pytest.mark.parametrize(("rows", "reason"), [(300, "no class has a name"), (8, "texts are too few")])
def test_nothing_to_start_from(texts, rows, reason):
    labels = torch.full((rows,), -1)
    labels[: 1 if rows == 8 else 0] = 0
    with pytest.raises(ValueError, match=reason):
        nearest_prototype(texts[0][:rows], labels, None, 3)
