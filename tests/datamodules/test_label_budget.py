"""Labels that are taken away: nested, seeded, never more than there are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datamodules.label_budget import LabelBudget
from storage.errors import InputError

NAMES = ("a", "b", "c")


@given(st.lists(st.integers(0, 2), min_size=1, max_size=60), st.integers(0, 2**32 - 1), st.data())
def test_a_smaller_budget_is_within_a_larger(labels, seed, data):
    labels = np.array(labels)
    small, large = sorted(data.draw(st.tuples(*[st.integers(0, len(labels))] * 2)))
    kept = [LabelBudget(labels=n).select(labels, seed, NAMES) for n in (small, large)]
    assert set(kept[0]) <= set(kept[1]) and [len(rows) for rows in kept] == [small, large]


@given(st.sets(st.integers(0, 99)), st.integers(0, 2**32 - 1), st.data())
def test_fewer_texts_without_a_label_are_within_more(rows, seed, data):
    rows = np.sort(np.array(list(rows), int))
    sizes = sorted(data.draw(st.tuples(*[st.integers(1, 120)] * 2)))
    kept = [LabelBudget(most_unlabelled=n).select_unlabelled(rows, np.random.default_rng(seed)) for n in sizes]
    assert set(kept[0]) <= set(kept[1]) <= set(rows)
    assert [list(part) == sorted(part) and len(part) for part in kept] == [min(n, len(rows)) for n in sizes]


@given(st.lists(st.integers(0, 2), min_size=1, max_size=60), st.integers(0, 2**32 - 1))
def test_so_many_of_each_class(labels, seed):
    labels = np.array(labels)
    sizes = np.bincount(labels, minlength=3)
    wanted = max(1, int(sizes.max()) - 1)
    kept = LabelBudget(labels_per_class=wanted).select(labels, seed, NAMES)
    assert np.bincount(labels[kept], minlength=3).tolist() == np.minimum(sizes, wanted).tolist()


def test_classes_of_fewer_rows_are_counted_in_a_line(caplog):
    for wanted in (1, 3):
        LabelBudget(labels_per_class=wanted).select(np.repeat([0, 1, 2], (4, 1, 2)), 0, NAMES)
    said = "dataset.labels_per_class=3: 2 of 3 classes have fewer rows, and keep them all; smallest: 1"
    assert caplog.messages == [said]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": 4}, "dataset.labels: found 4, allowed: 0 to 3"),
        ({"labels_per_class": 3}, "dataset.labels_per_class: found 3, allowed: 1 to 2"),
        ({"labels": 1, "labels_per_class": 1}, "dataset.labels: found 1 beside dataset.labels_per_class=1"),
    ],
)
def test_what_cannot_be_had(options, message):
    with pytest.raises(InputError, match=message):
        LabelBudget(**options).select(np.array([0, 0, 1]), 0, NAMES)
