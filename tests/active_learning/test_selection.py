"""The checks of arguments, ties, and what the loop reads off a strategy."""

import functools

import numpy as np
import pytest

from active_learning import strategies
from active_learning.selection import (
    StrategyError,
    blocks,
    check,
    highest,
    label_by_label,
    needed_by,
    takes_one_class,
)
from tests.active_learning.pools import pool


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probabilities": np.ones((60, 1))}, "probabilities: needs at least 2 classes, got 1"),
        ({"probabilities": np.full((60, 3), 1.5)}, "probabilities: must lie in [0, 1], got 1.5 to 1.5"),
        ({"probabilities": np.ones(60)}, "probabilities: must be filled float32 or float64 (N, C), got float64 (60,)"),
        (
            {"embeddings": np.ones((60, 2), int)},
            "embeddings: must be filled float32 or float64 (N, D), got int64 (60, 2)",
        ),
        ({"embeddings": [[1.0]]}, "embeddings: must be filled float32 or float64 (N, D), got list"),
        ({"embeddings": np.ones((9, 2))}, "embeddings: has 9 rows, position 59 was asked for"),
        (
            {"mc_probabilities": np.ones((60, 3))},
            "mc_probabilities: must be filled float32 or float64 (T, N, C), got float64 (60, 3)",
        ),
        ({"labels": np.array([0])}, "labels: 1 for 6 labelled texts"),
        ({"labels": np.full(6, 3)}, "labels: must lie in [0, 3), got 3 to 3"),
        ({"labelled": np.arange(45, 51)}, "labelled: holds positions that stand in unlabelled too"),
    ],
)
def test_refuses(change, message):
    with pytest.raises(StrategyError) as caught:
        check(**pool() | {"unlabelled": np.arange(50, 60), "labelled": np.arange(40, 46)} | change)
    assert str(caught.value) == message


def test_a_large_finite_value_is_no_infinity():
    inputs = pool(dtype=np.float32)
    inputs["embeddings"][:] = 3e38
    assert check(**inputs) is None


def test_needed_by_sees_through_partials_and_wrappers():
    assert needed_by(strategies.random) == {"unlabelled", "query_size", "rng"}
    assert needed_by(functools.partial(strategies.clun, starts=1)) == {
        *("unlabelled", "query_size", "rng"),
        *("embeddings", "probabilities", "num_labels"),
    }


def test_highest_draws_among_equals_only():
    scores = np.array([1.0, 5, 3, 3, 3, 4])
    seen = set()
    for seed in range(40):
        first, second, third = highest(scores, 3, np.random.default_rng(seed))
        assert (first, second) == (1, 5)
        seen.add(third)
    assert seen == {2, 3, 4}
    assert sorted(highest(scores, 6, np.random.default_rng(0))) == list(range(6))


def test_blocks_cover_the_rows_in_order():
    parts = list(blocks(np.arange(10), 4))
    assert [len(part) for part in parts] == [4, 4, 2] and list(np.concatenate(parts)) == list(range(10))


def test_classes_that_apply_by_themselves_are_asked_by_their_mean_entropy():
    probabilities = np.random.default_rng(0).random((40, 5))
    entropies = -(probabilities * np.log(probabilities) + (1 - probabilities) * np.log(1 - probabilities)).mean(axis=1)
    pairs = label_by_label(probabilities)
    np.testing.assert_allclose(pairs.sum(axis=1), 1)
    asked = {"unlabelled": np.arange(40), "query_size": 7, "rng": np.random.default_rng(0)}
    chosen = strategies.entropy(probabilities=pairs, num_labels=5, **asked)
    assert chosen.indices.tolist() == np.argsort(-entropies)[:7].tolist()
    np.testing.assert_allclose(chosen.scores, np.sort(entropies)[::-1][:7])
    among = {"strategy": strategies.rep_clun, "embeddings": probabilities}
    among |= {"unlabelled": np.arange(39), "labelled": np.array([39])}
    of_cluster = strategies.subsample(probabilities=pairs, num_labels=5, **(asked | among))
    np.testing.assert_allclose(of_cluster.scores, entropies[of_cluster.indices])
    assert of_cluster.reasons[0].startswith(f"entropy {of_cluster.scores[0]:.2f} nats")


def test_strategies_that_take_one_class_say_so():
    of_one = {name for name in strategies.__all__ if takes_one_class(getattr(strategies, name))}
    assert of_one == {"badge", "class_balanced", "least_confidence", "margin"}
    wrapped = functools.partial(strategies.subsample, strategy=functools.partial(strategies.margin), size=100)
    assert takes_one_class(wrapped)
