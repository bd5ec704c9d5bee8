"""From a prepared corpus to the batches of a run."""

import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import torch
from lightning import LightningDataModule
from torch.utils.data import DataLoader, Dataset

from datamodules.cards import contents, digests
from datamodules.collation import FeatureBatches
from datamodules.imbalance import Listed
from datamodules.label_budget import LabelBudget
from datamodules.labels import class_counts, has_several_labels, label_array, without_label
from datamodules.samplers import Batches, OrderedBatches, PairedBatches, StagedBatches
from datamodules.splits import Protocol, fold_numbers, random_split, split_together, stratified_split
from storage.errors import InputError

# Batches are cut from memory-mapped arrays; worker processes would only cost here.
warnings.filterwarnings("ignore", message=".*does not have many workers.*")

log = logging.getLogger(__name__)

# streams of random numbers of one seed; the sampler has stream 1
SPLIT_STREAM, THIN_STREAM, VIEW_STREAM, ORDER_STREAM, LABEL_STREAM, UNLABELLED_STREAM = 2, 3, 4, 5, 6, 8


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
        labels = {split: label_array(table, self.num_classes) for split, table in tables.items()}
        rows = {split: np.arange(len(labels[split])) for split in labels}
        self._table_of = {split: split for split in rows}
        if self.protocol.name == "transductive":
            self._take_the_whole(rows["train"])
            return
        if self.num_classes < 2:
            raise InputError("dataset: found one class only in train, allowed: at least 2 classes")
        answers = self.imbalance.answers(self.num_classes) if isinstance(self.imbalance, Listed) else None
        if self.budget and self.protocol.name == "clean" and (number := len(rows.pop("val", ()))):
            log.warning("dataset: %d validation rows are not read: a budget of labels does not count theirs", number)
        self.thins_before_budget = bool(self.budget) and self._thins_all()
        if self.thins_before_budget:
            is_labelled = ~without_label(tables["train"])
            kept = self._thinned(np.flatnonzero(is_labelled), labels["train"])
            rows["train"] = np.union1d(kept, np.flatnonzero(~is_labelled))
        if self.protocol.name == "kfold" and self.protocol.fold is not None:  # a budget is of the rows that are left
            self._hold_out_fold(rows, labels["train"], tables["train"])
        rows |= self._without_labels(rows["train"], labels["train"], without_label(tables["train"]), answers)
        if self.protocol.name == "published":
            if "test" not in rows:
                raise InputError("protocol: found published without a test split, allowed: clean, few_shot")
            rows["val"], self._table_of["val"] = rows["test"], "test"
        elif self.protocol.name == "fixed":
            if (number := len(rows.pop("val", ()))):  # nothing asks for them
                log.warning("protocol=fixed: %d validation rows are not read; protocol=clean chooses by them", number)
        splits = "val" not in rows and self.protocol.name in ("clean", "kfold") and self.protocol.val_fraction > 0
        if splits and self.protocol.val_from == "unthinned":
            self._split(rows, labels["train"], tables["train"])
        if isinstance(self.imbalance, Listed):
            rows["train"], rest = self.imbalance.among(rows["train"])
            if rest is not None:
                rows["unlabelled"] = np.union1d(rest, rows.get("unlabelled", rest[:0]))
                self._table_of["unlabelled"] = "train"
        elif self.imbalance is not None and not self.thins_before_budget:
            rows["train"] = self._thinned(rows["train"], labels["train"])
        if answers is not None:
            labels["train"] = labels["train"].copy()
            labels["train"][self.imbalance.rows] = answers
        if splits and self.protocol.val_from == "thinned":
            self._split(rows, labels["train"], tables["train"])
        if self.protocol.name == "few_shot":
            rng = np.random.default_rng([self.seed, 0, SPLIT_STREAM])
            train, val = random_split(len(rows["train"]), self.protocol.val_fraction, rng)
            rows["train"], rows["val"] = rows["train"][train], rows["train"][val]
            self._table_of["val"] = "train"
        self.indices, self.protocol = rows, self.protocol.with_rows(len(rows.get("val", ())))
        dtype = np.uint8 if self.multilabel else np.int64
        self.labels = {split: labels[self._table_of[split]][rows[split]].astype(dtype) for split in rows}
        if "unlabelled" in rows:
            self._leave_out_unlabelled(tables)
        if not self.protocol.read_test:
            for part in (self.indices, self.labels):
                part.pop("test", None)
        counts = class_counts(self.labels["train"], self.num_classes)
        self.class_counts = torch.from_numpy(counts.astype(np.int64))

    def _thins_all(self) -> bool:
        """Whether `imbalance` thins all train rows with a label, those too that validate: none is held out before."""
        thins = self.imbalance is not None and not isinstance(self.imbalance, Listed)
        if not thins or getattr(self.imbalance, "ir", 1) is None or self.protocol.name == "kfold":
            return False
        return self.protocol.name != "clean" or self.protocol.val_from == "thinned"

    def _thinned(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Those of the train rows that `imbalance` keeps; `labels` are of the whole table."""
        rng = np.random.default_rng([self.seed, 0, THIN_STREAM])
        return rows[self.imbalance.select(labels[rows], rng, self.label_names)]

    def _hold_out_fold(self, rows: dict[str, np.ndarray], labels: np.ndarray, table: pa.Table) -> None:
        """Make the fold that the protocol names the test split, of all rows with a label."""
        is_labelled = ~without_label(table)
        is_labelled &= np.isin(np.arange(len(labels)), rows["train"])
        numbers = np.full(len(labels), -1)
        chosen = contents(table).filter(pa.array(is_labelled)).to_pylist()
        numbers[is_labelled] = fold_numbers(labels[is_labelled], chosen, self.protocol.folds, self.protocol.repeat)
        rows["test"] = np.flatnonzero(numbers == self.protocol.fold)
        rows["train"] = np.setdiff1d(rows["train"], rows["test"])
        self._table_of["test"] = "train"

    def _split(self, rows: dict[str, np.ndarray], labels: np.ndarray, table: pa.Table) -> None:
        """Set validation rows aside from the train rows, class by class; those of folds with equal inputs together."""
        rng = np.random.default_rng([self.seed, 0, SPLIT_STREAM])
        options = (self.protocol.val_fraction, rng, self.singleton_classes, self.label_names)
        if self.protocol.name == "kfold":
            inputs = contents(table).take(rows["train"]).to_pylist()
            train, val = split_together(labels[rows["train"]], inputs, *options)
        else:
            train, val = stratified_split(labels[rows["train"]], *options)
        if not len(val):
            raise InputError("protocol: no class has two train rows, so that none can validate; allowed: more rows")
        rows["train"], rows["val"] = rows["train"][train], rows["train"][val]
        self._table_of["val"] = "train"

    def _without_labels(
        self, rows: np.ndarray, labels: np.ndarray, unlabelled: np.ndarray, answers: np.ndarray | None
    ) -> dict[str, np.ndarray]:
        """The train rows that keep their label, and those that have none or lose it to the budget, as "unlabelled"."""
        keeps_all, sets_aside = not self.budget, self.takes_unlabelled or self.protocol.name == "fixed"
        if keeps_all and (answers is not None or not sets_aside):  # answers say which rows of the table they are to
            self._refuse_unlabelled(unlabelled, answers)
            return {}
        rng = np.random.default_rng([self.seed, 0, LABEL_STREAM])
        labelled = rows[~unlabelled[rows]]
        if not keeps_all:
            labelled = labelled[self.budget.select(labels[labelled], rng, self.label_names)]
        if not len(labelled) and self.protocol.name != "fixed":
            of_names = "a method that reads the names of the classes with protocol=fixed, such as method=prototypes"
            allowed = "some labels" if self.multilabel else f"some labels, or {of_names}"
            raise InputError(f"protocol: found {self.protocol.name} without a labelled row; allowed: {allowed}")
        rest = np.setdiff1d(rows, labelled)
        if len(rest):
            self._table_of["unlabelled"] = "train"
        return {"train": labelled} | ({"unlabelled": rest} if len(rest) else {})

    def _leave_out_unlabelled(self, tables: dict[str, pa.Table]) -> None:
        """Leave out the texts without a label that are held out, too, case and spaces aside: no held-out text is
        learned from; those that came without one and stand with a label elsewhere; and of the others what is more than
        `most_unlabelled`."""
        self._leave_out_labelled(tables["train"])
        held_out = [split for split in ("val", "test") if split in self.indices]
        if held_out:
            inputs = {
                split: digests(tables[self._table_of[split]].take(self.indices[split]))[1]
                for split in ("unlabelled", *held_out)
            }
            is_leak = np.isin(inputs["unlabelled"], np.concatenate([inputs[split] for split in held_out]))
            number = int(is_leak.sum())
            if self.trains_unlabelled and not len(self.indices["train"]) and number == len(is_leak):
                problem = f"no row has a label, and the {number} texts without one are also in test or validation"
                raise InputError(f"dataset: {problem}; allowed: some labels, or texts of neither split")
            if number:
                log.warning("dataset: %d texts without a label are also in test or validation; left out", number)
                self.indices["unlabelled"] = self.indices["unlabelled"][~is_leak]
        rng = np.random.default_rng([self.seed, 0, UNLABELLED_STREAM])
        self.indices["unlabelled"] = self.budget.select_unlabelled(self.indices["unlabelled"], rng)
        if len(self.indices["unlabelled"]):
            shape = (len(self.indices["unlabelled"]), *self.labels["train"].shape[1:])
            self.labels["unlabelled"] = np.full(shape, -1)
        else:
            del self.indices["unlabelled"], self.labels["unlabelled"]

    def _leave_out_labelled(self, table: pa.Table) -> None:
        """A file of texts without labels may hold the train texts again, for which guesses would be learned beside."""
        rows = self.indices["unlabelled"]
        came_without = without_label(table)[rows]
        if not came_without.any():
            return
        of_rows, of_train = (digests(table.take(part))[1] for part in (rows, self.indices["train"]))
        is_labelled = came_without & np.isin(of_rows, of_train)
        if number := int(is_labelled.sum()):
            log.warning("dataset: %d texts without a label are also among those with one; left out", number)
            self.indices["unlabelled"] = rows[~is_labelled]

    def _take_the_whole(self, rows: np.ndarray) -> None:
        self.indices = {"train": rows, "val": rows}
        self._table_of = dict.fromkeys(self.indices, "train")
        self.labels = dict.fromkeys(self.indices, np.full(len(rows), -1))
        self.class_counts = torch.empty(0, dtype=torch.int64)

    def _refuse_unlabelled(self, unlabelled: np.ndarray, answers: np.ndarray | None) -> None:
        number = int(unlabelled.sum())
        if number and (answers is None or self.protocol.name == "clean"):
            raise InputError(
                f"dataset: {number} of {len(unlabelled)} train rows have no label, allowed: a label for each, "
                "or a person who is asked for some (active=NAME active.oracle=prompt or file)"
            )

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
