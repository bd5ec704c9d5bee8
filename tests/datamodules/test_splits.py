"""The stratified validation split."""

import numpy as np
import pytest

from datamodules.splits import Protocol, fold_numbers, rank_in_class, split_together, stratified_split
from storage.errors import InputError

OHSUMED = [585, 430, 377, 240, 215, 179, 176, 168, 155, 122, 114, 101, 92, 83, 59, 54, 49, 40, 35, 29, 25, 21, 9]


def split(sizes, fraction=0.1, seed=0, **options):
    labels = np.random.default_rng(99).permutation(np.repeat(np.arange(len(sizes)), sizes))
    train, val = stratified_split(labels, fraction, np.random.default_rng(seed), **options)
    return labels, train, val


@pytest.mark.parametrize("fraction", [0.001, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("sizes", [OHSUMED, [2, 2, 2], [1000] * 20, [3, 500]])
def test_every_class_is_on_both_sides_and_no_row_is_lost(sizes, fraction):
    labels, train, val = split(sizes, fraction)
    assert np.array_equal(np.sort(np.concatenate([train, val])), np.arange(len(labels)))
    assert np.all(np.diff(train) > 0) and np.all(np.diff(val) > 0)
    for counts in (np.bincount(labels[train], minlength=len(sizes)), np.bincount(labels[val], minlength=len(sizes))):
        assert counts.min() >= 1


def test_shares_follow_the_fraction():
    labels, _, val = split(OHSUMED, 0.1)
    wanted = np.maximum(np.floor(0.1 * np.array(OHSUMED) + 0.5), 1)
    assert np.array_equal(np.bincount(labels[val]), wanted)


def test_the_seed_decides():
    assert np.array_equal(split(OHSUMED, seed=1)[2], split(OHSUMED, seed=1)[2])
    assert not np.array_equal(split(OHSUMED, seed=1)[2], split(OHSUMED, seed=2)[2])


def test_classes_of_one_row():
    with pytest.raises(InputError, match=r"class 'b' has one train row \(2 such classes\).*=keep_in_train"):
        split([5, 1, 1], label_names=["a", "b", "c"])
    labels, train, _ = split([5, 1, 1], singleton_classes="keep_in_train")
    assert np.bincount(labels[train]).tolist() == [4, 1, 1]


def test_ranks_number_each_class():
    labels = np.array([2, 0, 2, 0, 2])
    ranks = rank_in_class(labels, np.random.default_rng(0))
    assert sorted(ranks[labels == 2]) == [0, 1, 2] and sorted(ranks[labels == 0]) == [0, 1]


def test_protocol_refuses_what_it_cannot_mean():
    assert Protocol("published", 0.0, "test/accuracy").mode == "max"
    for fraction in (0.0, 1.0, -0.1):
        with pytest.raises(InputError, match="protocol.val_fraction"):
            Protocol("clean", fraction, "val/macro_f1")
    with pytest.raises(InputError, match=r"0 < val_fraction < 1, or 0 with protocol.monitor=null"):
        Protocol("kfold", 0.0, "val/loss", "min")
    with pytest.raises(InputError, match="protocol.fold: found 5, allowed: 0 to 4, or null"):
        Protocol("kfold", 0.1, "val/loss", "min", fold=5)


def test_folds_share_out_each_class_and_keep_equal_texts_together():
    labels = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [52, 23, 1]))
    texts = [f"text {row}" for row in range(len(labels))]
    folds = fold_numbers(labels, texts, 5)
    for c, size in enumerate([52, 23, 1]):
        assert np.ptp(np.bincount(folds[labels == c], minlength=5)) <= 1 and (labels == c).sum() == size
    assert np.ptp(np.bincount(folds)) <= 1
    assert np.array_equal(folds, fold_numbers(labels, texts, 5))
    assert not np.array_equal(folds, fold_numbers(labels, texts, 5, repeat=1))
    texts[3], texts[40], texts[41] = "Text  3", "text 3", "TEXT 3 "  # one text, typed in three ways
    folds = fold_numbers(labels, texts, 5)
    assert folds[3] == folds[40] == folds[41]
    for seed in range(5):
        train, val = split_together(labels, texts, 0.3, np.random.default_rng(seed), "keep_in_train")
        assert sorted([*train, *val]) == list(range(len(labels))) and len({3, 40, 41} & set(val)) in (0, 3)
    with pytest.raises(InputError, match="class 1 has one different text .*; allowed: at least 2 different texts per"):
        split_together(np.array([0, 0, 1, 1]), ["a", "b", "c", "C "], 0.3, np.random.default_rng(0))
    with pytest.raises(InputError, match="found 5 for 1 different texts"):
        fold_numbers(labels, ["same"] * len(labels), 5)


def test_where_few_rows_validate_their_loss_chooses():
    protocol = Protocol("clean", 0.1, "val/macro_f1", loss_below=300)
    few = protocol.with_rows(299)
    assert (few.monitor, few.mode) == ("val/loss", "min") and protocol.with_rows(300) is protocol
    for unchanged in (Protocol("clean", 0.1, "val/macro_f1"), Protocol("kfold", 0.1, None, loss_below=300)):
        assert unchanged.with_rows(3) is unchanged
