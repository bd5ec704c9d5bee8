"""Samplers by class: shares of the draws, passes over rows, equal over processes, length groups that leave classes."""

from types import SimpleNamespace

import numpy as np
import pytest

from datamodules.samplers import (
    ClassBalanced,
    LengthGrouped,
    MPerClass,
    PairedBatches,
    Reversed,
    Shuffle,
    SquareRoot,
    StagedBatches,
)
from storage.errors import InputError

SIZES = np.array([1200, 500, 200, 80, 17, 3])
RNG = np.random.default_rng(0)
LABELS = RNG.permutation(np.repeat(np.arange(len(SIZES)), SIZES))
LENGTHS = RNG.integers(4, 60, len(LABELS)) + 5 * LABELS  # longer texts in rarer classes
EXPONENTS = {ClassBalanced: 0.0, SquareRoot: 0.5, Reversed: -1.0}
every_sampler = pytest.mark.parametrize("kind", [*EXPONENTS, MPerClass])
both_orders = pytest.mark.parametrize("chunk_batches", [None, 50])


def batches(sampler, epoch=0, seed=0, lengths=LENGTHS, labels=LABELS, **place):
    order = sampler.train(lengths, labels, seed, **place)
    order.set_epoch(epoch)
    actual = list(order)
    assert len(order) == len(actual)
    return actual


def draws(actual):
    return np.bincount(np.concatenate(actual), minlength=len(LABELS))


@both_orders
@pytest.mark.parametrize("kind", EXPONENTS)
def test_classes_are_drawn_by_their_share(kind, chunk_batches):
    epochs = [batches(kind(16, chunk_batches=chunk_batches), epoch) for epoch in range(5)]
    rows = np.concatenate([np.concatenate(actual) for actual in epochs])
    assert len(rows) == 5 * len(LABELS)
    share = SIZES ** EXPONENTS[kind] / (SIZES ** EXPONENTS[kind]).sum()
    expected, drawn = len(rows) * share, np.bincount(LABELS[rows])
    assert np.all(np.abs(drawn - expected) < 4 * np.sqrt(expected * (1 - share)))
    # Batches are independent draws too, whatever their length: the spread of a class' number is binomial.
    whole = [batch for epoch in epochs for batch in epoch if len(batch) == 16]
    inside = np.array([np.bincount(LABELS[batch], minlength=len(SIZES)) for batch in whole])
    ratio = inside.var(axis=0) / (16 * share * (1 - share))
    assert np.all((ratio > 0.8) & (ratio < 1.25))


@both_orders
@pytest.mark.parametrize("kind", EXPONENTS)
def test_rows_of_a_class_are_used_alike(kind, chunk_batches):
    used = draws(batches(kind(16, chunk_batches=chunk_batches)))
    for c in range(len(SIZES)):
        assert np.ptp(used[LABELS == c]) <= 1
    assert used[LABELS == 5].min() > (1 if kind is SquareRoot else 50)


@both_orders
def test_m_per_class_batches_are_whole(chunk_batches):
    actual = [b for epoch in range(4) for b in batches(MPerClass(32, 8, chunk_batches, 8), epoch)]
    assert len(actual) == 4 * (len(LABELS) // 32)
    for batch in actual:
        counts = np.bincount(LABELS[batch], minlength=len(SIZES))
        assert np.sort(counts).tolist() == [0, 0, 8, 8, 8, 8]
        for c in np.flatnonzero(counts):
            assert len(set(batch[LABELS[batch] == c])) == min(8, SIZES[c])
    per_class = np.bincount(LABELS[np.concatenate(actual)]) / len(actual)
    assert np.allclose(per_class, 32 / 6, atol=0.8)


@every_sampler
def test_order_is_a_function_of_seed_and_epoch(kind):
    sampler = kind(16)

    def order(**options):
        return np.concatenate(batches(sampler, **options)).tolist()

    assert order(epoch=3) == order(epoch=3)
    assert order(epoch=3) != order(epoch=4) and order(seed=1) != order(seed=2)
    resumed = sampler.train(LENGTHS, LABELS, 0)
    list(resumed)
    resumed.set_epoch(3)
    assert np.concatenate(list(resumed)).tolist() == order(epoch=3)


@both_orders
@every_sampler
@pytest.mark.parametrize("world_size", [2, 4])
def test_processes_share_the_batches_of_one(kind, chunk_batches, world_size):
    sampler = kind(16, chunk_batches=chunk_batches)
    shares = [batches(sampler, epoch=1, rank=rank, world_size=world_size) for rank in range(world_size)]
    for parts, whole in zip(zip(*shares, strict=True), batches(sampler, epoch=1), strict=True):
        assert sorted(np.concatenate(parts)) == sorted(whole)
        assert np.ptp([len(part) for part in parts]) <= 1 and min(map(len, parts)) >= 1


def padding(actual, lengths):
    return 1 - sum(lengths[b].sum() for b in actual) / sum(lengths[b].max() * len(b) for b in actual)


@every_sampler
def test_length_groups_pad_less_where_classes_have_many_rows(kind):
    labels = RNG.permutation(np.repeat(np.arange(4), (1200, 900, 600, 500)))
    lengths = np.random.default_rng(1).integers(4, 60, len(labels))
    options = {"rows_per_class": 4} if kind is MPerClass else {}
    grouped, plain = (
        padding(batches(kind(16, chunk_batches=chunk, **options), lengths=lengths, labels=labels), lengths)
        for chunk in (50, None)
    )
    assert grouped < 0.7 * plain


@every_sampler
def test_length_groups_do_not_bring_the_copies_of_a_row_together(kind):
    # Three rows of the rarest class are drawn again and again: no sorting can help there, and none may harm.
    lengths = np.random.default_rng(1).integers(4, 60, len(LABELS))
    grouped, plain = (batches(kind(16, chunk_batches=chunk), lengths=lengths) for chunk in (50, None))
    assert padding(grouped, lengths) < padding(plain, lengths) + 0.01
    copies = [np.mean([len(b) - len(set(b.tolist())) for b in actual]) for actual in (grouped, plain)]
    assert copies[0] < copies[1] + 0.5


@every_sampler
@pytest.mark.parametrize("rows", [7, 16, 17, 33])
def test_small_splits(kind, rows):
    labels = np.arange(rows) % 3
    sampler = kind(16, rows_per_class=8) if kind is MPerClass else kind(16)
    actual = batches(sampler, lengths=LENGTHS[:rows], labels=labels)
    assert min(map(len, actual)) >= 2 and np.concatenate(actual).max() < rows


def test_classes_without_a_row_are_never_drawn():
    labels = np.array([0, 4, 4, 4] * 20)
    for kind in EXPONENTS:
        assert set(labels[np.concatenate(batches(kind(16), lengths=LENGTHS[:80], labels=labels))]) == {0, 4}


def test_square_root_lies_between_the_data_and_the_balanced():
    kinds = (Shuffle, SquareRoot, ClassBalanced, Reversed)
    largest = [np.mean(LABELS[np.concatenate(batches(kind(16)))] == 0) for kind in kinds]
    assert np.all(np.diff(largest) < -0.05)


def paired(sampler, rank=0, world_size=1):
    place = (LENGTHS, LABELS, 0, rank, world_size)
    return PairedBatches(sampler.train(*place), sampler.second("reversed", *place))


def test_a_second_order_that_is_shorter_begins_again():
    orders = [SimpleNamespace(num_batches=2, rank=0, world_size=1, global_batches=lambda rows=rows: rows)
              for rows in ([np.arange(3), np.arange(3, 6)], [np.array([7, 8])])]  # fmt: skip
    assert [batch[1].tolist() for batch in PairedBatches(*orders).global_batches()] == [[7, 8, 7], [8, 7, 8]]


def staged(sampler, switch, rank=0, world_size=1):
    place = (LENGTHS, LABELS, 0, rank, world_size)
    return StagedBatches(sampler.train(*place), sampler.second("class_balanced", *place), lambda: switch)


def epoch_of(order, epoch):
    order.set_epoch(epoch)
    actual = list(order)
    assert len(order) == len(actual)
    return actual


@pytest.mark.parametrize("sampler", [Shuffle(16), LengthGrouped(16), Reversed(16), MPerClass(32, rows_per_class=8)])
def test_pairs_are_batches_of_the_sampler_and_as_many_reversed_rows(sampler):
    pairs, alone = epoch_of(paired(sampler), 2), batches(sampler, epoch=2)
    halves = [np.split(pair, 2) for pair in pairs]
    assert all(np.array_equal(first, batch) for (first, _), batch in zip(halves, alone, strict=True))
    others = np.concatenate([second for _, second in halves])
    share = (1 / SIZES) / (1 / SIZES).sum()
    assert np.all(np.abs(np.bincount(LABELS[others]) - len(others) * share) < 5 * np.sqrt(len(others) * share))
    assert not np.array_equal(others, np.concatenate(alone))  # reversed beside reversed is another draw


@pytest.mark.parametrize("world_size", [2, 4])
def test_processes_share_pairs_half_by_half(world_size):
    shares = [epoch_of(paired(LengthGrouped(16), rank, world_size), 1) for rank in range(world_size)]
    for parts, whole in zip(zip(*shares, strict=True), epoch_of(paired(LengthGrouped(16)), 1), strict=True):
        halves = zip(*(np.split(part, 2) for part in parts), strict=True)
        assert np.array_equal(np.concatenate([np.concatenate(half) for half in halves]), whole)


@pytest.mark.parametrize("world_size", [1, 2])
def test_stages_change_at_a_batch_of_the_run(world_size):
    sampler = Shuffle(16)
    number = len(batches(sampler))
    order = staged(sampler, number + 40, world_size - 1, world_size)
    epochs = [epoch_of(order, epoch) for epoch in (0, 1, 2)]
    drawn = [batches(sampler, epoch, rank=world_size - 1, world_size=world_size) for epoch in (0, 1)]
    assert all(map(np.array_equal, epochs[0] + epochs[1][:40], drawn[0] + drawn[1][:40]))
    balanced = LABELS[np.concatenate(epochs[1][40:] + epochs[2])]
    assert np.allclose(np.bincount(balanced) / len(balanced), 1 / 6, atol=0.04)
    # a run that goes on from an epoch sees the same batches
    assert all(map(np.array_equal, epoch_of(staged(sampler, number + 40, world_size - 1, world_size), 1), epochs[1]))


def test_stages_of_one_kind():
    sampler = LengthGrouped(16)
    assert all(map(np.array_equal, epoch_of(staged(sampler, 10**6), 1), batches(sampler, 1)))
    assert len(set(np.concatenate(epoch_of(staged(sampler, 0), 0)))) < len(LABELS)


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: ClassBalanced(batch_size=1), "sampler.batch_size: found 1, allowed: >= 2"),
        (lambda: Reversed(chunk_batches=0), "sampler.chunk_batches: found 0, allowed: >= 1"),
        (lambda: MPerClass(16, rows_per_class=0), "sampler.rows_per_class: found 0, allowed: a divisor of 16"),
        (lambda: MPerClass(16, rows_per_class=5), "sampler.rows_per_class: found 5, allowed: a divisor of 16"),
        (
            lambda: batches(MPerClass(16, rows_per_class=2)),
            "sampler.rows_per_class: found 2, allowed: >= 3 with sampler.batch_size=16 and 6 classes",
        ),
        (lambda: batches(SquareRoot(16), world_size=3), "sampler.batch_size: found 16, allowed: a multiple of 3"),
    ],
)
def test_bad_input_is_named(attempt, message):
    with pytest.raises(InputError, match=message):
        attempt()
