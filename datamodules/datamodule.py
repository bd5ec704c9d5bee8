"""From a prepared corpus to the batches of a run."""

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from lightning import LightningDataModule
from torch.utils.data import DataLoader, Dataset

from datamodules.collation import Batch, FeatureBatches, TokenBatches
from datamodules.imbalance import Listed
from datamodules.label_budget import LabelBudget
from datamodules.labels import class_counts, has_several_labels, label_array, without_label
from datamodules.samplers import Batches, OrderedBatches
from datamodules.splits import Protocol, fold_numbers, random_split, stratified_split
from datamodules.tokens import CHUNK, Tokens, cached_tokens, key_of, tokenize, tokenizer_fingerprint
from storage.errors import InputError

# Batches are cut from memory-mapped arrays; worker processes would only cost here.
warnings.filterwarnings("ignore", message=".*does not have many workers.*")

log = logging.getLogger(__name__)

SAME_TEXT = ("none", "dropout")  # augmentations whose views are the text itself
_SPLIT, _THIN, _VIEW, _ORDER, _LABELS = 2, 3, 4, 5, 6  # streams of random numbers of one seed; the sampler has stream 1


@dataclass(frozen=True)
class LearnedTokenizer:
    """A tokenizer that is made from the train rows of a run, after split and thinning.

    Attributes:
        make: called with the texts in pieces, the labels, ``(N,)`` or ``(N, C)``, and C; gives the tokenizer.
    """

    make: Callable[[Iterator[list[str]], np.ndarray, int], Any]


class TextDataModule(LightningDataModule):
    """Splits, thins, augments and tokenises a corpus, and batches it.

    Train batches hold ``input_ids`` and ``attention_mask`` ``(V * B, L)`` int64, view-major (rows ``[0:B]`` the text
    itself, ``[B:2B]`` its first augmentation), ``labels`` ``(B,)`` int64, or ``(B, C)`` float32 of 0 and 1 where texts
    have several, ``indices`` ``(B,)`` (positions in the split) and ``num_views``. Evaluation batches have one view.
    After `use_features`, ``features`` ``(V * B, D)`` stand in place of the tokens. Batches are a pure function of
    (seed, epoch, rank).

    Under ``protocol=transductive`` "train" and "val" are both the whole corpus, no batch carries a label (they are -1),
    ``class_counts`` is empty, and evaluation batches come in a seeded order, for some methods judge a text by its
    companions.

    Args:
        corpus: a prepared ``datamodules.corpus.Corpus``.
        tokenizer: the encoder's fast tokenizer, or `LearnedTokenizer` for one that the train rows decide.
        augment: makes views 1, 2, … of the train texts, already prepared; None gives copies of the text.
        imbalance: thins the train split; None keeps it whole.
        sampler: makes the batch order.
        protocol: a ``Protocol``, or its fields as a mapping.
        num_views: views of a train text, the text itself included.
        max_length: tokens per text, special tokens included.
        seed: of the split, the thinning, the augmentation and the batch order.
        cache_dir: where token caches lie.
        singleton_classes: classes of one train row under a stratified split: refuse, or leave them in train.
        num_workers: loader processes.
        budget: how many train rows keep their label, before anything else is drawn.
        takes_unlabelled: train rows without a label are set aside as texts without one, and not refused.
        trains_unlabelled: train batches hold the rows of "unlabelled" too, with label -1, at the positions behind those
            of "train"; they have one view.

    Attributes:
        num_classes, label_names: classes, in the order of their indices.
        multilabel: whether a text has any number of labels, none included, in place of one.
        class_counts: ``(C,)`` int64, rows per class in the thinned train split (after ``setup``).
        indices: split -> sorted row numbers ``(N,)`` (after ``setup``). "train" and a "val" split from it point into
            the corpus table "train", a shipped "val" into the table "val", and so does "test" under ``protocol=kfold``.
            Under ``protocol=published`` "val" equals "test". With a label budget, with ``takes_unlabelled`` or under
            ``protocol=fixed``, "unlabelled" holds the train rows without a label.
        labels: split -> class indices ``(N,)`` int64, or ``(N, C)`` uint8 of 0 and 1 (after ``setup``).
        augment_report: name, share of texts changed over all augmented views, and number of views (after ``setup``).

    Raises:
        InputError: an option out of range; one class only; a class of one row under a stratified split; an imbalance
            that the data cannot give.
    """

    def __init__(
        self,
        corpus,
        tokenizer,
        augment,
        imbalance,
        sampler,
        protocol: Protocol | Mapping,
        num_views: Annotated[int, ">= 1"],
        max_length: Annotated[int, ">= 3"],
        seed: Annotated[int, ">= 0"],
        cache_dir: str | Path,
        singleton_classes: Literal["refuse", "keep_in_train"] = "refuse",
        num_workers: Annotated[int, ">= 0"] = 0,
        budget: LabelBudget | None = None,
        takes_unlabelled: bool = False,
        trains_unlabelled: bool = False,
    ) -> None:
        super().__init__()
        if num_views < 1:
            raise InputError(f"num_views: found {num_views}, allowed: >= 1")
        self._learned = tokenizer if isinstance(tokenizer, LearnedTokenizer) else None
        if self._learned is None:
            check_tokenizer(tokenizer, max_length)
        self.corpus, self.tokenizer, self.max_length = corpus, tokenizer, max_length
        self.augment, self.imbalance, self.sampler = augment, imbalance, sampler
        self.protocol = Protocol(**protocol) if isinstance(protocol, Mapping) else protocol
        self.num_views, self.seed, self.num_workers = num_views, seed, num_workers
        self.budget, self.takes_unlabelled = budget or LabelBudget(), takes_unlabelled
        self.trains_unlabelled = trains_unlabelled
        self.singleton_classes, self.cache = singleton_classes, Path(cache_dir) / "tokens"
        self.label_names = tuple(corpus.label_names)
        self.num_classes = len(self.label_names)
        self.multilabel = has_several_labels(corpus.table("train"))
        self._features: dict[str, np.ndarray] | None = None
        self._ready = False

    def prepare_data(self) -> None:
        """Fill the token cache; the other processes then only map it."""
        self.setup()

    def setup(self, stage: str | None = None) -> None:
        """Choose the rows of each split and open their tokens; all splits at once, whatever the stage."""
        if self._ready:
            return
        self._choose_rows()
        if self._learned is not None:
            table, rows = self.corpus.table(self._table_of["train"]), self.indices["train"]
            texts = (part.column("text").to_pylist() for part in _parts(table, rows))
            self.tokenizer = self._learned.make(texts, self.labels["train"], self.num_classes)
            check_tokenizer(self.tokenizer, self.max_length)
        self._open_tokens()
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
        rows |= self._without_labels(rows["train"], labels["train"], without_label(tables["train"]), answers)
        if self.protocol.name == "published":
            if "test" not in rows:
                raise InputError("protocol: found published without a test split, allowed: clean, few_shot")
            rows["val"], self._table_of["val"] = rows["test"], "test"
        elif self.protocol.name == "fixed":
            rows.pop("val", None)  # its labels count too, and nothing asks for them
        elif self.protocol.name == "kfold" and self.protocol.fold is not None:
            self._hold_out_fold(rows, labels["train"], tables["train"]["text"].to_pylist())
        splits = "val" not in rows and self.protocol.name in ("clean", "kfold")
        if splits and self.protocol.val_from == "unthinned":
            self._split(rows, labels["train"])
        if self.imbalance is not None:
            rng = np.random.default_rng([self.seed, 0, _THIN])
            selected = self.imbalance.select(labels["train"][rows["train"]], rng, self.label_names)
            if (
                isinstance(self.imbalance, Listed)
                and (rest := self.imbalance.without_labels(len(rows["train"]))) is not None
            ):
                rows["unlabelled"], self._table_of["unlabelled"] = rows["train"][rest], "train"
            rows["train"] = rows["train"][selected]
        if answers is not None:
            labels["train"] = labels["train"].copy()
            labels["train"][self.imbalance.rows] = answers
        if splits and self.protocol.val_from == "thinned":
            self._split(rows, labels["train"])
        if self.protocol.name == "few_shot":
            rng = np.random.default_rng([self.seed, 0, _SPLIT])
            train, val = random_split(len(rows["train"]), self.protocol.val_fraction, rng)
            rows["train"], rows["val"] = rows["train"][train], rows["train"][val]
            self._table_of["val"] = "train"
        self.indices, self.protocol = rows, self.protocol.with_rows(len(rows.get("val", ())))
        dtype = np.uint8 if self.multilabel else np.int64
        self.labels = {split: labels[self._table_of[split]][rows[split]].astype(dtype) for split in rows}
        if "unlabelled" in rows:
            self.labels["unlabelled"] = np.full(len(rows["unlabelled"]), -1)
            self._warn_of_leaks(tables)
        counts = class_counts(self.labels["train"], self.num_classes)
        self.class_counts = torch.from_numpy(counts.astype(np.int64))

    def _hold_out_fold(self, rows: dict[str, np.ndarray], labels: np.ndarray, texts: list[str]) -> None:
        """Make the fold that the protocol names the test split."""
        is_labelled = np.zeros(len(labels), bool)
        is_labelled[rows["train"]] = True
        numbers = np.full(len(labels), -1)
        chosen = [text for text, counts in zip(texts, is_labelled, strict=True) if counts]
        numbers[is_labelled] = fold_numbers(labels[is_labelled], chosen, self.protocol.folds, self.protocol.repeat)
        rows["test"] = np.flatnonzero(numbers == self.protocol.fold)
        rows["train"] = np.setdiff1d(rows["train"], rows["test"])
        self._table_of["test"] = "train"

    def _split(self, rows: dict[str, np.ndarray], labels: np.ndarray) -> None:
        """Set validation rows aside from the train rows, class by class."""
        train, val = stratified_split(
            labels[rows["train"]],
            self.protocol.val_fraction,
            np.random.default_rng([self.seed, 0, _SPLIT]),
            self.singleton_classes,
            self.label_names,
        )
        rows["train"], rows["val"] = rows["train"][train], rows["train"][val]
        self._table_of["val"] = "train"

    def _without_labels(
        self, rows: np.ndarray, labels: np.ndarray, unlabelled: np.ndarray, answers: np.ndarray | None
    ) -> dict[str, np.ndarray]:
        """The train rows that keep their label, and those that have none or lose it to the budget, as "unlabelled"."""
        keeps_all = not self.budget
        sets_aside = self.takes_unlabelled and answers is None
        if keeps_all and self.protocol.name != "fixed" and not sets_aside:
            self._refuse_unlabelled(labels, answers)
            return {}
        rng = np.random.default_rng([self.seed, 0, _LABELS])
        labelled = np.flatnonzero(~unlabelled) if keeps_all else self.budget.select(labels, rng, self.label_names)
        if not len(labelled) and self.protocol.name != "fixed":
            raise InputError(f"protocol: found {self.protocol.name} without a labelled row, allowed: fixed")
        rest = np.setdiff1d(rows, labelled)
        if len(rest):
            self._table_of["unlabelled"] = "train"
        return {"train": labelled} | ({"unlabelled": rest} if len(rest) else {})

    def _warn_of_leaks(self, tables: dict[str, pa.Table]) -> None:
        """Say how many texts without a label are also held out: no held-out row should be learned from."""
        texts = {split: tables[self._table_of[split]]["text"].take(rows) for split, rows in self.indices.items()}
        held_out = [chunk for split in ("val", "test") if split in texts for chunk in texts[split].chunks]
        is_leak = pc.is_in(texts["unlabelled"], value_set=pa.concat_arrays(held_out)) if held_out else pa.array([False])
        if number := pc.sum(is_leak).as_py():
            what = "texts without a label are also in test or validation"
            log.warning("dataset: %d %s; dataset.deduplicate=all leaves them out", number, what)

    def _take_the_whole(self, rows: np.ndarray) -> None:
        self.indices = {"train": rows, "val": rows}
        self._table_of = dict.fromkeys(self.indices, "train")
        self.labels = dict.fromkeys(self.indices, np.full(len(rows), -1))
        self.class_counts = torch.empty(0, dtype=torch.int64)

    def _refuse_unlabelled(self, labels: np.ndarray, answers: np.ndarray | None) -> None:
        number = int((labels < 0).sum())
        if number and (answers is None or self.protocol.name == "clean"):
            raise InputError(
                f"dataset: {number} of {len(labels)} train rows have no label, allowed: a label for each, "
                "or a person who is asked for some (active=NAME active.oracle=prompt or file)"
            )

    def _open_tokens(self) -> None:
        common = {
            "corpus": self.corpus.fingerprint,
            "tokenizer": tokenizer_fingerprint(self.tokenizer),
            "max_length": self.max_length,
        }
        # Whole tables, so that every seed and every imbalance shares one cache.
        tokens_of = {table: self._table_tokens(table, common) for table in sorted(set(self._table_of.values()))}
        self._views = {split: [tokens_of[table]] for split, table in self._table_of.items()}
        self._rows = {split: [rows] for split, rows in self.indices.items()}
        name = self.augment.name if self.augment is not None and self.num_views > 1 else "none"
        changed = 0
        for view in range(1, self.num_views):
            if name in SAME_TEXT:
                tokens, rows = tokens_of["train"], self.indices["train"]
            else:
                tokens = self._augmented(view, common)
                rows = np.arange(len(tokens))
                changed += tokens.notes["changed"]
            self._views["train"].append(tokens)
            self._rows["train"].append(rows)
        share = changed / max(len(self.indices["train"]) * (self.num_views - 1), 1)
        self.augment_report = {"name": name, "share_changed": share, "views": self.num_views}

    def _table_tokens(self, table: str, common: dict) -> Tokens:
        return self._cached(lambda _: _texts(self.corpus.table(table)), table=table, **common)

    def _augmented(self, view: int, common: dict) -> Tokens:
        """Tokens of one augmented view of the thinned train rows."""
        seed = int(np.random.SeedSequence([self.seed, view, _VIEW]).generate_state(1)[0])
        table, rows = self.corpus.table("train"), self.indices["train"]

        def chunks(notes: dict) -> Iterator[list[str]]:
            notes["changed"] = 0
            for part in _parts(table, rows):
                texts = part.column("text").to_pylist()
                shipped = part.column("aug").to_pylist() if "aug" in part.column_names else None
                augmented = self.augment.augment(texts, seed, shipped)
                notes["changed"] += sum(new != old for new, old in zip(augmented, texts, strict=True))
                yield augmented

        return self._cached(chunks, table="train", rows=rows, augment=self.augment.fingerprint(), seed=seed, **common)

    def _cached(self, chunks, **key) -> Tokens:
        return cached_tokens(self.cache, key_of(**key), chunks, self.tokenizer, self.max_length)

    def use_features(self, features: dict[str, np.ndarray]) -> None:
        """Batch these features in place of tokens, for an encoder that does not train.

        Args:
            features: split -> ``(V, N, D)``, or ``(1, N, D)`` where all views share them; row i belongs to position i
                of the split.
        """
        for split, array in features.items():
            views, count = (self.num_views if split == "train" else 1), len(self.indices[split])
            if array.ndim != 3 or array.shape[0] not in (1, views) or array.shape[1] != count:
                raise InputError(f"{split} features: found shape {array.shape}, allowed: ({views} or 1, {count}, D)")
        self._features = features

    def feature_rows(self, split: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Features ``(V * N, D)`` of a split, view-major, and labels ``(V * N,)`` or ``(V * N, C)``; after
        `use_features`."""
        assert self._features is not None
        views = self._features[split]
        labels = torch.from_numpy(self.labels[split])
        labels = labels.float() if self.multilabel else labels
        tile = (len(views), 1) if self.multilabel else (len(views),)
        return torch.from_numpy(views.reshape(-1, views.shape[-1]).copy()), labels.tile(tile)

    def token_rows(self, split: str) -> tuple[list[np.ndarray], torch.Tensor]:
        """Token ids of each text of a split, and labels ``(N,)`` or ``(N, C)``."""
        tokens, rows = self.views(split)[0]
        ids = [tokens.ids[tokens.offsets[row] : tokens.offsets[row + 1]] for row in rows]
        return ids, torch.from_numpy(self.labels[split])

    def texts(self, split: str) -> list[str]:
        """Texts of a split, in the order of its positions."""
        return self.corpus.table(self._table_of[split]).column("text").take(self.indices[split]).to_pylist()

    def views(self, split: str) -> list[tuple[Tokens, np.ndarray]]:
        """For each view of a split the tokens of a whole table, and the rows ``(N,)`` of it that are the split's."""
        return list(zip(self._views[split], self._rows[split], strict=True))

    @property
    def learning_splits(self) -> list[str]:
        """What a run may learn from or choose by: never test."""
        return [split for split in ("train", "val", "unlabelled") if split in self.indices]

    def train_dataloader(self) -> DataLoader:
        data = self._tokens("train")
        if self.trains_unlabelled and "unlabelled" in self.indices:
            data = self._joined_tokens("train", "unlabelled")
        lengths = data.text_lengths if self.sampler.length_of == "text" else data.lengths
        order = self.sampler.train(lengths, data.labels, self.seed, *self._place())
        return self._loader("train", data, order)

    def val_dataloader(self) -> DataLoader | list:
        """Of the rows that choose the epoch; no loader where nothing chooses."""
        return [] if self.protocol.name == "fixed" else self._eval_loader("val")

    def test_dataloader(self) -> DataLoader:
        return self._eval_loader("test")

    def table_loader(self, tokens: Tokens) -> DataLoader:
        """Every text of a table once, longest first, without labels; the same on every process."""
        return _table_loader(tokens, self.tokenizer, self.sampler, self.num_workers)

    def feature_loader(self, split: str) -> DataLoader:
        """Every row of a split once, with all its views, longest first, as tokens; the same on every process."""
        data = self._tokens(split)
        return _loader(data, self.sampler.eval(data.lengths), self.num_workers)

    def ordered_loader(self, number: int = 0) -> DataLoader:
        """Every validation text once, in an order drawn from (seed, ``number``)."""
        order = np.random.default_rng([self.seed, number, _ORDER]).permutation(len(self.labels["val"]))
        return self._loader("val", self._tokens("val"), OrderedBatches(order, self.sampler.eval_batch_size))

    def text_loader(self, split: str, every_row: bool = False) -> DataLoader:
        """Every row of a split once, the text itself alone, longest first; each process has its share, or all rows."""
        tokens = self._texts_alone(split)
        order = self.sampler.eval(tokens.lengths, *(() if every_row else self._place()))
        if self._features is None:
            return _loader(tokens, order, self.num_workers)
        return _loader(FeatureBatches(self._features[split], self.labels[split], 1), order, self.num_workers)

    def text_batch(self, split: str, positions: np.ndarray) -> Batch:
        """These rows of a split as one batch, the text itself alone, as tokens."""
        return self._texts_alone(split)[positions]

    def predict_loader(self, texts: list[str]) -> DataLoader:
        """Batches of new texts, see `predict_loader`."""
        return predict_loader(texts, self.tokenizer, self.max_length, self.sampler)

    def _eval_loader(self, split: str) -> DataLoader:
        if split not in self.indices:
            raise InputError(f"dataset: found no {split} split, allowed: {', '.join(self.indices)}")
        if self.protocol.name == "transductive":
            return self.ordered_loader()
        data = self._tokens(split)
        return self._loader(split, data, self.sampler.eval(data.lengths, *self._place()))

    def _loader(self, split: str, data: TokenBatches, order: Batches) -> DataLoader:
        if self._features is None:
            return _loader(data, order, self.num_workers)
        views = self.num_views if split == "train" else 1
        return _loader(FeatureBatches(self._features[split], self.labels[split], views), order, self.num_workers)

    def _tokens(self, split: str) -> TokenBatches:
        return TokenBatches(self._views[split], self._rows[split], self.labels[split], self.tokenizer.pad_token_id)

    def _texts_alone(self, split: str) -> TokenBatches:
        views, rows = self._views[split][:1], self._rows[split][:1]
        return TokenBatches(views, rows, self.labels[split], self.tokenizer.pad_token_id)

    def _joined_tokens(self, *splits: str) -> TokenBatches:
        """Rows of one table as one split, in the order of `splits`."""
        rows = np.concatenate([self._rows[split][0] for split in splits])
        labels = np.concatenate([self.labels[split] for split in splits])
        return TokenBatches(self._views["train"][:1], [rows], labels, self.tokenizer.pad_token_id)

    def _place(self) -> tuple[int, int]:
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)


def predict_loader(texts: list[str], tokenizer, max_length: int, sampler) -> DataLoader:
    """Batches of new texts, longest first; ``indices`` gives each row's place in ``texts``, ``labels`` are -1.

    Texts are tokenised in memory; give a long stream in pieces.
    """
    check_tokenizer(tokenizer, max_length)
    return _table_loader(tokenize(texts, tokenizer, max_length), tokenizer, sampler)


def _table_loader(tokens: Tokens, tokenizer, sampler, num_workers: int = 0) -> DataLoader:
    data = TokenBatches([tokens], [np.arange(len(tokens))], np.full(len(tokens), -1), tokenizer.pad_token_id)
    return _loader(data, sampler.eval(tokens.lengths), num_workers)


def _loader(data: Dataset, order: Batches, num_workers: int = 0) -> DataLoader:
    # batch_size=None: the sampler gives whole batches, and Lightning finds its set_epoch.
    return DataLoader(
        data,
        sampler=order,
        batch_size=None,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        pin_memory=torch.cuda.is_available(),
    )


def check_tokenizer(tokenizer, max_length: int) -> None:
    """Raises InputError: no room for a token in `max_length`, or no padding token."""
    least = tokenizer.num_special_tokens_to_add() + 1
    if max_length < least:
        raise InputError(f"dataset.max_length: found {max_length}, allowed: >= {least}")
    if tokenizer.pad_token_id is None:
        raise InputError("encoder tokenizer: found no padding token, allowed: a tokenizer that has one")


def _texts(table: pa.Table) -> Iterator[list[str]]:
    for part in _parts(table, np.arange(len(table))):
        yield part.column("text").to_pylist()


def _parts(table: pa.Table, rows: np.ndarray) -> Iterable[pa.Table]:
    """The chosen rows (sorted) in bounded pieces, so that a large table is never in memory as a whole."""
    for start in range(0, len(table), CHUNK):
        first, last = np.searchsorted(rows, [start, start + CHUNK])
        if first < last:
            yield table.slice(start, CHUNK).take(pa.array(rows[first:last] - start))
