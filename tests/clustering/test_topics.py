"""What clusters are about, word vectors, and the estimated number, against hand-made cases."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from clustering.kmeans import distances_to_own, nearest, several_nearest
from clustering.number import RATIO, candidates, estimate_num_clusters, last_nearly_best, simplified_silhouette
from clustering.topics import central_texts, merged_words, top_words, topics
from clustering.vectors import WordVectors
from tests.clustering.test_kmeans import blobs

TEXTS = ["red apple pear", "apple pie", "the iron and steel", "steel c++ iron", "apple apple", "iron"]
CLUSTERS = np.array([3, 3, 0, 0, 3, 0])


def test_words_by_the_formula():
    words = top_words(TEXTS, CLUSTERS, 3)
    assert words.keys() == {0, 3}
    # A = 11 words in 2 clusters; apple: 4 of 4 in cluster 3, and so on; "the" and "and" are stop words
    weight = {"apple": 4 * np.log1p(5.5 / 4), "red": np.log1p(5.5), "pear": np.log1p(5.5), "pie": np.log1p(5.5)}
    assert words[3] == tuple(sorted(weight, key=lambda word: (-weight[word], word))[:3])
    assert words[0] == ("iron", "steel", "c++")


def test_without_words_there_are_none():
    assert top_words(["1 2", "the"], np.array([0, 1]), 3) == {0: (), 1: ()}
    assert merged_words(["1 2", "the"], np.array([0, 1]), np.array([[0, 1]])) == [()]


def test_merged_groups_have_the_words_of_their_texts_as_one_cluster():
    texts = [*TEXTS, "blue sea", "sea salt", "salt"]
    clusters = np.array([1, 1, 0, 0, 1, 0, 2, 2, 3])  # 3: in no cluster
    steps = np.array([[0, 2], [1, 3]])
    after = [np.array([0, 1, 0, 3]), np.array([0, 0, 0, 3])]  # group of each cluster
    assert merged_words(texts, clusters, steps, 4) == [top_words(texts, group[clusters], 4)[0] for group in after]


def test_central_texts_are_the_nearest_and_different():
    texts = ["a", "b", "b", "c", "d"]
    distances = np.array([0.4, 0.1, 0.0, 0.2, 9.0])
    assert central_texts(texts, distances, np.array([0, 0, 0, 0, 2]), 2) == {0: (2, 3), 2: (4,)}


def test_topics_come_by_size():
    actual = topics(TEXTS + ["iron"], np.zeros(7), np.append(CLUSTERS, 0))
    assert [(topic.cluster, topic.size) for topic in actual] == [(0, 4), (3, 3)]
    assert actual[1].central == (0, 1, 4)


def test_what_is_longer_than_any_word_is_none():
    assert WordVectors.fit("bow", ["ab " + 101 * "x", "cd"]).words.tolist() == ["ab", "cd"]


@pytest.mark.parametrize("kind", ["bow", "tfidf"])
def test_kept_word_vectors_give_the_same(kind):
    words = WordVectors.fit(kind, TEXTS, max_words=4)
    again = WordVectors(kind, **words.arrays())
    new = ["iron apple unknown", "", "apple"]
    assert words(TEXTS).shape == (6, 4)
    np.testing.assert_array_equal(words(new).toarray(), again(new).toarray())
    assert again(new)[1].nnz == 0
    if kind == "tfidf":
        np.testing.assert_allclose(np.linalg.norm(words(TEXTS).toarray(), axis=1), 1, rtol=1e-6)
    else:
        assert words(["apple apple"]).max() == 2


def test_texts_without_words_are_refused():
    with pytest.raises(ValueError, match="found no word"):
        WordVectors.fit("tfidf", ["?", "!"])


def test_sparse_and_dense_distances_agree():
    rows, labels = blobs([20, 10, 15])
    centres = rows[:5]
    for number in (1, 3):
        actual, dense = several_nearest(csr_matrix(rows), centres, number), several_nearest(rows, centres, number)
        np.testing.assert_array_equal(actual[0], dense[0])
        np.testing.assert_allclose(actual[1], dense[1], rtol=1e-4, atol=1e-4)
    own = np.square(rows - centres[labels]).sum(axis=1)
    np.testing.assert_allclose(distances_to_own(rows, centres, labels), own, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(nearest(rows, centres)[0], several_nearest(rows, centres, 1)[0][:, 0])


def test_silhouette_by_hand():
    rows = np.array([[0.0, 1.0], [0.0, 3.0]], dtype=np.float32)
    centres = np.array([[0, 0], [0, 4], [9, 9]], dtype=np.float32)
    assert simplified_silhouette(rows, centres) == pytest.approx(2 / 3)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[40, 40], [30] * 5, [25] * 12, [60, 20, 5, 40]])
def test_separated_groups_are_counted(sizes):
    rows, _ = blobs(sizes, dimensions=12)
    estimate = estimate_num_clusters(rows, np.random.default_rng(0)).number
    assert abs(estimate - len(sizes)) <= max(1, len(sizes) / 8)  # candidates are an eighth apart


def test_few_texts_are_refused():
    with pytest.raises(ValueError, match="found auto with 7 texts"):
        estimate_num_clusters(np.eye(7, dtype=np.float32), np.random.default_rng(0))
    alike = np.repeat(np.random.default_rng(0).normal(size=(1, 32)).astype(np.float32), 20, axis=0)
    for rows in (alike, csr_matrix(alike)):
        with pytest.raises(ValueError, match="auto found no two groups of texts that are apart, allowed: a number"):
            estimate_num_clusters(rows, np.random.default_rng(0))
    assert candidates(8) == [2] and candidates(20000)[-1] == 424
    assert 10 not in candidates(6000) and 10 in candidates(6000, RATIO)


def test_a_later_rise_of_the_merit_is_another_answer():
    merits = {2: 0.5, 4: 1.0, 6: 0.93, 9: 0.94, 13: 0.9, 20: 0.97}
    assert last_nearly_best([(number, merit, 1.0) for number, merit in merits.items()]) == 9
    assert last_nearly_best([(2, 0.9, 1.0), (4, 1.0, 1.0), (6, 0.93, 1.0)]) == 6
    assert last_nearly_best([(2, 0.5, 1.0), (4, 0.5, 0.2)]) == 2
