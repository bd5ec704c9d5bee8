"""The order of rows in batches: a pure function of (seed, epoch, rank), so that a resumed run sees the same batches."""

from collections.abc import Callable, Iterator
from typing import Annotated, Literal

import numpy as np
from torch.utils.data import Sampler

from datamodules.streams import SECOND_STREAM, TRAIN_STREAM
from storage.errors import InputError


class Batches(Sampler[np.ndarray]):
    """Yields one array of row positions per batch, this process' part of it: consecutive rows, in the order of ranks.

    Give it to a DataLoader as ``sampler`` together with ``batch_size=None``: the data set is then asked for whole
    batches, and Lightning finds ``set_epoch``.
    """

    stream = TRAIN_STREAM  # two orders of one run take different ones

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
            yield self.part(batch)

    def part(self, batch: np.ndarray) -> np.ndarray:
        """What this process gets of a global batch."""
        return np.array_split(batch, self.world_size)[self.rank]


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
        rng = np.random.default_rng([self.seed, self.epoch, self.stream])
        order = rng.permutation(len(self.lengths))
        if self.chunk_batches is None:
            return np.split(order, self.bounds)
        chunk = self.batch_size * min(self.chunk_batches, max(1, self.num_batches // 4))
        order = np.concatenate([_longest_first(self.lengths, rows) for rows in _chunks(order, chunk)])
        batches = np.split(order, self.bounds)
        return [batches[k] for k in rng.permutation(len(batches))]


class ClassBatches(ShuffledBatches):
    """Batches whose classes are drawn first and then filled with rows.

    The rows of a class come in passes: every row once in random order, then every row again, so that within an epoch
    no row is used more than once oftener than another of its class. With ``chunk_batches`` each pass is sorted by
    length within chunks of that many batches: a batch then holds texts of similar length, while the classes in it stay
    as drawn, and copies of one row do not come together as sorting all places would make them.

    Takes the arguments of ``ShuffledBatches`` after ``labels`` (N,).
    """

    together = 1  # places of one class that come together; a pass is cut to a multiple, so that they differ

    def __init__(self, lengths: np.ndarray, labels: np.ndarray, *arguments) -> None:
        super().__init__(lengths, *arguments)
        counts = np.unique(labels, return_counts=True)[1]
        self.rows = np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])
        self.counts = counts

    def classes(self, rng: np.random.Generator) -> np.ndarray:
        """The class of every place of an epoch, as an index into ``rows``."""
        raise NotImplementedError

    def global_batches(self) -> list[np.ndarray]:
        rng = np.random.default_rng([self.seed, self.epoch, self.stream])
        classes = self.classes(rng)
        order = np.empty(len(classes), dtype=np.int64)
        per_class = np.cumsum(np.bincount(classes, minlength=len(self.rows)))[:-1]
        for rows, places in zip(self.rows, np.split(np.argsort(classes, kind="stable"), per_class), strict=True):
            order[places] = self._filled(rows, places, rng)
        batches = np.split(order, self.bounds)
        return batches if self.chunk_batches is None else [batches[k] for k in rng.permutation(len(batches))]

    def _filled(self, rows: np.ndarray, places: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Rows of one class for its places, which ascend."""
        size = len(rows) - len(rows) % self.together or len(rows)
        passes = -(-len(places) // size)
        sampled = rng.permuted(np.tile(rows, (passes, 1)), axis=1)[:, :size].ravel()[: len(places)]
        if self.chunk_batches is None:
            return sampled
        chunk = places // (self.batch_size * min(self.chunk_batches, max(1, self.num_batches // 4)))
        return sampled[np.lexsort((-self.lengths[sampled], np.arange(len(sampled)) // size, chunk))]


class FrequencyBatches(ClassBatches):
    """As many places as there are rows, each of class c with probability proportional to n_c^exponent."""

    def __init__(self, lengths: np.ndarray, labels: np.ndarray, exponent: float, *arguments) -> None:
        super().__init__(lengths, labels, *arguments)
        share = self.counts**exponent
        self.share = share / share.sum()

    def classes(self, rng: np.random.Generator) -> np.ndarray:
        return rng.choice(len(self.rows), size=len(self.lengths), p=self.share)


class PerClassBatches(ClassBatches):
    """Whole batches of ``batch_size / rows_per_class`` different classes with ``rows_per_class`` rows each.

    The rows of a class in a batch differ, unless the class has fewer.
    """

    def __init__(self, lengths: np.ndarray, labels: np.ndarray, rows_per_class: int, *arguments) -> None:
        super().__init__(lengths, labels, *arguments)
        self.together, self.classes_per_batch = rows_per_class, self.batch_size // rows_per_class
        if self.classes_per_batch > len(self.rows):
            raise InputError(
                f"sampler.rows_per_class: found {rows_per_class}, allowed: >= {-(-self.batch_size // len(self.rows))} "
                f"with sampler.batch_size={self.batch_size} and {len(self.rows)} classes"
            )
        self.num_batches = max(1, len(lengths) // self.batch_size)
        self.bounds = np.arange(1, self.num_batches) * self.batch_size

    def classes(self, rng: np.random.Generator) -> np.ndarray:
        order = rng.permuted(np.tile(np.arange(len(self.rows)), (self.num_batches, 1)), axis=1)
        return order[:, : self.classes_per_batch].repeat(self.together, axis=1).ravel()


class TwoOrders(Batches):
    """Batches made of two orders of the same rows; as many a process and an epoch as the first has."""

    def __init__(self, first: Batches, second: Batches) -> None:
        super().__init__(first.num_batches, first.rank, first.world_size)
        self.first, self.second = first, second

    def set_epoch(self, epoch: int) -> None:
        for order in (self, self.first, self.second):
            order.epoch = epoch


class PairedBatches(TwoOrders):
    """A batch of the first order, and behind it as many rows of the second.

    The batch of each process too falls into two halves of one size.
    """

    def global_batches(self) -> list[np.ndarray]:
        """Halves and rows, (2, B) each."""
        batches, others = self.first.global_batches(), np.concatenate(self.second.global_batches())
        ends = np.cumsum([len(batch) for batch in batches])
        others = np.resize(others, max(len(others), ends[-1]))  # of few rows the second order may be the shorter
        return [np.stack([batch, others[end - len(batch) : end]]) for batch, end in zip(batches, ends, strict=True)]

    def part(self, batch: np.ndarray) -> np.ndarray:
        return np.array_split(batch, self.world_size, axis=1)[self.rank].ravel()


class StagedBatches(TwoOrders):
    """Batches of the first order until ``switch()`` of them are through, over all epochs; then of the second."""

    def __init__(self, first: Batches, second: Batches, switch: Callable[[], int]) -> None:
        super().__init__(first, second)
        self.switch = switch

    def global_batches(self) -> list[np.ndarray]:
        remaining = max(0, self.switch() - self.epoch * self.num_batches)  # of the first order, in this epoch
        if remaining >= self.num_batches:
            return self.first.global_batches()
        return self.first.global_batches()[:remaining] + self.second.global_batches()[remaining : self.num_batches]


class SortedBatches(Batches):
    """Every row once, longest first, for evaluation: no shuffling, no duplicates to even out the processes."""

    def __init__(self, lengths: np.ndarray, batch_size: int, rank: int = 0, world_size: int = 1) -> None:
        if world_size > 1 and len(lengths) < world_size:
            raise InputError(f"evaluation split: found {len(lengths)} rows, allowed: at least {world_size} (processes)")
        # One global batch holds batch_size rows for each process, so that all have the same number of batches.
        bounds = _bounds(len(lengths), batch_size * world_size, smallest=world_size)
        super().__init__(len(bounds) + 1 if len(lengths) else 0, rank, world_size)
        self.batches = np.split(_longest_first(lengths, np.arange(len(lengths))), bounds)[: self.num_batches]

    def global_batches(self) -> list[np.ndarray]:
        return self.batches

    def part(self, batch: np.ndarray) -> np.ndarray:
        return batch[self.rank :: self.world_size]  # long and short texts for every process


class OrderedBatches(Batches):
    """Every row once, in the given order, on one process; a last batch of one row is merged into the one before."""

    def __init__(self, order: np.ndarray, batch_size: int) -> None:
        self.batches = np.split(order, _bounds(len(order), batch_size, smallest=2))
        super().__init__(len(self.batches), rank=0, world_size=1)

    def global_batches(self) -> list[np.ndarray]:
        return self.batches


class Shuffle:
    """Random batches.

    Args:
        batch_size: train rows of one step over all processes, >= 2 and divisible by their number.
        eval_batch_size: rows of one evaluation batch in each process, >= 1.
    """

    chunk_batches: int | None = None
    length_of = "all_views"
    multilabel: bool | None = None  # None: the sampler does not look at labels

    def __init__(self, batch_size: Annotated[int, ">= 2"] = 64, eval_batch_size: Annotated[int, ">= 1"] = 128) -> None:
        for key, value, smallest in (("batch_size", batch_size, 2), ("eval_batch_size", eval_batch_size, 1)):
            if value < smallest:
                raise InputError(f"sampler.{key}: found {value}, allowed: >= {smallest}")
        self.batch_size, self.eval_batch_size = batch_size, eval_batch_size

    def train(self, lengths: np.ndarray, labels: np.ndarray, seed: int, rank: int = 0, world_size: int = 1) -> Batches:
        """Batches of the train split: ``lengths`` and ``labels`` are ``(N,)``."""
        return ShuffledBatches(lengths, self.batch_size, seed, rank, world_size, self.chunk_batches)

    def second(self, kind: str, lengths: np.ndarray, labels: np.ndarray, *place: int) -> Batches:
        """A further order of the same rows, by class: ``kind`` is `class_balanced` or `reversed`, the rest as `train`.

        Batches are as large as those of this sampler, and sorted by length as they are.
        """
        sampler = {"class_balanced": ClassBalanced, "reversed": Reversed}[kind]
        order = sampler(self.batch_size, self.eval_batch_size, self.chunk_batches).train(lengths, labels, *place)
        order.stream = SECOND_STREAM
        return order

    def eval(self, lengths: np.ndarray, rank: int = 0, world_size: int = 1) -> Batches:
        """Batches of an evaluation split: every row once."""
        return SortedBatches(lengths, self.eval_batch_size, rank, world_size)


class LengthGrouped(Shuffle):
    """Random batches of texts of similar length: as ``Shuffle``, with little padding.

    Args:
        batch_size: train rows of one step over all processes, >= 2 and divisible by their number.
        eval_batch_size: rows of one evaluation batch in each process, >= 1.
        chunk_batches: batches over which texts are sorted by length; more pads less and mixes less.
        length_of: what a text is sorted by: the longest of `all_views`, which pads least, or the `text` itself, so that
            methods with one view and with several see the same batches.
    """

    def __init__(
        self,
        batch_size: Annotated[int, ">= 2"] = 64,
        eval_batch_size: Annotated[int, ">= 1"] = 128,
        chunk_batches: Annotated[int, ">= 1"] = 50,
        length_of: Annotated[Literal["all_views", "text"], "with method.num_views>1"] = "all_views",
    ) -> None:
        super().__init__(batch_size, eval_batch_size)
        self.chunk_batches, self.length_of = _checked_chunk(chunk_batches), length_of


class ByClass(Shuffle):
    """Random batches whose classes are drawn first; base of the samplers against imbalance.

    The class priors that losses use stay those of the data: with a loss that corrects the prior too, such a sampler
    corrects it twice.

    Args:
        batch_size: train rows of one step over all processes, >= 2 and divisible by their number.
        eval_batch_size: rows of one evaluation batch in each process, >= 1.
        chunk_batches: batches over which the texts of each class are sorted by length; null for no sorting.
    """

    multilabel = False  # it draws rows by their one class

    def __init__(
        self,
        batch_size: Annotated[int, ">= 2"] = 64,
        eval_batch_size: Annotated[int, ">= 1"] = 128,
        chunk_batches: Annotated[int, ">= 1"] | None = 50,
    ) -> None:
        super().__init__(batch_size, eval_batch_size)
        self.chunk_batches = _checked_chunk(chunk_batches)


class _ByFrequency(ByClass):
    exponent: float

    def train(self, lengths: np.ndarray, labels: np.ndarray, seed: int, rank: int = 0, world_size: int = 1) -> Batches:
        return FrequencyBatches(
            lengths, labels, self.exponent, self.batch_size, seed, rank, world_size, self.chunk_batches
        )


class ClassBalanced(_ByFrequency):
    """Every class alike: P(c) = 1 / C. Arguments as `ByClass`."""

    exponent = 0.0


class SquareRoot(_ByFrequency):
    """Between the data and `ClassBalanced`: P(c) proportional to the square root of n_c. Arguments as `ByClass`."""

    exponent = 0.5


class Reversed(_ByFrequency):
    """Rare classes most: P(c) proportional to 1 / n_c (BBN, Zhou et al., CVPR 2020). Arguments as `ByClass`."""

    exponent = -1.0


class MPerClass(ByClass):
    """Batches of different classes with the same number of rows each; in expectation all classes come equally often.

    The rows differ within a batch, unless the class has fewer than that.

    Args:
        batch_size: train rows of one step over all processes, a multiple of their number and of `rows_per_class`.
        eval_batch_size: rows of one evaluation batch in each process, >= 1.
        chunk_batches: batches over which the texts of each class are sorted by length; null for no sorting.
        rows_per_class: rows of each class in a batch; `batch_size / rows_per_class` must not exceed the classes.
    """

    def __init__(
        self,
        batch_size: Annotated[int, ">= 2"] = 64,
        eval_batch_size: Annotated[int, ">= 1"] = 128,
        chunk_batches: Annotated[int, ">= 1"] | None = 50,
        rows_per_class: Annotated[int, ">= 1"] = 16,
    ) -> None:
        super().__init__(batch_size, eval_batch_size, chunk_batches)
        if rows_per_class < 1 or batch_size % rows_per_class:
            raise InputError(f"sampler.rows_per_class: found {rows_per_class}, allowed: a divisor of {batch_size}")
        self.rows_per_class = rows_per_class

    def train(self, lengths: np.ndarray, labels: np.ndarray, seed: int, rank: int = 0, world_size: int = 1) -> Batches:
        return PerClassBatches(
            lengths, labels, self.rows_per_class, self.batch_size, seed, rank, world_size, self.chunk_batches
        )


def _checked_chunk(chunk_batches: int | None) -> int | None:
    if chunk_batches is not None and chunk_batches < 1:
        raise InputError(f"sampler.chunk_batches: found {chunk_batches}, allowed: >= 1")
    return chunk_batches


def _bounds(num_rows: int, batch_size: int, smallest: int) -> np.ndarray:
    """Where to cut ``num_rows`` into batches; a last batch below ``smallest`` rows is not cut off."""
    bounds = np.arange(batch_size, num_rows, batch_size)
    return bounds[:-1] if len(bounds) and num_rows - bounds[-1] < smallest else bounds


def _chunks(rows: np.ndarray, size: int) -> list[np.ndarray]:
    return np.split(rows, np.arange(size, len(rows), size))


def _longest_first(lengths: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return rows[np.argsort(-lengths[rows], kind="stable")]
