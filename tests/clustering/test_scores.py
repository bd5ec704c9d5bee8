"""Scores against the definitions, computed slowly, and against values worked out by hand."""

import json
from itertools import permutations
from math import log, sqrt
from pathlib import Path

import numpy as np
import pytest

from clustering.scores import clustering_scores, contingency, negative_similarity, within_label_cosine

FILE = Path(__file__).resolve().parent.parent / "golden" / "aecl.json"
GOLDEN = {case["id"]: case for case in json.loads(FILE.read_text(encoding="utf-8"))["cases"]}


def slow_accuracy(labels, clusters):
    """The best of all ways to name the clusters, one after the other."""
    names, actual = sorted(set(labels)), sorted(set(clusters))
    names += [None] * max(0, len(actual) - len(names))
    return max(
        sum(dict(zip(actual, order, strict=False)).get(cluster) == label
            for label, cluster in zip(labels, clusters, strict=True))
        for order in permutations(names, min(len(actual), len(names)))
    ) / len(labels)  # fmt: skip


def slow_information(labels, clusters):
    """Mutual information and both entropies in nats, from the counts."""
    number = len(labels)

    def entropy(values):
        return -sum(values.count(v) / number * log(values.count(v) / number) for v in set(values))

    pairs = list(zip(labels, clusters, strict=True))
    mutual = sum(
        pairs.count(p) / number * log(number * pairs.count(p) / (labels.count(p[0]) * clusters.count(p[1])))
        for p in set(pairs)
    )
    return mutual, entropy(labels), entropy(clusters)


@pytest.mark.parametrize("num_clusters", [1, 2, 4, 6])
def test_scores_equal_the_definitions(num_clusters):
    rng = np.random.default_rng(num_clusters)
    labels, clusters = rng.integers(4, size=60).tolist(), rng.integers(num_clusters, size=60).tolist()
    scores = clustering_scores(labels, clusters)
    mutual, of_labels, of_clusters = slow_information(labels, clusters)
    assert scores["acc"] == pytest.approx(slow_accuracy(labels, clusters))
    assert scores["nmi"] == pytest.approx(mutual / sqrt(of_labels * of_clusters) if of_clusters else 0.0, abs=1e-12)
    assert scores["nmi_arithmetic"] == pytest.approx(2 * mutual / (of_labels + of_clusters), abs=1e-12)
    pure = sum(max(np.bincount(np.array(labels)[np.array(clusters) == k])) for k in set(clusters))
    assert scores["purity"] == pytest.approx(pure / 60)


@pytest.mark.parametrize("name", ["acc_nmi_eq16_17", "acc_more_clusters_than_classes"])
def test_golden_scores(name):
    case = GOLDEN[name]
    scores = clustering_scores(case["inputs"]["y_true"], case["inputs"]["y_pred"])
    expected = case["expected"] if isinstance(case["expected"], dict) else {"ACC": case["expected"]}
    keys = {"ACC": "acc", "NMI_geometric": "nmi", "NMI_arithmetic_sklearn_default": "nmi_arithmetic"}
    actual = {key: scores[keys[key]] for key in expected if key in keys}
    assert actual == pytest.approx({key: expected[key] for key in actual}, abs=1e-10) and "ACC" in actual


def test_golden_attention_to_other_labels():
    case = GOLDEN["ns_ps_eq18_19"]
    ns = negative_similarity(np.array(case["inputs"]["S"]), np.array(case["inputs"]["true_labels"]))
    assert (ns, 1 - ns) == pytest.approx((case["expected"]["NS"], case["expected"]["PS"]), abs=1e-10)


def test_names_of_clusters_do_not_matter():
    labels = [0, 0, 1, 1, 2, 2]
    assert set(clustering_scores(labels, [7, 7, 3, 3, 5, 5]).values()) == {1.0}
    assert clustering_scores(labels, [0, 1, 1, 2, 2, 0]) == clustering_scores(labels, [2, 0, 0, 1, 1, 2])


def test_by_hand():
    scores = clustering_scores([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1])
    assert scores["acc"] == scores["purity"] == pytest.approx(5 / 6)
    assert scores["ari"] == pytest.approx((4 - 6 * 7 / 15) / ((6 + 7) / 2 - 6 * 7 / 15))


def test_counts():
    assert contingency([5, 5, 9, 9], [1, 0, 1, 1]).tolist() == [[1, 1], [0, 2]]


@pytest.mark.parametrize("clusters", [[], [0], [0, 1, 2]])
def test_lengths_that_differ_are_refused(clusters):
    with pytest.raises(ValueError, match="labels, clusters: found shapes"):
        clustering_scores([] if clusters == [] else [0, 1], clusters)


def test_negative_similarity():
    similarity = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.0, 0.4, 0.6]])
    assert negative_similarity(similarity, [0, 0, 1]) == pytest.approx((0.2 + 0.1 + 0.0 + 0.4) / 3)
    assert negative_similarity(similarity, [1, 1, 1]) == 0


def test_within_label_cosine():
    rng = np.random.default_rng(0)
    vectors, labels = rng.normal(size=(9, 3)), [0, 0, 0, 1, 1, 2, 3, 3, 3]
    vectors[7] = 0  # has no direction: cosine 0
    means = []
    for label in (0, 1, 3):
        own = [row for row, actual in zip(vectors, labels, strict=True) if actual == label]
        cosines = [
            a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-300)
            for i, a in enumerate(own) for j, b in enumerate(own) if i != j
        ]  # fmt: skip
        means.append(np.mean(cosines))
    assert within_label_cosine(vectors, labels) == pytest.approx(np.mean(means))
    assert np.isnan(within_label_cosine(vectors[:2], [0, 1]))
