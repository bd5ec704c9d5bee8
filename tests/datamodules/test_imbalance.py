"""Thinning to an imbalance ratio, on the shapes of real data sets."""

import json
from pathlib import Path

import numpy as np
import pytest

from datamodules.imbalance import Counts, Exponential, Listed, Step
from storage.errors import InputError

# Rows per class of the published train splits.
SHAPES = {
    "ohsumed": [585, 430, 377, 240, 215, 179, 176, 168, 155, 122, 114, 101, 92, 83, 59, 54, 49, 40, 35, 29, 25, 21, 9],
    "trec": [1250, 1223, 1162, 896, 835, 86],
    "r52": [2840, 1596, 253, 251, 206, 190, 123, 108, 97, 90, 70, 58, 54, 46, 41, 37, 37, 33, 31, 31, 31, 26, 24, 22]
    + [19, 19, 17, 15, 15, 14, 13, 13, 13, 11, 10, 9, 8, 7, 7, 6, 6, 6, 5, 4, 4, 3, 3, 3, 2, 2, 2, 1],
    "cr": [2165, 1229],
    "dblp": [20970, 10309, 9556, 9364, 6018, 5262],
    "biomedical": [1000] * 20,
}


def thinned(imbalance, sizes, seed=0, **options):
    labels = np.random.default_rng(99).permutation(np.repeat(np.arange(len(sizes)), sizes))
    kept = imbalance.select(labels, np.random.default_rng(seed), **options)
    assert np.all(np.diff(kept) > 0)
    counts = np.bincount(labels[kept], minlength=len(sizes))
    assert np.all(counts <= sizes)
    return counts


def assert_ratio(counts, ir):
    """Largest to smallest is ir, within half a row of the largest class."""
    assert counts.min() >= 1
    assert abs(counts.max() - ir * counts.min()) <= 0.5


def test_profile_of_cui_et_al():
    cases = json.loads((Path(__file__).parents[1] / "golden" / "sharprecl.json").read_text())["cases"]
    case = next(case for case in cases if case["id"] == "longtail_profile")
    counts = thinned(Exponential(case["inputs"]["ir"]), case["inputs"]["class_counts_sorted"])
    assert counts.tolist() == case["expected"]["recommended"] == [1000, 316, 100]


@pytest.mark.parametrize("profile", [Exponential, Step])
@pytest.mark.parametrize("ir", [1, 1.5, 10, 20, 50, 100])
@pytest.mark.parametrize("shape", SHAPES)
def test_ratio_on_real_shapes(profile, ir, shape):
    assert_ratio(thinned(profile(ir), SHAPES[shape]), ir)


@pytest.mark.parametrize("profile", [Exponential, Step])
def test_ratio_on_random_shapes(profile):
    rng = np.random.default_rng(0)
    for _ in range(300):
        sizes = np.maximum(rng.lognormal(rng.uniform(1, 6), rng.uniform(0, 2), rng.integers(2, 60)).astype(int), 1)
        ir = rng.choice([rng.uniform(1, sizes.max()), float(rng.integers(1, sizes.max() + 1))])
        assert_ratio(thinned(profile(ir), sizes), ir)


def test_known_ratios():
    for ir, ends in ((10, (90, 9)), (20, (180, 9)), (50, (450, 9))):
        counts = thinned(Exponential(ir), SHAPES["ohsumed"])
        assert (counts.max(), counts.min()) == ends
    assert thinned(Exponential(50), SHAPES["cr"]).tolist() == [2150, 43]
    assert thinned(Exponential(2), [4, 4, 1]).tolist() == [2, 1, 1]


def test_exponential_keeps_the_order_of_classes():
    counts = thinned(Exponential(20), SHAPES["biomedical"])
    assert np.all(np.diff(counts) <= 0) and counts[0] == 1000 and counts[-1] == 50
    counts = thinned(Exponential(10), [890, 1000, 900])
    assert counts.tolist() == [100, 1000, 316]


def test_step_has_two_levels():
    assert thinned(Step(10), [1000] * 4).tolist() == [1000, 1000, 100, 100]
    assert thinned(Step(10, share_of_head=0.25), [1000] * 4).tolist() == [1000, 100, 100, 100]
    assert thinned(Step(5), [7, 1000]).tolist() == [7, 35]


def test_null_keeps_everything():
    for imbalance in (Exponential(), Step()):
        assert thinned(imbalance, SHAPES["r52"]).tolist() == SHAPES["r52"]


def test_counts_by_list_and_by_name():
    assert thinned(Counts([2, 3]), [5, 5]).tolist() == [2, 3]
    assert thinned(Counts({"b": 1}), [5, 5], label_names=["a", "b"]).tolist() == [5, 1]
    assert thinned(Counts({7: 2, 8: 3}), [5, 5], label_names=["7", "8"]).tolist() == [2, 3]
    assert thinned(Counts({"a": 2}), [5, 4, 0], label_names=["a", "b", "c"]).tolist() == [2, 4, 0], "c is not named"


def test_the_rng_draws_and_smaller_sets_are_nested():
    labels = np.repeat([0, 1], [100, 100])
    few, many, other = (
        Exponential(ir).select(labels, np.random.default_rng(seed)) for ir, seed in ((20, 0), (5, 0), (5, 1))
    )
    assert set(few) < set(many) and set(many) != set(other)
    assert np.array_equal(many, Exponential(5).select(labels, np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: Exponential(0.5), r"imbalance.ir: found 0.5, allowed: a number >= 1"),
        (lambda: Step(float("nan")), r"imbalance.ir: found nan"),
        (lambda: Exponential(float("inf")), r"imbalance.ir: found inf"),
        (lambda: Step(2, share_of_head=1.0), r"imbalance.share_of_head: found 1.0, allowed: 0 < "),
        (lambda: thinned(Exponential(1001), [1000, 900]), r"imbalance.ir: found 1001, allowed: 1 to 1000"),
        (lambda: thinned(Step(1001), [1000, 900]), r"imbalance.ir: found 1001, allowed: 1 to 1000"),
        (lambda: thinned(Counts([1, 6]), [5, 5]), r"imbalance.counts: found 6 for class '1', allowed: 1 to 5 rows"),
        (lambda: thinned(Counts([1, 0]), [5, 5]), r"imbalance.counts: found 0 for class '1'"),
        (lambda: thinned(Counts([1, 1.5]), [5, 5]), r"imbalance.counts: found 1.5 for class '1'"),
        (lambda: thinned(Counts([1, 2]), [5, 0], label_names=["a", "b"]), "found 2 for class 'b', allowed: no number"),
        (lambda: thinned(Counts([1]), [5, 5]), r"imbalance.counts: found 1, allowed: one for each of 2 classes"),
        (lambda: thinned(Counts({"c": 1}), [5, 5]), r"imbalance.counts: found class 'c', allowed: 0, 1"),
    ],
)
def test_bad_input_is_named(attempt, message):
    with pytest.raises(InputError, match=message) as caught:
        attempt()
    assert "\n" not in str(caught.value)


def test_listed_rows_are_kept_as_they_are():
    rows = np.arange(4)
    assert Listed([3, 0]).among(rows)[0].tolist() == [0, 3] and Listed([3, 0]).among(rows)[1] is None
    assert [part.tolist() for part in Listed([3, 0], unlabelled="rest").among(rows)] == [[0, 3], [1, 2]]
    assert [part.tolist() for part in Listed([30], unlabelled=[20, 30]).among(10 * rows)] == [[30], [20]]
    with pytest.raises(InputError, match="imbalance.rows: found 4, allowed: 0 to 3"):
        Listed([4]).among(rows)
    with pytest.raises(InputError, match="imbalance.unlabelled: found 3, allowed: train rows with a label that no"):
        Listed([30], unlabelled=[3]).among(10 * rows)
    with pytest.raises(InputError, match="imbalance.rows: found a row twice"):
        Listed([1, 1])
    with pytest.raises(InputError, match="imbalance.labels: found 1, allowed: 2"):
        Listed([1, 2], [0])


def test_what_a_person_said_of_listed_rows():
    assert Listed([3, 0]).answers(3) is None
    assert Listed([3, 0], [2, 1]).answers(3).tolist() == [2, 1]
    assert Listed([3, 0, 1], [[2, 0], [], [1]]).answers(3).tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    for labels, shown in (([0, 7], 7), ([[1], [0, 2]], 2), ([-1, 0], -1)):
        with pytest.raises(InputError, match=f"imbalance.labels: found {shown}, allowed: 0 to 1"):
            Listed([3, 0], labels).answers(2)
    with pytest.raises(InputError, match="imbalance.labels: found numbers beside lists of them, allowed: one kind"):
        Listed([3, 0], [[1], 0]).answers(2)
