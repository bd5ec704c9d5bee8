"""Co-EM of embeddings and words: what the second view mends, and new texts."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix, hstack, identity, vstack

import clustering.two_views
from clustering.kmeans import unit_rows
from clustering.scores import clustering_scores
from clustering.two_views import (
    _comparable,
    _discriminant,
    agreed_clusters,
    agreed_regions,
    held_out_words,
    side_by_side,
    surest,
)


def two_views(sizes, spread, seed=0, dimension=20, words_a_cluster=15, length=8):
    """Unit-length rows about random directions, rows of words drawn from a vocabulary of their cluster, clusters."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    centres = unit_rows(rng.normal(size=(len(sizes), dimension)))
    vectors = unit_rows(centres[labels] + rng.normal(size=(len(labels), dimension)) * spread / dimension**0.5)
    drawn = rng.integers(words_a_cluster, size=(len(labels), length)) + labels[:, None] * words_a_cluster
    drawn[:, ::2] = rng.integers(len(sizes) * words_a_cluster, size=drawn[:, ::2].shape)  # half say nothing
    counts = np.zeros((len(labels), len(sizes) * words_a_cluster))
    np.add.at(counts, (np.arange(len(labels))[:, None], drawn), 1.0)
    return vectors.astype(np.float32), csr_matrix(unit_rows(counts.astype(np.float32))), labels


def test_words_mend_what_embeddings_mix_up():
    vectors, words, labels = two_views([150] * 4, spread=2.2)
    start = agreed_clusters(vectors, words, 4, np.random.default_rng(0), "kmeans", steps=1).assignments
    alone = _discriminant(vectors, labels, 4)
    of_vectors = (vectors @ alone[0].T + alone[1]).argmax(1)  # the best that embeddings could do, told all labels
    ended = agreed_clusters(vectors, words, 4, np.random.default_rng(0), "kmeans", steps=5).assignments
    best = clustering_scores(labels, of_vectors)["acc"]
    assert clustering_scores(labels, ended)["acc"] > max(best + 0.05, clustering_scores(labels, start)["acc"])


@pytest.mark.slow
def test_it_starts_from_both_views_where_words_alone_tell_the_texts_apart():
    vectors, words, labels = two_views([150] * 4, spread=6, words_a_cluster=5)
    told = agreed_clusters(vectors, words, 4, np.random.default_rng(0))
    assert max(told.figures, key=told.figures.get) == "agreement/kmeans_of_both"
    of_vectors = agreed_clusters(vectors, words, 4, np.random.default_rng(0), "kmeans")
    reached = [clustering_scores(labels, run.assignments)["acc"] for run in (told, of_vectors)]
    assert reached[0] > reached[1] + 0.2


def test_each_view_is_half_of_both_and_words_have_as_many_components_as_there_are():
    vectors, words, _ = two_views([40] * 3, spread=1.0)
    both = side_by_side(vectors, words, seed=0)
    assert both.shape == (120, 20 + 45)
    assert np.allclose(both[:, :20], vectors / 2**0.5, atol=1e-6)
    cosines = unit_rows(words.toarray()) @ unit_rows(words.toarray()).T  # all components: nothing is lost
    assert np.allclose(2 * both[:, 20:] @ both[:, 20:].T, cosines, atol=1e-5)


def test_the_surest_texts_of_a_cluster_are_those_of_the_largest_margin():
    scores = np.random.default_rng(0).normal(size=(50, 4))
    clusters = np.where(np.arange(50) < 5, 3, scores.argmax(1) % 3)  # one cluster of five, three of more
    ordered = np.sort(scores, axis=1)
    for c in range(4):
        rows = np.flatnonzero(clusters == c)
        expected = rows[np.argsort(ordered[rows, 2] - ordered[rows, 3])][:7]
        assert set(np.flatnonzero(surest(scores, clusters, 7) & (clusters == c))) == set(expected)


@pytest.mark.parametrize(("start", "most"), [("kmeans", 34), ("ward_of_both", 34), ("ward_average", 100)])
def test_clusters_of_one_size_are_fitted_to_their_share_of_texts(start, most, monkeypatch):
    vectors, words, _ = two_views([50, 30, 20], spread=1.0)
    limits = []
    monkeypatch.setattr(clustering.two_views, "surest", lambda *args: limits.append(args[2]) or surest(*args))
    agreed_clusters(vectors, words, 3, np.random.default_rng(0), start)
    assert set(limits) == {most}


def test_words_that_say_nothing_leave_a_large_cluster_little_ahead():
    clusters = np.repeat([0, 1, 2], [8000, 3000, 1000])
    words = np.random.default_rng(0).uniform(0.99, 1.01, (12000, 1))  # not copies, which would be in one fold
    scores = held_out_words(csr_matrix(words), clusters, np.ones(12000, bool), 3, 0)
    assert np.ptp(scores.mean(0)) < 1.6  # one against the rest: 1.0 apart when weighted, else by the shares 3.1


def test_the_discriminant_is_that_of_its_formula():
    vectors, _, labels = two_views([60, 30, 90], spread=2.0)
    weight, bias = _discriminant(vectors, labels, 3)
    rows = vectors.astype(np.float64)
    means = np.stack([rows[labels == c].mean(0) for c in range(3)])
    within = sum(np.outer(x - means[c], x - means[c]) for x, c in zip(rows, labels, strict=True)) / len(rows)
    inverse = np.linalg.inv(0.9 * within + 0.1 * np.trace(within) / 20 * np.eye(20))
    for x in rows[::20]:
        expected = [x @ inverse @ m - m @ inverse @ m / 2 for m in means]
        assert np.allclose(weight @ x + bias, expected, atol=1e-4)


def test_no_text_is_judged_by_a_regression_that_has_seen_it():
    """Clusters drawn at random cannot be told by words that were not seen, and are told by heart otherwise."""
    _, words, labels = two_views([100] * 4, spread=1.0)
    drawn, every = np.random.default_rng(1).integers(4, size=len(labels)), np.ones(len(labels), bool)
    assert (held_out_words(words, drawn, every, 4, 0).argmax(1) == drawn).mean() < 0.4
    assert (held_out_words(words, labels, every, 4, 0).argmax(1) == labels).mean() > 0.9
    with_own = hstack([words, identity(len(labels))])  # a word of each text alone, which its copy has too
    of_copies = held_out_words(vstack([with_own] * 2, "csr"), np.tile(drawn, 2), np.tile(every, 2), 4, 0)
    assert (of_copies[: len(labels)].argmax(1) == drawn).mean() < 0.4


def test_clusters_that_lost_their_texts_and_two_clusters_are_scored():
    _, words, labels = two_views([50, 50], spread=1.0)
    every = np.ones(100, bool)
    scores = held_out_words(words, labels, every, 2, 0)
    assert (scores.argmax(1) == labels).mean() > 0.9
    apart = _comparable(held_out_words(words, labels * 3, every, 5, 0))
    assert np.isfinite(apart).all() and set(apart.argmax(1)) <= {0, 3}
    assert np.isfinite(held_out_words(words, np.zeros(100, int), every, 3, 0)).all()
    assert (held_out_words(words, labels, ~every, 2, 0) == 0).all()  # all that may be fitted to is in another fold


@pytest.mark.slow
def test_the_model_gives_the_texts_their_clusters_again_and_a_seed_the_same_bits():
    vectors, words, labels = two_views([120] * 4, spread=1.0)
    first, second = (agreed_clusters(vectors, words, 4, np.random.default_rng(3)) for _ in range(2))
    assert (first.model.clusters(vectors, words) == first.assignments).all()
    assert (first.assignments == second.assignments).all() and first.figures == second.figures
    assert clustering_scores(labels, first.assignments)["acc"] > 0.9


def test_texts_beyond_the_sample_are_given_clusters_that_were_found_without_them():
    vectors, words, labels = two_views([200] * 3, spread=1.0)
    told = agreed_clusters(vectors, words, 3, np.random.default_rng(0), sample_rows=150)
    rows = np.sort(np.random.default_rng(0).choice(600, 150, replace=False))
    others = np.ones(600, bool)
    others[rows] = False
    blank = vectors.copy()
    blank[others] = 0
    again = agreed_clusters(blank, words, 3, np.random.default_rng(0), sample_rows=150)
    assert (told.model.weight == again.model.weight).all() and (told.assignments[rows] == again.assignments[rows]).all()
    assert clustering_scores(labels[others], told.assignments[others])["acc"] > 0.9


def test_texts_in_no_region_are_given_their_cluster_by_both_views():
    """Their embeddings say nothing, and their words do."""
    vectors, words, labels = two_views([80, 40, 160], spread=1.0)
    outside = np.arange(len(labels)) % 4 == 0
    vectors[outside] = unit_rows(np.random.default_rng(0).normal(size=(outside.sum(), 20))).astype(np.float32)
    told = agreed_regions(vectors, words, np.where(outside, -1, labels), seed=0, steps=1)
    weight, bias = _discriminant(vectors[~outside], labels[~outside], 3)
    by_vectors = (vectors @ weight.T + bias).argmax(1)[outside] == labels[outside]
    right = told.assignments == labels
    assert right[~outside].mean() > 0.95 and right[outside].mean() > by_vectors.mean() + 0.25
    assert (told.model.clusters(vectors, words) == told.assignments).all() and told.model.weight.shape == (3, 20)
