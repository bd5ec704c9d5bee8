"""Each strategy against its slow reference, and the golden cases of SCL-HNM."""

import functools
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from active_learning import strategies
from active_learning.selection import BLOCK
from active_learning.strategies.clusters import best_of_each, nearest_centre, quick_centres
from active_learning.strategies.coverage import ball_graph, pure_radius
from active_learning.strategies.uncertainty import shannon_entropy
from active_learning.strategies.wrappers import class_quotas
from tests.active_learning import reference
from tests.active_learning.pools import WRAPPERS, ask, pool

GOLDEN = {
    case["id"]: case
    for case in json.loads((Path(__file__).parent.parent / "golden" / "scl_hnm.json").read_text())["cases"]
}
SEEDS = pytest.mark.parametrize("seed", range(4))
RNG = np.random.default_rng


def test_golden_clun():
    case = GOLDEN["clun_selection"]
    probabilities = np.array(case["inputs"]["class_scores"])
    scores = shannon_entropy(probabilities)
    added = 1e-9 * np.count_nonzero(probabilities, axis=1)  # by the published code to each p in log p
    np.testing.assert_allclose(scores - added, case["expected"]["entropy"], rtol=0, atol=1e-10)
    best, numbers = best_of_each(np.array(case["inputs"]["cluster_labels"]), scores, 2, RNG(0))
    assert {str(number): row for number, row in zip(numbers, best, strict=True)} == case["expected"][
        "picked_per_cluster"
    ]


def test_golden_rep():
    case = GOLDEN["rep_selection"]
    embeddings, centres = np.array(case["inputs"]["emb"]), np.array(case["inputs"]["centroids"])
    clusters, distances = nearest_centre(embeddings, np.arange(len(embeddings)), centres)
    assert list(clusters) == case["expected"]["assign"]
    best, numbers = best_of_each(clusters, -distances, 2, RNG(0))
    assert {str(number): row for number, row in zip(numbers, best, strict=True)} == case["expected"]["picked"]


@SEEDS
@pytest.mark.parametrize("name", ["entropy", "least_confidence", "margin"])
def test_uncertainty(name, seed):
    state = pool(seed=seed, classes=4)
    expected = {u: getattr(reference, name)(state["probabilities"][u].tolist()) for u in state["unlabelled"]}
    selection = ask(getattr(strategies, name), state)
    assert list(selection.indices) == sorted(expected, key=expected.get, reverse=True)[:7]
    np.testing.assert_allclose(selection.scores, [expected[u] for u in selection.indices], atol=1e-12)


@SEEDS
def test_bald(seed):
    state = pool(seed=seed)
    expected = {u: reference.bald(state["mc_probabilities"][:, u].tolist()) for u in state["unlabelled"]}
    selection = ask(strategies.bald, state)
    assert list(selection.indices) == sorted(expected, key=expected.get, reverse=True)[:7]
    np.testing.assert_allclose(selection.scores, [expected[u] for u in selection.indices], atol=1e-12)


def test_entropy_of_zero_rows_and_of_certain_ones_is_zero():
    assert list(shannon_entropy(np.array([[0.0, 0.0], [1.0, 0.0]]))) == [0, 0]


@SEEDS
@pytest.mark.parametrize("labelled", [6, 40])
def test_coreset(seed, labelled):
    state = pool(seed=seed, labelled=labelled)
    chosen, scores = reference.coreset(state["embeddings"], state["labelled"], state["unlabelled"], 7)
    selection = ask(strategies.coreset, state)
    assert list(selection.indices) == chosen
    np.testing.assert_allclose(selection.scores, scores, rtol=1e-10)


@SEEDS
@pytest.mark.parametrize("labelled", [3, 40])
def test_badge(seed, labelled):
    state = pool(seed=seed, labelled=labelled)
    chosen, scores = reference.badge(state["probabilities"], state["embeddings"], state["unlabelled"], 7, RNG(0))
    selection = ask(strategies.badge, state)
    assert list(selection.indices) == chosen
    np.testing.assert_allclose(selection.scores, scores, rtol=1e-8)
    assert selection.reasons[0] == f"longest gradient, squared length {scores[0]:.3g}"
    before = ask(strategies.badge, state | {"probabilities": None})
    assert before.reasons[0] == f"longest embedding, squared length {before.scores[0]:.3g}, no model yet"


@SEEDS
@pytest.mark.parametrize("neighbours", [3, 10])
def test_cal(seed, neighbours):
    state = pool(seed=seed, labelled=8)
    expected = {
        u: reference.cal(state["probabilities"], state["embeddings"], state["labelled"], u, neighbours)
        for u in state["unlabelled"]
    }
    selection = strategies.cal(
        **{key: state[key] for key in ("unlabelled", "labelled", "embeddings", "probabilities", "query_size")},
        neighbours=neighbours,
        rng=RNG(0),
    )
    assert list(selection.indices) == sorted(expected, key=expected.get, reverse=True)[:7]
    np.testing.assert_allclose(selection.scores, [expected[u] for u in selection.indices], atol=1e-10)


def published_clusters(state, seed):
    """The clusters of scikit-learn's k-means with the published settings, distances by hand."""
    rows = state["embeddings"][state["unlabelled"]]
    model = KMeans(7, init="random", n_init=10, max_iter=300, random_state=int(RNG(seed).integers(2**31))).fit(rows)
    return reference.nearest_centre(state["embeddings"], state["unlabelled"], model.cluster_centers_)


@SEEDS
def test_rep(seed):
    state = pool(seed=seed)
    clusters, distances = published_clusters(state, seed)
    best = reference.best_of_each(clusters, [-distance for distance in distances])
    selection = ask(strategies.rep, state, seed)
    assert list(selection.indices) == [state["unlabelled"][best[cluster]] for cluster in range(7)]
    np.testing.assert_allclose(-selection.scores, [distances[best[cluster]] for cluster in range(7)], rtol=1e-8)


@SEEDS
@pytest.mark.parametrize("name", ["clun", "rep_clun"])
def test_clun(name, seed):
    state = pool(seed=seed)
    entropies = [reference.entropy(state["probabilities"][u].tolist()) for u in state["unlabelled"]]
    best = reference.best_of_each(published_clusters(state, seed)[0], entropies)
    selection = ask(getattr(strategies, name), state, seed)
    assert list(selection.indices) == [state["unlabelled"][best[cluster]] for cluster in range(7)]
    assert selection.reasons[2] == f"entropy {selection.scores[2]:.2f} nats, highest in cluster 3 of 7"


def test_rep_clun_begins_with_rep_even_where_there_are_predictions():
    nobody = np.array([], dtype=np.int64)
    state = pool() | {"labelled": nobody, "labels": nobody}
    assert list(ask(strategies.rep_clun, state).indices) == list(ask(strategies.rep, state).indices)
    assert list(ask(strategies.clun, state).indices) != list(ask(strategies.rep, state).indices)


@SEEDS
def test_unrep_is_rep_among_the_most_uncertain(seed):
    state = pool(seed=seed)
    entropies = {u: reference.entropy(state["probabilities"][u].tolist()) for u in state["unlabelled"]}
    uncertain = sorted(sorted(entropies, key=entropies.get, reverse=True)[:14])
    inputs = {key: state[key] for key in ("embeddings", "query_size")}
    selection = strategies.unrep(
        **inputs, unlabelled=state["unlabelled"], probabilities=state["probabilities"], factor=2, rng=RNG(seed)
    )
    rng = RNG(seed)
    rng.choice(1, 1)  # the draw among equals at the threshold of uncertainty
    assert list(selection.indices) == list(strategies.rep(**inputs, unlabelled=np.array(uncertain), rng=rng).indices)


@SEEDS
def test_kmeans_takes_the_member_nearest_to_each_centre(seed):
    state = pool(seed=seed, n=200, dtype=np.float32)
    centres = quick_centres(state["embeddings"], state["unlabelled"], 7, RNG(seed), 1000)
    clusters, distances = reference.nearest_centre(state["embeddings"], state["unlabelled"], centres)
    best = reference.best_of_each(clusters, [-distance for distance in distances])
    assert list(ask(strategies.kmeans, state, seed).indices) == [state["unlabelled"][best[c]] for c in sorted(best)]


@SEEDS
@pytest.mark.parametrize(("query_size", "count"), [(5, 11), (25, 10)])  # one turn of the clusters, two and a half
def test_typiclust(seed, query_size, count):
    state = pool(seed=seed, n=200, query_size=query_size)
    everyone = np.concatenate([state["unlabelled"], state["labelled"]])
    centres = quick_centres(state["embeddings"], everyone, count, RNG(seed), 1000)
    clusters = dict(zip(everyone, reference.nearest_centre(state["embeddings"], everyone, centres)[0], strict=True))
    inputs = {key: state[key] for key in ("unlabelled", "labelled", "embeddings", "query_size")}
    selection = strategies.typiclust(**inputs, rng=RNG(seed), max_clusters=count)
    assert list(selection.indices) == reference.typiclust(
        state["embeddings"], clusters, state["unlabelled"], state["labelled"], query_size
    )


@SEEDS
def test_probcover(seed):
    """Each choice covers as much as any could, counted by hand."""
    state = pool(seed=seed)
    selection = ask(strategies.probcover, state, seed)
    everyone = np.concatenate([state["unlabelled"], state["labelled"]])
    radius = pure_radius(state["embeddings"][everyone], 3, 0.95, RNG(seed))
    known = list(state["labelled"])
    for pick, score in zip(selection.indices, selection.scores, strict=True):
        counts = reference.probcover_counts(state["embeddings"], known, radius, range(60))
        assert score == counts[pick] == max(counts[u] for u in state["unlabelled"] if u not in known)
        known.append(pick)
    assert selection.scores[0] > selection.scores[-1]


@SEEDS
def test_pure_radius(seed):
    rows = pool(seed=seed, n=40)["embeddings"]
    centres = quick_centres(rows, np.arange(40), 3, RNG(seed), 40)
    clusters, _ = reference.nearest_centre(rows, range(40), centres)
    assert pure_radius(rows, 3, 0.9, RNG(seed)) == pytest.approx(reference.pure_radius(rows, clusters, 0.9), rel=1e-6)


@pytest.mark.parametrize("size", [8, 16, 64])
def test_ball_graph_by_blocks(size):
    rows = RNG(0).normal(size=(45, 3))
    near = np.linalg.norm(rows[:, None] - rows, axis=2) < 1.5
    graph = np.unpackbits(ball_graph(rows, 1.5, size), axis=1, count=45)
    assert np.array_equal(graph, near) and 45 < graph.sum() < 45**2


@SEEDS
def test_discriminative(seed):
    """Sub-query by sub-query, with scikit-learn's own pipeline."""
    state = pool(seed=seed, n=80, labelled=12)
    x, known, left = state["embeddings"], list(state["labelled"]), list(state["unlabelled"])
    expected = []
    for _ in range(7):
        model = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced"))
        model.fit(x[known + left], [0] * len(known) + [1] * len(left))
        pick = left[int(np.argmax(model.predict_proba(x[left])[:, 1]))]
        expected.append(pick)
        known.append(pick)
        left.remove(pick)
    assert list(ask(strategies.discriminative, state).indices) == expected


def test_class_quotas_fill_the_rarest_classes_first():
    assert list(class_quotas(np.array([5, 0, 2]), np.array([9, 9, 9]), 5, RNG(0)) + [5, 0, 2]) in ([5, 4, 3], [5, 3, 4])
    assert list(class_quotas(np.array([5, 0, 2]), np.array([9, 1, 9]), 5, RNG(0))) == [0, 1, 4]


def test_class_balanced_asks_within_predicted_classes():
    state = pool(n=200) | {"labels": np.array([0, 0, 0, 0, 1, 1]), "query_size": 9}
    state["labelled"] = state["labelled"][:6]
    selection = ask(WRAPPERS["class_balanced"], state)
    predicted = state["probabilities"].argmax(axis=1)
    assert np.bincount(predicted[selection.indices], minlength=3).tolist() == [1, 3, 5]
    for number in range(3):
        inside = state["unlabelled"][predicted[state["unlabelled"]] == number]
        entropies = shannon_entropy(state["probabilities"][inside])
        wanted = [1, 3, 5][number]
        own = selection.indices[predicted[selection.indices] == number]
        assert list(own) == list(inside[np.argsort(-entropies)[:wanted]])
    of_two = np.flatnonzero(predicted == 2)[3:]
    few = ask(WRAPPERS["class_balanced"], state | {"unlabelled": np.setdiff1d(state["unlabelled"], of_two)})
    taken = np.count_nonzero(predicted[few.indices] == 2)
    assert few.reasons.count(f"all {taken} of predicted class 2") == taken in (1, 2, 3)


def test_class_balanced_asks_within_guessed_classes_before_there_is_a_model():
    state = pool(n=200, labelled=0) | {"query_size": 9, "probabilities": None, "mc_probabilities": None}
    selection = ask(WRAPPERS["class_balanced"], state)
    assert state["guesses"][selection.indices].tolist() == [0, 1, 2] * 3
    twice = functools.partial(strategies.class_balanced, strategy=WRAPPERS["class_balanced"])
    assert np.bincount(state["guesses"][ask(twice, state).indices]).tolist() == [3, 3, 3]
    assert selection.reasons[0] == "drawn at random: no model yet; class 0 by the names"
    alone = ask(WRAPPERS["class_balanced"], state | {"guesses": None})
    assert list(alone.indices) == list(ask(strategies.entropy, state).indices)


def test_pools_above_one_block_are_as_one():
    """Scores do not depend on where a block ends."""
    state = pool(n=BLOCK + 500, dimension=2, dtype=np.float32)
    expected = shannon_entropy(state["probabilities"][state["unlabelled"]])
    np.testing.assert_array_equal(ask(strategies.entropy, state).scores, np.sort(expected)[::-1][:7])
    clusters, _ = nearest_centre(state["embeddings"], state["unlabelled"], state["embeddings"][:4])
    gaps = np.linalg.norm(state["embeddings"][state["unlabelled"], None] - state["embeddings"][:4], axis=2)
    assert np.mean(clusters == gaps.argmin(axis=1)) > 0.9999


def test_large_pools_are_sampled():
    state = pool(n=300)
    inputs = {key: state[key] for key in ("embeddings", "unlabelled", "query_size")}
    assert len(strategies.rep(**inputs, rng=RNG(0), max_rows=50).indices) == 7
    known = {"labelled": state["labelled"]}
    assert len(strategies.probcover(**inputs, **known, num_classes=3, rng=RNG(0), max_rows=50).indices) == 7
    assert len(strategies.typiclust(**inputs, **known, rng=RNG(0), max_rows=50, max_members=9).indices) == 7


@pytest.mark.parametrize("name", ["entropy", "least_confidence", "margin", "bald", "coreset", "cal", "discriminative"])
@SEEDS
def test_the_order_of_the_pool_does_not_count(name, seed):
    """Where nothing is drawn, the same texts are chosen from a shuffled pool."""
    state = pool(seed=seed) | {"query_size": 4}
    strategy = getattr(strategies, name)
    shuffled = RNG(seed).permutation(60)  # new position -> old position
    place = np.argsort(shuffled)  # old position -> new position
    moved = state | {
        "embeddings": state["embeddings"][shuffled],
        "probabilities": state["probabilities"][shuffled],
        "mc_probabilities": state["mc_probabilities"][:, shuffled],
        "unlabelled": np.sort(place[state["unlabelled"]]),
        "labelled": place[state["labelled"]],
    }
    first, second = ask(strategy, state), ask(strategy, moved)
    np.testing.assert_allclose(second.scores, first.scores, rtol=1e-6)
    assert list(shuffled[second.indices]) == list(first.indices)


def test_badge_never_builds_its_gradient_embeddings():
    state = pool(n=2000, dimension=64, classes=50, dtype=np.float32)
    ask(strategies.badge, state)
    tracemalloc.start()
    ask(strategies.badge, state)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2000 * 64 * 50 * 4 / 10
