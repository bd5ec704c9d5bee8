"""Which rows each split holds: what the protocol, the budget of labels and the imbalance leave of a corpus."""

import logging
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from datamodules.cards import contents, digests
from datamodules.imbalance import Listed
from datamodules.label_budget import LabelBudget
from datamodules.labels import label_array, without_label
from datamodules.splits import Protocol, fold_numbers, random_split, split_together, stratified_split
from datamodules.streams import SPLIT_STREAM, THIN_STREAM, UNLABELLED_STREAM
from storage.errors import InputError

log = logging.getLogger(__name__)


@dataclass
class RowChoice:
    """Chooses the rows of each split, step by step: `choose`.

    Args:
        tables: split -> table of the corpus.
        label_names: C names.
        protocol, imbalance, budget, seed, singleton_classes, takes_unlabelled, trains_unlabelled: as `DataModule` has
            them.

    Attributes:
        rows: split -> sorted numbers ``(N,)`` of rows, in the table that `table_of` names (after ``choose``).
        table_of: split -> the table that holds it.
        labels: table -> labels of all its rows, `label_array`'s; those that a person has given in place of its own.
        thins_before_budget: whether the labels of the budget are drawn among the rows that `imbalance` leaves.
    """

    tables: dict[str, pa.Table]
    label_names: tuple[str, ...]
    protocol: Protocol
    imbalance: Any
    budget: LabelBudget
    seed: int
    singleton_classes: Literal["refuse", "keep_in_train"]
    takes_unlabelled: bool
    trains_unlabelled: bool
    rows: dict[str, np.ndarray] = field(init=False)
    table_of: dict[str, str] = field(init=False)
    labels: dict[str, np.ndarray] = field(init=False)

    def __post_init__(self) -> None:
        self.labels = {split: label_array(table, len(self.label_names)) for split, table in self.tables.items()}
        self.rows = {split: np.arange(len(labels)) for split, labels in self.labels.items()}
        self.table_of = {split: split for split in self.tables}
        self.has_no_label = without_label(self.tables["train"])
        self.answers = self._answers()
        self.thins_before_budget = bool(self.budget) and self._thins_all()

    def choose(self) -> None:
        """Set `rows` and `table_of`.

        Raises:
            InputError: one class only; a protocol, a budget or an imbalance that the data cannot give.
        """
        if self.protocol.name == "transductive":
            self._take_the_whole()
            return
        if len(self.label_names) < 2:
            raise InputError("dataset: found one class only in train, allowed: at least 2 classes")
        if self.budget and self.protocol.name == "clean":
            why = "a budget of labels does not count theirs"
            self._leave_out_validation(f"dataset: %d validation rows are not read: {why}")
        if self.thins_before_budget:
            self._thin_labelled()
        if self.protocol.name == "kfold" and self.protocol.fold is not None:  # a budget is of the rows that are left
            self._hold_out_fold()
        self._set_unlabelled_aside()
        self._take_validation_of_protocol()
        val_from = self.protocol.val_from if self._draws_validation() else None
        if val_from == "unthinned":
            self._split()
        self._apply_imbalance()
        if val_from == "thinned":
            self._split()
        if self.protocol.name == "few_shot":
            self._split_at_random()
        if "unlabelled" in self.rows:
            self._leave_out_unlabelled()
        if not self.protocol.read_test:
            self.rows.pop("test", None)
        self.table_of = {split: self.table_of[split] for split in self.rows}

    def labels_of(self, split: str) -> np.ndarray:
        """Labels of the rows of a split, ``(N,)`` int64 or ``(N, C)`` uint8; -1 where no label is to be seen."""
        labels = self.labels[self.table_of[split]][self.rows[split]]
        if split == "unlabelled":
            return np.full(labels.shape, -1)
        if self.protocol.name == "transductive":
            return np.full(len(labels), -1)
        return labels.astype(np.uint8 if labels.ndim == 2 else np.int64)

    def _rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, 0, stream])

    def _answers(self) -> np.ndarray | None:
        """Classes that a person has given to rows of train, where one was asked."""
        answers = self.imbalance.answers(len(self.label_names)) if isinstance(self.imbalance, Listed) else None
        if answers is not None and answers.ndim != self.labels["train"].ndim:
            kinds = {1: "a number a row", 2: "a list of numbers a row"}
            allowed = kinds[self.labels["train"].ndim]
            raise InputError(f"imbalance.labels: found {kinds[answers.ndim]}, allowed here: {allowed}")
        return answers

    def _thins_all(self) -> bool:
        """Whether `imbalance` thins all train rows with a label, those too that validate: none is held out before."""
        thins = self.imbalance is not None and not isinstance(self.imbalance, Listed)
        if not thins or getattr(self.imbalance, "ir", 1) is None or self.protocol.name == "kfold":
            return False
        return self.protocol.name != "clean" or self.protocol.val_from == "thinned"

    def _take_the_whole(self) -> None:
        self.rows = {"train": self.rows["train"], "val": self.rows["train"]}
        self.table_of = dict.fromkeys(self.rows, "train")

    def _leave_out_validation(self, message: str) -> None:
        if number := len(self.rows.pop("val", ())):
            log.warning(message, number)

    def _thinned(self, rows: np.ndarray) -> np.ndarray:
        """Those of the train rows that `imbalance` keeps."""
        return rows[self.imbalance.select(self.labels["train"][rows], self._rng(THIN_STREAM), self.label_names)]

    def _thin_labelled(self) -> None:
        kept = self._thinned(np.flatnonzero(~self.has_no_label))
        self.rows["train"] = np.union1d(kept, np.flatnonzero(self.has_no_label))

    def _hold_out_fold(self) -> None:
        """Make the fold that the protocol names the test split, of all rows with a label."""
        labels, train = self.labels["train"], self.rows["train"]
        is_labelled = ~self.has_no_label
        is_labelled &= np.isin(np.arange(len(labels)), train)
        numbers = np.full(len(labels), -1)
        inputs = contents(self.tables["train"]).filter(pa.array(is_labelled)).to_pylist()
        numbers[is_labelled] = fold_numbers(labels[is_labelled], inputs, self.protocol.folds, self.protocol.repeat)
        self.rows["test"] = np.flatnonzero(numbers == self.protocol.fold)
        self.rows["train"] = np.setdiff1d(train, self.rows["test"])
        self.table_of["test"] = "train"

    def _set_unlabelled_aside(self) -> None:
        """Keep as train the rows that keep their label; those that have none or lose it to the budget: "unlabelled"."""
        keeps_all, sets_aside = not self.budget, self.takes_unlabelled or self.protocol.name == "fixed"
        if keeps_all and (self.answers is not None or not sets_aside):  # answers number the rows of the whole table
            self._refuse_unlabelled()
            return
        train = self.rows["train"]
        labelled = train[~self.has_no_label[train]]
        if not keeps_all:
            classes = self.labels["train"][labelled]
            labelled = labelled[self.budget.select(classes, self.seed, self.label_names)]
        if not len(labelled) and self.protocol.name != "fixed":
            of_names = "a method that reads the names of the classes with protocol=fixed, such as method=prototypes"
            allowed = "some labels" if self.labels["train"].ndim == 2 else f"some labels, or {of_names}"
            raise InputError(f"protocol: found {self.protocol.name} without a labelled row; allowed: {allowed}")
        self.rows["train"] = labelled
        self._add_unlabelled(np.setdiff1d(train, labelled))

    def _add_unlabelled(self, rows: np.ndarray | None) -> None:
        if rows is not None and len(rows):
            self.rows["unlabelled"] = np.union1d(rows, self.rows.get("unlabelled", rows[:0]))
            self.table_of["unlabelled"] = "train"

    def _refuse_unlabelled(self) -> None:
        number = int(self.has_no_label.sum())
        if number and (self.answers is None or self.protocol.name == "clean"):
            raise InputError(
                f"dataset: {number} of {len(self.has_no_label)} train rows have no label, allowed: a label for each, "
                "or a person who is asked for some (active=NAME active.oracle=prompt or file)"
            )

    def _take_validation_of_protocol(self) -> None:
        """Under ``published`` the test rows validate, under ``fixed`` none does."""
        if self.protocol.name == "published":
            if "test" not in self.rows:
                raise InputError("protocol: found published without a test split, allowed: clean, few_shot")
            self.rows["val"], self.table_of["val"] = self.rows["test"], "test"
        elif self.protocol.name == "fixed":  # nothing asks for them
            why = "protocol=clean chooses by them"
            self._leave_out_validation(f"protocol=fixed: %d validation rows are not read; {why}")

    def _draws_validation(self) -> bool:
        if "val" in self.rows or self.protocol.name not in ("clean", "kfold"):
            return False
        return self.protocol.val_fraction > 0

    def _split(self) -> None:
        """Set validation rows aside from the train rows, class by class; those of folds with equal inputs together."""
        rows, protocol = self.rows["train"], self.protocol
        options = (protocol.val_fraction, self._rng(SPLIT_STREAM), self.singleton_classes, self.label_names)
        if protocol.name == "kfold":
            inputs = contents(self.tables["train"]).take(rows).to_pylist()
            train, val = split_together(self.labels["train"][rows], inputs, *options)
        else:
            train, val = stratified_split(self.labels["train"][rows], *options)
        if not len(val):
            raise InputError("protocol: no class has two train rows, so that none can validate; allowed: more rows")
        self._place_validation(rows[train], rows[val])

    def _split_at_random(self) -> None:
        rows = self.rows["train"]
        train, val = random_split(len(rows), self.protocol.val_fraction, self._rng(SPLIT_STREAM))
        self._place_validation(rows[train], rows[val])

    def _place_validation(self, train: np.ndarray, val: np.ndarray) -> None:
        self.rows |= {"train": train, "val": val}
        self.table_of["val"] = "train"

    def _apply_imbalance(self) -> None:
        """Thin the train rows, or keep those that are listed, with the answers that were given to them."""
        if isinstance(self.imbalance, Listed):
            self.rows["train"], rest = self.imbalance.among(self.rows["train"])
            self._add_unlabelled(rest)
        elif self.imbalance is not None and not self.thins_before_budget:
            self.rows["train"] = self._thinned(self.rows["train"])
        if self.answers is not None:
            self.labels["train"] = self.labels["train"].copy()
            self.labels["train"][self.imbalance.rows] = self.answers

    def _leave_out_unlabelled(self) -> None:
        """Leave out texts without a label: first those that came without one and stand with a label elsewhere; then
        those that are held out, too, case and spaces aside, for no held-out text is learned from; and of the others
        what is more than `most_unlabelled`."""
        self._leave_out_labelled()
        self._leave_out_held_out()
        rows = self.budget.select_unlabelled(self.rows["unlabelled"], self._rng(UNLABELLED_STREAM))
        self.rows["unlabelled"] = rows
        if not len(rows):
            del self.rows["unlabelled"]

    def _inputs(self, split: str) -> np.ndarray:
        """What the inputs of a split come to, ``(N,)``: equal ones, case and spaces aside, have equal numbers."""
        return digests(self.tables[self.table_of[split]].take(self.rows[split]))[1]

    def _leave_out_held_out(self) -> None:
        held_out = [split for split in ("val", "test") if split in self.rows]
        if not held_out:
            return
        is_leak = np.isin(self._inputs("unlabelled"), np.concatenate([self._inputs(split) for split in held_out]))
        number = int(is_leak.sum())
        if self.trains_unlabelled and not len(self.rows["train"]) and number == len(is_leak):
            problem = f"no row has a label, and the {number} texts without one are also in test or validation"
            raise InputError(f"dataset: {problem}; allowed: some labels, or texts of neither split")
        if number:
            log.warning("dataset: %d texts without a label are also in test or validation; left out", number)
            self.rows["unlabelled"] = self.rows["unlabelled"][~is_leak]

    def _leave_out_labelled(self) -> None:
        """A file of texts without labels may hold the train texts again, for which guesses would be learned beside."""
        rows = self.rows["unlabelled"]
        came_without = self.has_no_label[rows]
        if not came_without.any():
            return
        is_labelled = came_without & np.isin(self._inputs("unlabelled"), self._inputs("train"))
        if number := int(is_labelled.sum()):
            log.warning("dataset: %d texts without a label are also among those with one; left out", number)
            self.rows["unlabelled"] = rows[~is_labelled]
