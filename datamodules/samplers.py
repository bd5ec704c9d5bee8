"""The order of rows in batches: a pure function of (seed, epoch, rank), so that a resumed run sees the same batches."""

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from torch.utils.data import Sampler

from datamodules.errors import InputError


class Batches(Sampler[np.ndarray]):
    """Yields one array of row positions per batch, this process' share of it.

    Give it to a DataLoader as ``sampler`` together with ``batch_size=None``: the data set is then asked for whole
    batches, and Lightning finds ``set_epoch``.
    """

    def __init__(self, num_batches: int, rank: int, world_size: int) -> None:
        self.num_batches, self.rank, self.world_size, self.epoch = num_batches, rank, world_size, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def global_batches(self) -> list[np.ndarray]:
        """The batches of this epoch over all processes."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[np.ndarray]:
        for batch in self.global_batches():
            yield batch[self.rank :: self.world_size]


class ShuffledBatches(Batches):
    """Every row once an epoch, in random order.

    With ``chunk_batches`` the shuffled rows are sorted by length within chunks of that many batches, which leaves
    little padding, and the batches are shuffled again. A chunk is at most a quarter of the epoch, so that the
    composition of the batches changes from epoch to epoch on small data too.

    The union over processes of batch k is batch k of a single process. A last batch of fewer rows than 2, or than
    there are processes, is merged into the one before it.
    """

    def __init__(
        self,
        lengths: np.ndarray,
        batch_size: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        chunk_batches: int | None = None,
    ) -> None:
        if batch_size % world_size:
            raise InputError(f"sampler.batch_size: found {batch_size}, allowed: a multiple of {world_size} (processes)")
        if len(lengths) < max(2, world_size):
            raise InputError(f"train split: found {len(lengths)} rows, allowed: at least {max(2, world_size)}")
        self.bounds = _bounds(len(lengths), batch_size, smallest=max(2, world_size))
        super().__init__(len(self.bounds) + 1, rank, world_size)
        self.lengths, self.batch_size, self.seed, self.chunk_batches = lengths, batch_size, seed, chunk_batches

    def global_batches(self) -> list[np.ndarray]:
        rng = np.random.default_rng([self.seed, self.epoch, 1])
        order = rng.permutation(len(self.lengths))
        if self.chunk_batches is None:
            return np.split(order, self.bounds)
        chunk = self.batch_size * min(self.chunk_batches, max(1, self.num_batches // 4))
        order = np.concatenate([_longest_first(self.lengths, rows) for rows in _chunks(order, chunk)])
        batches = np.split(order, self.bounds)
        return [batches[k] for k in rng.permutation(len(batches))]


class SortedBatches(Batches):
    """Every row once, longest first, for evaluation: no shuffling, no duplicates to even out the processes."""

    def __init__(self, lengths: np.ndarray, batch_size: int, rank: int = 0, world_size: int = 1) -> None:
        # One global batch holds batch_size rows for each process, so that all have the same number of batches.
        bounds = _bounds(len(lengths), batch_size * world_size, smallest=world_size)
        super().__init__(len(bounds) + 1 if len(lengths) else 0, rank, world_size)
        self.batches = np.split(_longest_first(lengths, np.arange(len(lengths))), bounds)[: self.num_batches]

    def global_batches(self) -> list[np.ndarray]:
        return self.batches


class Shuffle:
    """Random batches.

    Args:
        batch_size: train rows of one step over all processes, >= 2 and divisible by their number.
        eval_batch_size: rows of one evaluation batch in each process, >= 1.
    """

    chunk_batches: int | None = None

    def __init__(self, batch_size: Annotated[int, ">= 2"] = 32, eval_batch_size: Annotated[int, ">= 1"] = 128) -> None:
        for key, found, smallest in (("batch_size", batch_size, 2), ("eval_batch_size", eval_batch_size, 1)):
            if found < smallest:
                raise InputError(f"sampler.{key}: found {found}, allowed: >= {smallest}")
        self.batch_size, self.eval_batch_size = batch_size, eval_batch_size

    def train(self, lengths: np.ndarray, labels: np.ndarray, seed: int, rank: int = 0, world_size: int = 1) -> Batches:
        """Batches of the train split: ``lengths`` and ``labels`` are ``(N,)``."""
        return ShuffledBatches(lengths, self.batch_size, seed, rank, world_size, self.chunk_batches)

    def eval(self, lengths: np.ndarray, rank: int = 0, world_size: int = 1) -> Batches:
        """Batches of an evaluation split: every row once."""
        return SortedBatches(lengths, self.eval_batch_size, rank, world_size)


class LengthGrouped(Shuffle):
    """Random batches of texts of similar length: as ``Shuffle``, with little padding.

    Args:
        batch_size: train rows of one step over all processes, >= 2 and divisible by their number.
        eval_batch_size: rows of one evaluation batch in each process, >= 1.
        chunk_batches: batches over which texts are sorted by length; more pads less and mixes less.
    """

    def __init__(
        self,
        batch_size: Annotated[int, ">= 2"] = 32,
        eval_batch_size: Annotated[int, ">= 1"] = 128,
        chunk_batches: Annotated[int, ">= 1"] = 50,
    ) -> None:
        super().__init__(batch_size, eval_batch_size)
        if chunk_batches < 1:
            raise InputError(f"sampler.chunk_batches: found {chunk_batches}, allowed: >= 1")
        self.chunk_batches = chunk_batches


def _bounds(num_rows: int, batch_size: int, smallest: int) -> np.ndarray:
    """Where to cut ``num_rows`` into batches; a last batch below ``smallest`` rows is not cut off."""
    bounds = np.arange(batch_size, num_rows, batch_size)
    return bounds[:-1] if len(bounds) and num_rows - bounds[-1] < smallest else bounds


def _chunks(rows: np.ndarray, size: int) -> list[np.ndarray]:
    return np.split(rows, np.arange(size, len(rows), size))


def _longest_first(lengths: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return rows[np.argsort(-lengths[rows], kind="stable")]
