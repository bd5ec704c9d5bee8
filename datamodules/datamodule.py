"""From a prepared corpus to the batches of a run."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import torch
from lightning import LightningDataModule
from torch.utils.data import DataLoader, Dataset

from datamodules.cards import digests
from datamodules.collation import FeatureBatches
from datamodules.label_budget import LabelBudget
from datamodules.labels import class_counts, has_several_labels
from datamodules.row_choice import RowChoice
from datamodules.samplers import Batches, OrderedBatches, PairedBatches, StagedBatches
from datamodules.splits import Protocol
from datamodules.streams import ORDER_STREAM
from storage.errors import InputError

# Batches are cut from memory-mapped arrays; worker processes would only cost here.
warnings.filterwarnings("ignore", message=".*does not have many workers.*")


class DataModule(LightningDataModule):
    """Splits and thins a corpus, and batches it: what data of every kind share.

    A kind of data says in a subclass what its rows are in memory: one store a table of the corpus (`_open`), whose rows
    become a batch (`_batches`). A store has a length and a ``digest`` of its content.

    Batches hold the inputs of V views of B rows, ``(V * B, ...)``, view-major, under names that the encoder of the kind
    takes; ``labels`` ``(B,)`` int64, or ``(B, C)`` float32 of 0 and 1 where a row has several; ``indices`` ``(B,)``
    (positions in the split) and ``num_views``. Evaluation batches have one view. After `use_features`, ``features``
    ``(V * B, D)`` stand in place of the inputs. Batches are a pure function of (seed, epoch, rank).

    Under ``protocol=transductive`` "train" and "val" are both the whole corpus, no batch carries a label (they are -1),
    ``class_counts`` is empty, and evaluation batches come in a seeded order, for some methods judge a row by its
    companions.

    Args:
        corpus: a prepared ``datamodules.corpus.Corpus``.
        augment: makes the views of the train rows; None gives the rows themselves.
        imbalance: thins the train split; None keeps it whole.
        sampler: makes the batch order.
        protocol: a ``Protocol``, or its fields as a mapping.
        num_views: views of a train row, the first included.
        seed: of the split, the thinning, the augmentation and the batch order.
        singleton_classes: classes of one train row under a stratified split: refuse, or leave them in train.
        num_workers: loader processes.
        budget: how many train rows keep their label, drawn before any other rows but after a thinning that spares no
            row held out, and how many without one count.
        takes_unlabelled: train rows without a label are set aside as rows without one, and not refused.
        shot_bounds: train rows above which a class has many, and below which it has few; for figures alone.
        trains_unlabelled: train batches hold the rows of "unlabelled" too, with label -1, at the positions behind those
            of "train"; they have one view.

    Attributes:
        num_classes, label_names: classes, in the order of their indices.
        multilabel: whether a row has any number of labels, none included, in place of one.
        class_counts: ``(C,)`` int64, rows per class in the thinned train split (after ``setup``).
        indices: split -> sorted row numbers ``(N,)`` (after ``setup``). "train" and a "val" split from it point into
            the corpus table "train", a shipped "val" into the table "val", and so does "test" under ``protocol=kfold``.
            Under ``protocol=published`` "val" equals "test". With a label budget, with ``takes_unlabelled`` or under
            ``protocol=fixed``, "unlabelled" holds the train rows without a label.
        thins_before_budget: whether the labels of the budget are drawn among the rows that ``imbalance`` leaves (after
            ``setup``).
        labels: split -> class indices ``(N,)`` int64, or ``(N, C)`` uint8 of 0 and 1 (after ``setup``).
        augment_report: name, share of rows changed over all augmented views, and number of views (after ``setup``).

    Raises:
        InputError: an option out of range; one class only; a class of one row under a stratified split; an imbalance
            that the data cannot give.
    """

    def __init__(
        self,
        corpus,
        augment,
        imbalance,
        sampler,
        protocol: Protocol | Mapping,
        num_views: Annotated[int, ">= 1"],
        seed: Annotated[int, ">= 0"],
        singleton_classes: Literal["refuse", "keep_in_train"] = "refuse",
        num_workers: Annotated[int, ">= 0", "<= 256"] = 0,
        budget: LabelBudget | None = None,
        takes_unlabelled: bool = False,
        trains_unlabelled: bool = False,
        shot_bounds: tuple[int, int] = (100, 20),
    ) -> None:
        super().__init__()
        if num_views < 1:
            raise InputError(f"num_views: found {num_views}, allowed: >= 1")
        self.corpus = corpus
        self.augment, self.imbalance, self.sampler = augment, imbalance, sampler
        self.protocol = Protocol(**protocol) if isinstance(protocol, Mapping) else protocol
        self.num_views, self.seed, self.num_workers = num_views, seed, num_workers
        self.budget, self.takes_unlabelled = LabelBudget() if budget is None else budget, takes_unlabelled
        self.trains_unlabelled, self.shot_bounds = trains_unlabelled, shot_bounds
        self.singleton_classes = singleton_classes
        self.label_names = tuple(corpus.label_names)
        self.num_classes = len(self.label_names)
        self.multilabel = has_several_labels(corpus.table("train"))
        self._views: dict[str, list[Any]] = {}  # split -> a store for each view
        self._rows: dict[str, list[np.ndarray]] = {}  # split -> for each view the rows of its store
        self._features: dict[str, np.ndarray] | None = None
        self._beside_inputs = False
        self.thins_before_budget = False
        self._ready = False

    def _open(self) -> None:
        """Fill `_views`, `_rows` and `augment_report` for the chosen rows."""
        raise NotImplementedError

    def _batches(self, stores: Sequence[Any], rows: Sequence[np.ndarray], labels: np.ndarray) -> Any:
        """A data set that gives a batch for an array of positions.

        Its `lengths` ``(N,)`` are those of the longest view of each position, `first_lengths` those of the first.
        """
        raise NotImplementedError

    def _training(self, data: Any, order: Batches) -> tuple[Dataset, Batches]:
        """Data and order of the train loader, where training sees its rows in another way than evaluation does."""
        return data, order

    def prepare_data(self) -> None:
        """Fill the caches; the other processes then only map them."""
        self.setup()

    def setup(self, stage: str | None = None) -> None:
        """Choose the rows of each split and open their stores; all splits at once, whatever the stage."""
        if self._ready:
            return
        self._choose_rows()
        self._open()
        self._ready = True

    def _choose_rows(self) -> None:
        tables = {split: self.corpus.table(split) for split in self.corpus.splits}
        choice = RowChoice(
            tables,
            self.label_names,
            self.protocol,
            self.imbalance,
            self.budget,
            self.seed,
            self.singleton_classes,
            self.takes_unlabelled,
            self.trains_unlabelled,
        )
        choice.choose()
        self.indices, self._table_of = choice.rows, choice.table_of
        self.labels = {split: choice.labels_of(split) for split in self.indices}
        self.thins_before_budget = choice.thins_before_budget
        if self.protocol.name == "transductive":
            self.class_counts = torch.empty(0, dtype=torch.int64)
            return
        self.protocol = self.protocol.with_rows(len(self.indices.get("val", ())))
        counts = class_counts(self.labels["train"], self.num_classes)
        self.class_counts = torch.from_numpy(counts.astype(np.int64))

    def use_features(self, features: dict[str, np.ndarray], beside_inputs: bool = False) -> None:
        """Batch these features in place of the inputs or beside them, for an encoder that does not train.

        Args:
            features: split -> ``(V, N, D)``, or ``(1, N, D)`` where all views share them; row i belongs to position i
                of the split.
        """
        for split, array in features.items():
            views, count = (self.num_views if split == "train" else 1), len(self.indices[split])
            if array.ndim != 3 or array.shape[0] not in (1, views) or array.shape[1] != count:
                raise InputError(f"{split} features: found shape {array.shape}, allowed: ({views} or 1, {count}, D)")
        self._features, self._beside_inputs = features, beside_inputs

    def feature_rows(self, split: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Features ``(V * N, D)`` of a split, view-major, and labels ``(V * N,)`` or ``(V * N, C)``; after
        `use_features`."""
        assert self._features is not None
        views = self._features[split]
        labels = torch.from_numpy(self.labels[split])
        labels = labels.float() if self.multilabel else labels
        tile = (len(views), 1) if self.multilabel else (len(views),)
        return torch.from_numpy(views.reshape(-1, views.shape[-1]).copy()), labels.tile(tile)

    def views(self, split: str) -> list[tuple[Any, np.ndarray]]:
        """For each view of a split the store of a whole table, and the rows ``(N,)`` of it that are the split's."""
        return list(zip(self._views[split], self._rows[split], strict=True))

    @property
    def learning_splits(self) -> list[str]:
        """What a run may learn from or choose by: never test."""
        return [split for split in ("train", "val", "unlabelled") if split in self.indices]

    def copies(self, split: str) -> list[tuple[int, int]]:
        """Places in a split whose input stands there before, case and white space aside, and where it stands first."""
        table, rows = self.corpus.table(self._table_of[split]), np.asarray(self.indices[split])
        is_own = np.zeros(len(table), bool)
        is_own[rows] = True
        codes = np.empty(len(rows), np.uint64)
        codes[np.argsort(rows)] = digests(table.filter(pa.array(is_own)))[1]  # `take` would join all chunks into one
        _, first, number = np.unique(codes, return_index=True, return_inverse=True)
        return [(place, int(first[n])) for place, n in enumerate(number) if first[n] != place]

    def train_dataloader(self) -> DataLoader:
        data = self._data("train")
        if self.trains_unlabelled and "unlabelled" in self.indices:
            data = self._joined("train", "unlabelled")
        lengths = data.first_lengths if self.sampler.length_of == "text" else data.lengths
        order = self._train_order(lengths, data.labels)
        if self._features is None:
            data, order = self._training(data, order)
        return self._loader("train", data, order)

    def _train_order(self, lengths: np.ndarray, labels: np.ndarray) -> Batches:
        """The order of `sampler`, and what the method draws by class beside it or after its first stage."""
        arguments = (lengths, labels, self.seed, *self._place())
        order = self.sampler.train(*arguments)
        module: Any = getattr(self.trainer, "lightning_module", None)
        if kind := getattr(module, "rows_beside", None):
            return PairedBatches(order, self.sampler.second(kind, *arguments))
        if kind := getattr(module, "rows_afterwards", None):
            return StagedBatches(order, self.sampler.second(kind, *arguments), lambda: module.batches_before)
        return order

    def val_dataloader(self) -> DataLoader | list:
        """Of the rows that choose the epoch; no loader where nothing chooses."""
        return self._eval_loader("val") if "val" in self.indices else []

    def test_dataloader(self) -> DataLoader:
        return self._eval_loader("test")

    def table_loader(self, store: Any, rows: np.ndarray | None = None) -> DataLoader:
        """Every row of a table, or every one of these (N,), once, longest first, without labels; the same on every
        process."""
        rows = np.arange(len(store)) if rows is None else rows
        data = self._batches([store], [rows], np.full(len(rows), -1))
        return loader(data, self.sampler.eval(data.lengths), self.num_workers)

    def feature_loader(self, split: str) -> DataLoader:
        """Every row of a split once, with all its views, longest first, as inputs; the same on every process."""
        data = self._data(split)
        return loader(data, self.sampler.eval(data.lengths), self.num_workers)

    def ordered_loader(self, number: int = 0) -> DataLoader:
        """Every validation row once, in an order drawn from (seed, ``number``)."""
        order = np.random.default_rng([self.seed, number, ORDER_STREAM]).permutation(len(self.labels["val"]))
        return self._loader("val", self._data("val"), OrderedBatches(order, self.sampler.eval_batch_size))

    def row_loader(self, split: str, every_row: bool = False) -> DataLoader:
        """Every row of a split once, itself alone, longest first; each process has its share, or all rows."""
        data = self._alone(split)
        order = self.sampler.eval(data.lengths, *(() if every_row else self._place()))
        if self._features is None:
            return loader(data, order, self.num_workers)
        return self._feature_batches(split, 1, data, order)

    def _eval_loader(self, split: str) -> DataLoader:
        if split not in self.indices:
            raise InputError(f"dataset: found no {split} split, allowed: {', '.join(self.indices)}")
        if self.protocol.name == "transductive":
            return self.ordered_loader()
        data = self._data(split)
        return self._loader(split, data, self.sampler.eval(data.lengths, *self._place()))

    def _loader(self, split: str, data: Dataset, order: Batches) -> DataLoader:
        if self._features is None:
            return loader(data, order, self.num_workers)
        return self._feature_batches(split, self.num_views if split == "train" else 1, data, order)

    def _feature_batches(self, split: str, num_views: int, data: Dataset, order: Batches) -> DataLoader:
        assert self._features is not None
        inputs = data if self._beside_inputs else None
        batches = FeatureBatches(self._features[split], self.labels[split], num_views, inputs)
        return loader(batches, order, self.num_workers)

    def _data(self, split: str) -> Any:
        return self._batches(self._views[split], self._rows[split], self.labels[split])

    def _alone(self, split: str) -> Any:
        return self._batches(self._views[split][:1], self._rows[split][:1], self.labels[split])

    def _joined(self, *splits: str) -> Any:
        """Rows of one table as one split, in the order of `splits`."""
        rows = np.concatenate([self._rows[split][0] for split in splits])
        labels = np.concatenate([self.labels[split] for split in splits])
        return self._batches(self._views["train"][:1], [rows], labels)

    def _place(self) -> tuple[int, int]:
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)


def loader(data: Dataset, order: Batches, num_workers: int = 0) -> DataLoader:
    """Batches of `data` in this order."""
    # batch_size=None: the sampler gives whole batches, and Lightning finds its set_epoch.
    return DataLoader(
        data,
        sampler=order,
        batch_size=None,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        pin_memory=torch.cuda.is_available(),
    )
