"""k-means against a slow one written from the definition, and at its edges."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from clustering.kmeans import KMeans, kmeans, lloyd, means, nearest, seed_centres


def blobs(sizes, seed=0, dimensions=6, spread=0.3):
    """Rows around well separated centres, in random order, and the number of the centre of each."""
    rng = np.random.default_rng(seed)
    centres = 4 * rng.standard_normal((len(sizes), dimensions))
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return (centres[labels] + spread * rng.standard_normal((len(labels), dimensions))).astype(np.float32), labels


def slow_lloyd(rows, centres):
    """The definition, row by row."""
    centres = centres.astype(np.float64).copy()
    while True:
        distances = np.array([[((row - centre) ** 2).sum() for centre in centres] for row in rows])
        assignments = distances.argmin(axis=1)
        moved = np.array([rows[assignments == k].astype(np.float64).mean(axis=0) for k in range(len(centres))])
        if np.allclose(moved, centres, atol=1e-9):
            return centres, assignments
        centres = moved


def test_lloyd_ends_where_the_definition_ends():
    rows, _ = blobs([30, 20, 10, 25], spread=2.0)
    first = rows[[0, 1, 2, 3]]
    centres, assignments = slow_lloyd(rows, first)
    actual = lloyd(rows, first, max_iter=100)
    assert actual.assignments.tolist() == assignments.tolist()
    np.testing.assert_allclose(actual.centres, centres, rtol=1e-5, atol=1e-5)
    assert actual.inertia == pytest.approx(((rows - centres[assignments]) ** 2).sum(), rel=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
def test_separated_groups_are_found(sparse):
    rows, labels = blobs([50, 5, 20, 30, 8])
    actual = kmeans(csr_matrix(rows) if sparse else rows, 5, np.random.default_rng(0))
    pairs = set(zip(labels.tolist(), actual.assignments.tolist(), strict=True))
    assert len(pairs) == 5
    spread = sum(((rows[labels == k] - rows[labels == k].mean(axis=0)) ** 2).sum() for k in range(5))
    assert actual.inertia == pytest.approx(spread, rel=1e-4)


def test_more_starts_are_never_worse_and_a_seed_gives_the_same():
    rows, _ = blobs([20] * 12, spread=1.5)
    single, ten = (kmeans(rows, 12, np.random.default_rng(3), num_starts=number) for number in (1, 10))
    assert ten.inertia <= single.inertia
    again = kmeans(rows, 12, np.random.default_rng(3), num_starts=10)
    assert np.array_equal(again.assignments, ten.assignments) and np.array_equal(again.centres, ten.centres)


def test_centres_from_a_sample_serve_all_rows():
    rows, labels = blobs([200, 100, 60])
    actual = kmeans(rows, 3, np.random.default_rng(0), sample_rows=90)
    assert len(set(zip(labels.tolist(), actual.assignments.tolist(), strict=True))) == 3
    assert actual.inertia == pytest.approx(nearest(rows, actual.centres)[1].sum(), rel=1e-5)


def test_seeds_are_different_rows_where_there_are_enough():
    rows, _ = blobs([10, 10, 10])
    for seed in range(5):
        assert len(np.unique(seed_centres(rows, 30, np.random.default_rng(seed)), axis=0)) == 30


@pytest.mark.slow
@pytest.mark.parametrize("num_clusters", [1, 2, 3, 6])
def test_few_and_equal_rows(num_clusters):
    rows = np.array([[0, 0], [0, 0], [0, 0], [1, 1], [1, 1], [2, 0]], dtype=np.float32)
    actual = kmeans(rows, num_clusters, np.random.default_rng(0))
    assert isinstance(actual, KMeans) and actual.centres.shape == (num_clusters, 2)
    assert np.isfinite(actual.centres).all()
    assert actual.inertia == pytest.approx({1: 14 / 3, 2: 4 / 3, 3: 0.0, 6: 0.0}[num_clusters], abs=1e-5)
    assert len(np.unique(actual.assignments)) <= num_clusters


def test_one_row():
    actual = kmeans(np.ones((1, 4), np.float32), 1, np.random.default_rng(0))
    assert actual.assignments.tolist() == [0] and actual.inertia == 0


def test_a_centre_without_rows_takes_the_farthest_one():
    rows = np.array([[0.0], [1.0], [2.0], [50.0]], dtype=np.float32)
    actual = lloyd(rows, np.array([[1.0], [1000.0]], dtype=np.float32), max_iter=10)
    assert actual.assignments.tolist() == [0, 0, 0, 1]


def test_means_of_members_and_of_nobody():
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    assert means(rows, np.array([0, 2, 2, 0]), 3).tolist() == [[3, 4], [0, 0], [3, 4]]


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"num_clusters": 5}, "num_clusters"),
        ({"num_clusters": 0}, "num_clusters"),
        ({"num_clusters": 3, "sample_rows": 2}, "sample_rows"),
    ],
)
def test_what_cannot_be_is_refused(options, key):
    with pytest.raises(ValueError, match=f"method.{key}: found"):
        kmeans(np.zeros((4, 2), np.float32), rng=np.random.default_rng(0), **options)
