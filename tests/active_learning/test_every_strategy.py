"""What holds for every query strategy, whatever it maximises."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as draw

from active_learning.selection import Selection, StrategyError, needed_by
from tests.active_learning.pools import ALL, ask, pool

pytestmark = pytest.mark.parametrize("strategy", ALL.values(), ids=ALL)
NOBODY = np.array([], dtype=np.int64)
PREDICTED = ("probabilities", "mc_probabilities")


def assert_sound(selection, inputs):
    assert isinstance(selection, Selection)
    count = min(inputs["query_size"], len(inputs["unlabelled"]))
    assert selection.indices.shape == selection.scores.shape == (count,) and len(selection.reasons) == count
    assert selection.indices.dtype == np.int64 and selection.scores.dtype == np.float64
    assert np.isin(selection.indices, inputs["unlabelled"]).all()
    assert len(np.unique(selection.indices)) == count
    assert np.isfinite(selection.scores).all()
    assert all(reason and "\n" not in reason and len(reason) < 80 for reason in selection.reasons)


@given(
    dimension=draw.sampled_from([1, 2, 5]),
    classes=draw.integers(2, 4),
    query_size=draw.integers(1, 100),  # of 54 texts: all, where more are asked for
    dtype=draw.sampled_from([np.float32, np.float64]),
    seed=draw.integers(0, 1000),
)
def test_as_many_different_texts_as_asked_for_and_the_same_again(strategy, dimension, classes, query_size, dtype, seed):
    inputs = pool(dimension=dimension, classes=classes, dtype=dtype, query_size=query_size)
    before = {name: np.array(value) for name, value in inputs.items()}
    first, second = ask(strategy, inputs, seed), ask(strategy, inputs, seed)
    assert_sound(first, inputs)
    assert list(first.indices) == list(second.indices) and list(first.scores) == list(second.scores)
    assert first.reasons == second.reasons
    assert all(np.array_equal(before[name], inputs[name]) for name in inputs)


@pytest.mark.parametrize("kind", ["one row", "certain", "cold start", "one class labelled"])
def test_degenerate_pools(strategy, kind):
    inputs = pool()
    if kind == "one row":
        inputs |= {"unlabelled": np.array([4]), "labelled": np.array([1, 2]), "labels": np.array([0, 2])}
    elif kind == "certain":
        inputs |= {name: np.eye(3)[inputs[name].argmax(-1)] for name in PREDICTED}
    elif kind == "cold start":
        inputs |= dict.fromkeys(PREDICTED) | {"labelled": NOBODY, "labels": NOBODY, "unlabelled": np.arange(60)}
    else:
        inputs |= {"labels": np.zeros_like(inputs["labels"])}
    assert_sound(ask(strategy, inputs), inputs)


def test_the_order_of_the_pool_does_not_choose_among_texts_that_are_alike(strategy):
    inputs = pool()
    inputs |= {name: np.full_like(inputs[name], 1 / 3) for name in (*PREDICTED, "embeddings")}
    assert_sound(ask(strategy, inputs), inputs)
    assert len({tuple(sorted(ask(strategy, inputs, seed).indices)) for seed in range(8)}) > 1


def test_looks_only_at_labelled_and_unlabelled_rows(strategy):
    inputs = pool()
    inputs["unlabelled"] = inputs["unlabelled"][::2]
    hidden = np.setdiff1d(np.arange(60), np.concatenate([inputs["unlabelled"], inputs["labelled"]]))
    first = ask(strategy, inputs)
    for name in (*PREDICTED, "embeddings"):
        inputs[name] = inputs[name].copy()
        inputs[name][..., hidden, :] = np.nan
    assert list(ask(strategy, inputs).indices) == list(first.indices)


def test_refuses_what_no_query_can_be_made_from(strategy):
    for name in needed_by(strategy) & {*PREDICTED, "embeddings"}:
        for value in (np.nan, np.inf):
            inputs = pool()
            row = inputs["unlabelled"][5]
            inputs[name][..., row, :] = value
            with pytest.raises(StrategyError, match=f"^{name}: row {row} holds a value that is not finite$"):
                ask(strategy, inputs)
    for change, message in (
        ({"unlabelled": NOBODY}, "unlabelled: the pool is empty, no text is left to choose"),
        ({"unlabelled": np.array([3, 2])}, "unlabelled: positions must ascend without repetition"),
        ({"unlabelled": np.array([1.0, 2.0])}, "unlabelled: must be one-dimensional integers, got float64 .*"),
        ({"query_size": 0}, "query_size=0: must be at least 1"),
    ):
        with pytest.raises(StrategyError, match=f"^{message}$"):
            ask(strategy, pool() | change)
