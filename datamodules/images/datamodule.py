"""Images: from the rows of a corpus to batches of pixels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch.utils.data import Dataset, Sampler

from datamodules.cards import contents
from datamodules.collation import Batch, targets
from datamodules.datamodule import DataModule
from datamodules.images.pixels import FilePixels, TablePixels, centre
from datamodules.samplers import Batches
from datamodules.streams import VIEW_STREAM
from datamodules.texts.tokens import key_of

Pixels = TablePixels | FilePixels


class ImageBatches(Dataset):
    """One split as batches of pixels; indexed by an array of positions, not by one.

    Args:
        stores: V stores.
        rows: V arrays ``(N,)``: the row in each store of every position of the split.
        labels: ``(N,)`` class indices, -1 where unknown.
        size: side of the square in the middle that is given.
    """

    def __init__(self, stores: Sequence[Pixels], rows: Sequence[np.ndarray], labels: np.ndarray, size: int) -> None:
        self.stores, self.rows, self.labels, self.size = stores, rows, labels, size
        self.lengths = self.first_lengths = np.zeros(len(labels), np.int64)  # none is longer than another

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, positions: np.ndarray) -> Batch:
        views = [store.take(rows[positions]) for store, rows in zip(self.stores, self.rows, strict=True)]
        pixels = np.ascontiguousarray(centre(np.concatenate(views), self.size))
        return {"pixels": torch.from_numpy(pixels)} | targets(self.labels, positions, len(self.stores))


class Step(NamedTuple):
    """A training batch: which of which epoch, of which process, and its positions ``(B,)``."""

    epoch: int
    number: int
    rank: int
    positions: np.ndarray


class Steps(Sampler[Step]):
    """The batches of an order with their numbers, from which the views of each are drawn."""

    def __init__(self, order: Batches) -> None:
        self.order = order

    def set_epoch(self, epoch: int) -> None:
        self.order.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[Step]:
        for number, positions in enumerate(self.order):
            yield Step(self.order.epoch, number, self.order.rank, positions)


class AugmentedBatches(Dataset):
    """Training batches: every view of an image is drawn anew at each step, the first too.

    A batch follows from the seed and its `Step` alone, so that a resumed run sees the same ones, whoever loads them.

    Args:
        batches: of one split.
        augment: see `datamodules.augment.images.ImageAugmentation`.
        num_views: V.
        seed: of the run.
    """

    def __init__(self, batches: ImageBatches, augment: Any, num_views: int, seed: int) -> None:
        self.batches, self.augment, self.num_views, self.seed = batches, augment, num_views, seed
        augment.load()

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, step: Step) -> Batch:
        batches = self.batches
        pixels = torch.from_numpy(batches.stores[0].take(batches.rows[0][step.positions]))
        seeds = np.random.SeedSequence([self.seed, step.epoch, step.number, step.rank, VIEW_STREAM])
        views = [
            self.augment.view(pixels, number, batches.size, int(seed))
            for number, seed in enumerate(seeds.generate_state(self.num_views, np.uint64) >> 1)
        ]
        return {"pixels": torch.cat(views)} | targets(batches.labels, step.positions, self.num_views)


class ImageDataModule(DataModule):
    """Batches the images of a corpus as ``pixels`` ``(V * B, 3, size, size)`` uint8.

    The corpus holds the pixels themselves or paths of files (`datamodules.images.pixels`). Training draws each view
    anew at every step; without an augmentation all views are the image itself.

    Args:
        corpus: a prepared ``datamodules.corpus.Corpus`` of images.
        size: side of the square that the encoder sees, in pixels.
        read_size: side of the square that files are decoded to, whose middle evaluation sees.

    The remaining arguments are those of `DataModule`.
    """

    def __init__(self, corpus, *args, size: Annotated[int, ">= 1"], read_size: int, **kwargs) -> None:
        super().__init__(corpus, *args, **kwargs)
        self.size, self.read_size = size, read_size

    def _open(self) -> None:
        stores = {table: self._store(table) for table in sorted(set(self._table_of.values()))}
        self._views = {split: [stores[table]] for split, table in self._table_of.items()}
        self._rows = {split: [rows] for split, rows in self.indices.items()}
        self._views["train"] *= self.num_views
        self._rows["train"] *= self.num_views
        name = "none" if self.augment is None else self.augment.name
        self.augment_report = {"name": name, "views": self.num_views}

    def _store(self, table: str) -> Pixels:
        column = contents(self.corpus.table(table))
        if pa.types.is_fixed_size_binary(column.type):
            return TablePixels(column, key_of(corpus=self.corpus.fingerprint, table=table))
        return FilePixels(column.to_pylist(), self.read_size)

    def _batches(self, stores: Sequence[Pixels], rows: Sequence[np.ndarray], labels: np.ndarray) -> ImageBatches:
        return ImageBatches(stores, rows, labels, self.size)

    def _training(self, data: ImageBatches, order: Batches) -> tuple[Dataset, Any]:
        if self.augment is None:
            return data, order
        return AugmentedBatches(data, self.augment, self.num_views, self.seed), Steps(order)


def new_image_batches(paths: Sequence[str], size: int, read_size: int, batch_size: int) -> Iterator[Batch]:
    """Batches of image files for prediction, in their order; ``indices`` are their places, ``labels`` are -1."""
    store = FilePixels(paths, read_size)
    data = ImageBatches([store], [np.arange(len(store))], np.full(len(store), -1), size)
    for start in range(0, len(store), batch_size):
        yield data[np.arange(start, min(start + batch_size, len(store)))]
