"""What holds for every query strategy, whatever it maximises."""

import numpy as np
import pytest

from active_learning.selection import Selection, StrategyError, needed_by
from tests.active_learning.pools import ALL, ask, pool

pytestmark = pytest.mark.parametrize("strategy", ALL.values(), ids=ALL)


def assert_sound(selection, given):
    assert isinstance(selection, Selection)
    count = min(given["query_size"], len(given["unlabelled"]))
    assert selection.indices.shape == selection.scores.shape == (count,) and len(selection.reasons) == count
    assert selection.indices.dtype == np.int64 and selection.scores.dtype == np.float64
    assert np.isin(selection.indices, given["unlabelled"]).all()
    assert len(np.unique(selection.indices)) == count
    assert np.isfinite(selection.scores).all()
    assert all(reason and "\n" not in reason and len(reason) < 80 for reason in selection.reasons)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("dimension", "classes"), [(5, 3), (1, 3), (5, 2)])
@pytest.mark.parametrize("query_size", [1, 7, 53])
def test_chooses_as_many_different_texts_as_asked_for(strategy, dtype, dimension, classes, query_size):
    given = pool(dimension=dimension, classes=classes, dtype=dtype, query_size=query_size)
    assert_sound(ask(strategy, given), given)


@pytest.mark.parametrize("query_size", [54, 100])
def test_a_query_for_more_than_is_left_takes_all(strategy, query_size):
    given = pool(query_size=query_size)
    selection = ask(strategy, given)
    assert_sound(selection, given)
    assert sorted(selection.indices) == list(given["unlabelled"])


def test_one_row(strategy):
    given = pool() | {"unlabelled": np.array([4]), "labelled": np.array([1, 2]), "labels": np.array([0, 2])}
    assert list(ask(strategy, given).indices) == [4]


def test_same_generator_same_choice(strategy):
    given = pool()
    first, second = ask(strategy, given, seed=3), ask(strategy, given, seed=3)
    assert list(first.indices) == list(second.indices) and list(first.scores) == list(second.scores)
    assert first.reasons == second.reasons


def test_all_texts_alike(strategy):
    given = pool()
    for name in ("probabilities", "mc_probabilities", "embeddings"):
        given[name] = np.full_like(given[name], 1 / 3)
    assert_sound(ask(strategy, given), given)
    # Nothing tells the texts apart, so the order of the pool must not either.
    chosen = {tuple(sorted(ask(strategy, given, seed).indices)) for seed in range(8)}
    assert len(chosen) > 1


def test_certain_predictions(strategy):
    given = pool()
    for name in ("probabilities", "mc_probabilities"):
        given[name] = np.eye(3)[given[name].argmax(-1)]
    assert_sound(ask(strategy, given), given)


def test_cold_start(strategy):
    nobody = np.array([], dtype=np.int64)
    given = pool() | {"labelled": nobody, "labels": nobody, "probabilities": None, "mc_probabilities": None}
    given["unlabelled"] = np.arange(60)
    assert_sound(ask(strategy, given), given)


def test_one_class_labelled(strategy):
    given = pool()
    assert_sound(ask(strategy, given | {"labels": np.zeros_like(given["labels"])}), given)


def test_looks_only_at_labelled_and_unlabelled_rows(strategy):
    given = pool()
    given["unlabelled"] = given["unlabelled"][::2]
    hidden = np.setdiff1d(np.arange(60), np.concatenate([given["unlabelled"], given["labelled"]]))
    first = ask(strategy, given)
    for name in ("probabilities", "mc_probabilities", "embeddings"):
        given[name] = given[name].copy()
        given[name][..., hidden, :] = np.nan
    assert list(ask(strategy, given).indices) == list(first.indices)


def test_leaves_its_arguments_alone(strategy):
    given = pool()
    before = {name: np.array(value) for name, value in given.items()}
    ask(strategy, given)
    assert all(np.array_equal(before[name], given[name]) for name in given)


@pytest.mark.parametrize("name", ["probabilities", "mc_probabilities", "embeddings"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_refuses_values_that_are_not_finite(strategy, name, value):
    given = pool()
    row = given["unlabelled"][5]
    given[name][..., row, :] = value
    if name in needed_by(strategy):
        with pytest.raises(StrategyError, match=f"^{name}: row {row} holds a value that is not finite$"):
            ask(strategy, given)
    else:
        assert_sound(ask(strategy, given), given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"unlabelled": np.array([], dtype=np.int64)}, "unlabelled: the pool is empty, no text is left to choose"),
        ({"unlabelled": np.array([3, 2])}, "unlabelled: positions must ascend without repetition"),
        ({"unlabelled": np.array([1.0, 2.0])}, "unlabelled: must be one-dimensional integers, got float64 .*"),
        ({"query_size": 0}, "query_size=0: must be at least 1"),
    ],
)
def test_refuses_what_no_query_can_be_made_from(strategy, change, message):
    with pytest.raises(StrategyError, match=f"^{message}$"):
        ask(strategy, pool() | change)
