"""The grouping that halves of the rows agree on, where groups are of one size, of very different ones, or not there."""

import numpy as np
import pytest

from clustering.agreement import agreements, grouped, joined, most_agreed
from clustering.kmeans import means, unit_rows
from clustering.scores import clustering_scores


def rows_in_groups(sizes, spread, dimension=20, seed=0):
    """Unit-length rows about random directions; (N, D), (N,)."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    centres = unit_rows(rng.normal(size=(len(sizes), dimension)))
    noise = rng.normal(size=(len(labels), dimension)) * spread / dimension**0.5
    return unit_rows((centres[labels] + noise).astype(np.float32)), labels


def test_a_group_that_holds_most_rows_is_not_split():
    vectors, labels = rows_in_groups([600, *[12] * 14], spread=0.7)
    best = most_agreed(vectors, 15, np.random.default_rng(0))
    assert max(best.figures, key=best.figures.get) == "agreement/ward_average"
    assert clustering_scores(labels, best.assignments)["acc"] > 0.99
    of_kmeans = grouped(vectors, 15, np.random.default_rng(0), "kmeans")
    assert clustering_scores(labels, of_kmeans.assignments)["acc"] < 0.7


def test_groups_of_one_size_that_touch_are_left_to_kmeans():
    vectors, labels = rows_in_groups([150] * 4, spread=2.5, dimension=50)
    best = most_agreed(vectors, 4, np.random.default_rng(0))
    reached = best.figures
    assert reached["agreement/ward_average"] + 0.1 < reached["agreement/ward"] + 0.05 < reached["agreement/kmeans"]
    assert clustering_scores(labels, best.assignments)["acc"] > 0.9


def test_nobody_agrees_on_noise():
    vectors, _ = rows_in_groups([400], spread=50)
    assert max(agreements(vectors, 5, np.random.default_rng(0)).values()) < 0.3
    assert agreements(vectors, 5, np.random.default_rng(0), repeats=1, sample_rows=6), "halves hold as many as clusters"


@pytest.mark.parametrize("by", ["kmeans", "ward", "ward_average"])
def test_rows_go_to_the_nearest_mean(by):
    vectors, _ = rows_in_groups([40, 20, 10], spread=0.9)
    result = grouped(vectors, 3, np.random.default_rng(0), by)
    squares = ((vectors[:, None] - result.centres) ** 2).sum(2)
    assert (result.assignments == squares.argmin(1)).all()
    assert result.inertia == pytest.approx(squares.min(1).sum(), rel=1e-5)


@pytest.mark.parametrize("number", [1, 4, 12])
def test_clusters_are_joined_whose_texts_are_nearest_on_the_mean_over_all_pairs(number):
    vectors, _ = rows_in_groups([9, 30, 4, 17], spread=1.5)
    small = np.arange(len(vectors)) % 12
    groups = [set(np.flatnonzero(small == c)) for c in range(12)]
    while len(groups) > number:
        pairs = [(a, b) for a in range(len(groups)) for b in range(a)]
        cosines = [np.mean([vectors[i] @ vectors[j] for i in groups[a] for j in groups[b]]) for a, b in pairs]
        a, b = pairs[int(np.argmax(cosines))]
        groups = [group for c, group in enumerate(groups) if c not in (a, b)] + [groups[a] | groups[b]]
    large = joined(means(vectors, small, 12), np.bincount(small), number)[small]
    assert {frozenset(np.flatnonzero(large == c)) for c in range(number)} == {frozenset(group) for group in groups}


def test_fewer_rows_than_two_a_cluster_are_left_to_kmeans():
    vectors, _ = rows_in_groups([1] * 5, spread=0.1)
    assert most_agreed(vectors, 3, np.random.default_rng(0)).figures == {}
