"""Batch orders: complete, reproducible, equal over processes, little padding."""

import numpy as np
import pytest

from datamodules.samplers import LengthGrouped, Shuffle
from storage.errors import InputError

LENGTHS = np.random.default_rng(0).integers(4, 60, 1003)
LABELS = np.zeros(len(LENGTHS), dtype=np.int64)
SAMPLERS = [Shuffle, LengthGrouped]


def batches(sampler, epoch=0, seed=0, lengths=LENGTHS, **place):
    order = sampler.train(lengths, np.zeros(len(lengths), np.int64), seed, **place)
    order.set_epoch(epoch)
    actual = list(order)
    assert len(order) == len(actual)
    return actual


def flat(actual):
    actual = list(actual)
    return np.concatenate(actual).tolist()


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("rows", [2, 3, 15, 16, 17, 18, 33, 1003])
def test_every_row_once_and_no_batch_of_one(kind, rows):
    actual = batches(kind(batch_size=16), lengths=LENGTHS[:rows])
    assert sorted(flat(actual)) == list(range(rows))
    assert min(map(len, actual)) >= 2 and max(map(len, actual)) <= 17


@pytest.mark.parametrize("kind", SAMPLERS)
def test_order_is_a_function_of_seed_and_epoch(kind):
    sampler = kind(batch_size=16)
    assert flat(batches(sampler, epoch=3)) == flat(batches(sampler, epoch=3))
    assert flat(batches(sampler, epoch=3)) != flat(batches(sampler, epoch=4))
    assert flat(batches(sampler, seed=1)) != flat(batches(sampler, seed=2))
    # A resumed run jumps to its epoch without having lived through those before.
    order = sampler.train(LENGTHS, LABELS, 0)
    list(order)
    order.set_epoch(3)
    assert flat(order) == flat(batches(sampler, epoch=3))


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("world_size", [2, 4])
def test_processes_share_the_batches_of_one(kind, world_size):
    sampler = kind(batch_size=16)
    shares = [batches(sampler, epoch=1, rank=rank, world_size=world_size) for rank in range(world_size)]
    single = batches(sampler, epoch=1)
    # 1003 = 62 * 16 + 11: the last batch is whole for every number of processes.
    for parts, whole in zip(zip(*shares, strict=True), single, strict=True):
        assert list(np.concatenate(parts)) == list(whole)  # in the order of ranks, as `losses.gather` puts them
        assert min(map(len, parts)) >= 1


def test_a_last_batch_smaller_than_the_processes_is_merged():
    actual = [batches(Shuffle(batch_size=8), lengths=LENGTHS[:19], rank=rank, world_size=4) for rank in range(4)]
    assert [len(parts) for parts in actual] == [2] * 4
    assert sorted(flat(flat(parts) for parts in actual)) == list(range(19))


def test_length_groups_pad_little_and_mix_over_epochs():
    def padding(actual):
        filled = sum(LENGTHS[batch].sum() for batch in actual)
        return 1 - filled / sum(LENGTHS[batch].max() * len(batch) for batch in actual)

    grouped, plain = batches(LengthGrouped(batch_size=16)), batches(Shuffle(batch_size=16))
    assert padding(grouped) < 0.06 < 0.4 < padding(plain)
    longest = [LENGTHS[batch].max() for batch in grouped]
    assert np.any(np.diff(longest) > 0) and np.any(np.diff(longest) < 0)
    # The company of a row changes from epoch to epoch.
    company = [next(set(batch.tolist()) for batch in batches(LengthGrouped(16), epoch=e) if 7 in batch) for e in (0, 1)]
    assert len(company[0] & company[1]) < 12


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_evaluation_covers_every_row_once(world_size):
    for rows in (world_size, 10, 100, 101):
        orders = [Shuffle(4, 8).eval(LENGTHS[:rows], rank, world_size) for rank in range(world_size)]
        shares = [list(order) for order in orders]
        assert sorted(flat(flat(share) for share in shares)) == list(range(rows))
        assert len({len(share) for share in shares}) == 1
        assert [len(order) for order in orders] == [len(share) for share in shares]
        assert np.all(np.diff(LENGTHS[flat(shares[0])]) <= 0)


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: Shuffle(batch_size=1), "sampler.batch_size: found 1, allowed: >= 2"),
        (lambda: LengthGrouped(batch_size=1), "sampler.batch_size: found 1, allowed: >= 2"),
        (lambda: Shuffle(eval_batch_size=0), "sampler.eval_batch_size: found 0, allowed: >= 1"),
        (lambda: LengthGrouped(chunk_batches=0), "sampler.chunk_batches: found 0, allowed: >= 1"),
        (lambda: batches(Shuffle(16), world_size=3), "sampler.batch_size: found 16, allowed: a multiple of 3"),
        (lambda: batches(Shuffle(16), lengths=LENGTHS[:1]), "train split: found 1 rows, allowed: at least 2"),
    ],
)
def test_bad_input_is_named(attempt, message):
    with pytest.raises(InputError, match=message):
        attempt()
