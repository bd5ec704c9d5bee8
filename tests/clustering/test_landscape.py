"""The map, the tree, fences, density and drift, against hand-made cases and scipy."""

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from clustering.density import density_clusters, neighbour_eigenmaps
from clustering.drift import measure_drift, share_p
from clustering.kmeans import unit_rows
from clustering.landscape import fences, groups_at, map_points, merges, near_clusters
from tests.clustering.test_kmeans import blobs

CENTRES = np.array([[1, 0, 0], [0, 1, 0], [0.99, 0.1, 0], [0, 0, 1], [0, 0.9, 0.1]], np.float32)


def test_the_nearest_merge_first_and_any_level_is_a_partition():
    steps = merges(CENTRES)
    levels = {level: [part.tolist() for part in groups_at(steps, level)] for level in (5, 4, 3, 1)}
    assert levels[5] == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    assert levels[4] == [[0, 1, 0, 2, 3], [5, 1, 3, 4]]  # 0 and 2
    assert levels[3] == [[0, 1, 0, 2, 1], [5, 6, 3]]  # then 1 and 4
    assert levels[1] == [[0] * 5, [8]]
    for level in (0, 6):
        with pytest.raises(ValueError, match=f"cluster.level: found {level}, allowed: 1 to 5"):
            groups_at(steps, level)
    assert [part.tolist() for part in groups_at(merges(CENTRES[:1]), 1)] == [[0], [0]]
    assert near_clusters(CENTRES, 1).ravel().tolist() == [2, 4, 0, 4, 1]


def test_fences_are_tukeys():
    distances = np.array([0, 1, 2, 3, 4, 5, np.inf], np.float32)
    assert fences(distances, np.array([0, 0, 0, 0, 0, 1, 1]), 3).tolist() == [3 + 1.5 * 2, 5, 0]


def test_the_map_keeps_groups_together_and_is_the_same_again():
    rows, labels = blobs([20, 20, 20], dimensions=12)
    points = map_points(rows, 0)
    np.testing.assert_array_equal(points, map_points(rows, 0))
    apart = np.square(points[:, None] - points[None]).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    assert (labels[apart.argmin(axis=1)] == labels).mean() > 0.95
    assert map_points(rows[:3], 0).shape == (3, 2) and not map_points(np.ones((9, 4), np.float32), 0).any()


def test_dense_groups_are_clusters_the_largest_first():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [30, 60, 40])
    rows = np.float32(np.eye(12)[labels] + rng.normal(scale=0.05, size=(130, 12)))
    clusters = density_clusters(unit_rows(rows), 25, 5, 10, 2)
    assert clusters.tolist() == np.array([2, 0, 1])[labels].tolist()
    assert (density_clusters(unit_rows(rows), 70, 5, 10, 2) == -1).all()  # none is so large
    with pytest.raises(ValueError, match="method.min_cluster_size: found 10 with 4 texts"):
        density_clusters(rows[:4], 10, 5, 10, 3)


def test_a_region_of_more_than_half_the_texts_gives_way_to_those_inside_it():
    rng = np.random.default_rng(0)
    centres = np.repeat([[1, 0, 0], [1, 0.15, 0], [0, 0, 1]], [150, 150, 30], axis=0)
    spread = np.repeat([0.08, 0.08, 0.02], [150, 150, 30])[:, None]
    clusters = density_clusters(unit_rows(np.float32(centres + spread * rng.normal(size=(330, 3)))), 15, 5, 10, 2)
    assert np.bincount(clusters[clusters >= 0]).max() <= 165 < (clusters >= 0).sum()


def test_eigenmaps_are_eigenvectors_of_the_walk_on_the_graph():
    rows, _ = blobs([15, 15], dimensions=6)
    maps = neighbour_eigenmaps(unit_rows(rows), 5, 3)
    apart = np.square(unit_rows(rows)[:, None] - unit_rows(rows)[None]).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    graph = np.zeros((30, 30))
    np.put_along_axis(graph, apart.argsort(axis=1)[:, :5], 1, axis=1)
    graph = np.maximum(graph, graph.T)
    stepped = graph @ maps / graph.sum(axis=1)[:, None]
    values = (stepped * maps).sum(axis=0) / (maps**2).sum(axis=0)
    np.testing.assert_allclose(stepped, maps * values, atol=1e-8)
    assert (np.diff(values) <= 1e-9).all()


def test_p_of_shares_is_that_of_chi_squared_where_counts_are_large():
    counts = np.array([[400, 300, 300], [110, 60, 80]])
    expected = chi2_contingency(counts).pvalue
    assert share_p(counts, np.random.default_rng(0)) == pytest.approx(expected, abs=0.015)
    assert share_p(np.array([[50, 50, 0], [5, 5, 0]]), np.random.default_rng(0)) == 1


def test_drift_sees_other_shares_and_texts_far_out():
    rng = np.random.default_rng(0)
    clusters, distances = rng.integers(3, size=600), rng.random(600).astype(np.float32)
    same = measure_drift((clusters[:500], distances[:500]), (clusters[500:], distances[500:]), np.ones(3), rng)
    assert min(same.share_p, same.distance_p, same.far_p) > 0.05 and same.far_before == same.far_after == 0
    other = measure_drift((clusters, distances), (np.zeros(50, int), distances[:50] + 1), np.ones(3), rng)
    assert max(other.share_p, other.distance_p, other.far_p) < 0.001 and other.far_after == 1
