"""What every data set states about itself, and what every data set of texts does."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from datamodules.class_descriptions import known_descriptions, read_descriptions
from datamodules.label_budget import LabelBudget
from datamodules.markup import without_markup
from datamodules.sources import SourceFile
from storage.errors import InputError
from storage.files import expanded
from storage.tables import Table, checked_text, format_of, is_blank, open_table, text_columns, text_of

if TYPE_CHECKING:
    from datamodules.collation import Batch
    from datamodules.corpus import Corpus
    from datamodules.datamodule import DataModule

Row = dict[str, Any]
Name = Annotated[str, r"~ \w[\w.-]*"]  # of a folder
LOOKED_AT = 50  # rows, of which one has a text at least
Singletons = Literal["refuse", "keep_in_train"]
Deduplicate = Literal["none", "train", "leaks", "all"]
EmptyLabel = Literal["refuse", "unlabelled"]
Markup = Literal["keep", "strip"]


class Dataset:
    """Source files, options and facts of one data set; subclasses give the rows.

    A kind of data has a base class of its own (`TextDataset` here) that says what an input is: in which column it lies,
    what is a bad one, and how a run reads it. Parts of a config that name their `kinds` take data of these alone.

    Args:
        name: name in run ids and folders.
        singleton_classes: what a stratified split does with a class of one train row.
        labels: how many train rows keep their label, drawn by the run's seed; the others are rows without label.
        labels_per_class: the same for each class; a class with fewer keeps all.
        class_descriptions: YAML, JSON or CSV file with a description of each label, in place of what the data set
            knows of its classes.
        unlabelled: file with inputs without labels, which come after the train rows.
        most_unlabelled: at most so many of all rows without a label are learned from, drawn by the run's seed.
        many_above: classes of more train rows than this have many; accuracy is also given for these.
        few_below: classes of fewer have few; those between have a medium number.

    Raises:
        InputError: a class would have many and few.
    """

    kind: ClassVar[str]  # of data, as `kinds` of encoders, methods and others name it
    column: ClassVar[str]  # of the inputs in a corpus, and by default in a user's tables
    tasks: ClassVar[tuple[str, ...] | None] = None  # those that take such data; None: all
    takes_folders: ClassVar[bool] = False  # whether a folder is a table of inputs

    version: ClassVar[int] = 1  # raise it when the same files and options give other rows
    sources: tuple[SourceFile, ...] = ()
    licence: str = "not stated"
    origin: str = ""
    paper: dict[str, Any] = {}
    differences: str = ""
    test_fraction: float | None = None  # share of train that becomes test where rows() gives no test
    split_seed: int = 0
    label_names: tuple[str, ...] | None = None  # given beforehand: train rows may then have no label
    several_labels: bool | None = None  # whether rows have any number of labels; None: as the first that has one says
    empty_label: EmptyLabel = "refuse"  # what a train row without one is
    deduplicate: Deduplicate = "none"
    learned_columns: Mapping[str, str] = {}  # "text", "label" -> the user's; of the text `TITLE+BODY` too
    learned_separator: str | None = None  # of several labels in a cell of the user's
    learned_missing: Sequence[str] = ()  # what stood in cells that were read as empty
    learned_descriptions: tuple[str, ...] | None = None  # of the classes of a finished run, whose file may be gone
    learned_header: bool = True  # whether the first row of the user's named the columns
    learned_sheet: str | None = None  # that the user named, of XLSX

    def __init__(
        self,
        name: Name,
        singleton_classes: Singletons = "refuse",
        labels: Annotated[int, ">= 0"] | None = None,
        labels_per_class: Annotated[int, ">= 1"] | None = None,
        class_descriptions: str | None = None,
        unlabelled: str | None = None,
        most_unlabelled: Annotated[int, ">= 1"] | None = None,
        many_above: Annotated[int, ">= 0"] = 100,
        few_below: Annotated[int, ">= 0"] = 20,
    ) -> None:
        if few_below > many_above + 1:
            raise InputError(f"dataset.few_below: found {few_below}, allowed: <= {many_above + 1}, see many_above")
        self.shot_bounds = many_above, few_below
        self.budget = LabelBudget(labels, labels_per_class, most_unlabelled)
        self.class_descriptions = class_descriptions
        self.unlabelled = None if unlabelled is None else expanded(unlabelled)
        self.name = name
        self.singleton_classes = singleton_classes

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[Row]]:
        """Split -> rows in source order, streamed.

        Args:
            files: source path -> verified local file.

        Returns:
            For ``train`` and, where the source has them, ``val`` and ``test``: rows ``{column: input, "label": str}``,
            for texts ``{"text": str, "label": str}``
            (``label`` None for a train row without one, where ``label_names`` are given; in all rows of a data set
            where texts have several labels a list of str, perhaps empty),
            with ``"aug": str | None`` where the source ships augmented texts, and ``"where"`` ("file:line") where
            an error should name it.
        """
        raise NotImplementedError

    def all_rows(self, files: dict[str, Path]) -> Iterator[Row]:
        """The rows of all splits, one split after the other, for what knows no splits; labels may be None."""
        return (row for rows in self.rows(files).values() for row in rows)

    def identity(self) -> dict[str, Any]:
        """What decides the rows, besides the source files (JSON values)."""
        return {
            "class": type(self).__qualname__,
            "version": self.version,
            "singleton_classes": self.singleton_classes,
            "test_fraction": self.test_fraction,
            "split_seed": self.split_seed,
        }

    @property
    def ships_test_rows(self) -> bool:
        """Whether some rows are there to test with: false where a user's files have none and a share would be drawn."""
        return True

    def own_files(self) -> tuple[Path, ...]:
        """The user's files that the rows come from; their content decides the rows too."""
        return ()

    def folder_digests(self) -> dict[str, str]:
        """Digests, by path, of the user's folders that the rows come from."""
        return {}

    def option_files(self) -> tuple[Path, ...]:
        """The user's files beside those of the rows: descriptions, texts without labels. Raises InputError: no file."""
        paths = {"class_descriptions": self.class_descriptions, "unlabelled": self.unlabelled}
        return tuple(checked_file(path, f"dataset.{key}") for key, path in paths.items() if path is not None)

    @property
    def takes_unlabelled(self) -> bool:
        """Whether train rows may lack a label, which then is not an error but a row to learn from without one."""
        return self.unlabelled is not None or self.empty_label == "unlabelled"

    def unlabelled_rows(self) -> Iterator[Row]:
        """Rows of the file `unlabelled`; nothing without one."""
        return iter(())

    def check_input(self, value: Any, where: str) -> None:
        """Raises InputError where an input of a row is not one of this kind of data."""

    def datamodule(
        self,
        corpus: "Corpus",
        encoder: Any,
        augment: Any,
        prepare: Callable[[Any], None],
        cache_dir: Path,
        **options: Any,
    ) -> "DataModule":
        """What splits and batches a corpus of this kind.

        Args:
            corpus: of this data set.
            encoder: what a run's encoder is made from.
            augment: the augmentation that the config names, or None.
            prepare: makes it ready, given the tokenizer of a run on texts.
            cache_dir: folder for what is worth keeping.
            options: those of `DataModule`.
        """
        raise NotImplementedError

    def input_of(self, row: Row, column: str) -> Any:
        """The input of a row of `open_inputs`."""
        raise NotImplementedError

    def new_batches(self, encoder: Any, inputs: list, batch_size: int, of_one_width: bool) -> "Iterator[Batch]":
        """Batches of new inputs for prediction, as the data module makes them, with ``indices`` into `inputs`.

        Args:
            encoder: what the run's encoder is made from.
            inputs: as `input_of` gives them.
            batch_size: rows at most.
            of_one_width: each input as if it stood alone, see `datamodules.texts.alone`.
        """
        raise NotImplementedError

    def open_inputs(
        self,
        source: str,
        column: str,
        encoding: str | None,
        header: bool | None,
        delimiter: str | None = None,
        sheet: str | None = None,
        untyped: Sequence[str] = (),
    ) -> Table:
        """A table of new inputs, each in its column and checked; a text may be blank.

        Args:
            source, encoding, header, delimiter, sheet: see `storage.tables.open_table`.
            column: of the inputs.
            untyped: "text", "label" where nobody typed that column: the run's own is taken where the table has it.

        Raises:
            InputError: no file, no column, a bad input.
        """
        raise NotImplementedError

    def describe_classes(self, label_names: Sequence[str]) -> tuple[str, ...] | None:
        """A description of each class, phrases joined by commas with the name first; None where labels are codes.

        Where `label_names` were given beforehand, a class that the file lacks is described by its name: a person adds
        some while labelling.

        Raises:
            InputError: see `class_descriptions.read_descriptions`.
        """
        if self.learned_descriptions is not None:
            return self.learned_descriptions
        if self.class_descriptions is not None:
            file = expanded(self.class_descriptions)
            return read_descriptions(file, label_names, names_suffice=self.label_names is not None)
        return known_descriptions(self.name, label_names)

    def about(self) -> dict[str, Any]:
        """Facts for the card."""
        return {
            "licence": self.licence,
            "origin": self.origin,
            "sources": [
                {"address": file.address(), "sha256": file.sha256, "bytes": file.bytes} for file in self.sources
            ],
            "paper": self.paper,
            "differences": self.differences,
            "deduplicate": self.deduplicate,
        }


class TextDataset(Dataset):
    """A data set of texts.

    Args:
        name: name in run ids and folders.
        max_length: longest input in tokens, special tokens included.
        deduplicate: ``train`` drops train rows whose text came before in train, ``leaks`` drops train rows whose
            text is also in test or val, ``all`` does both. Duplicates and leaks are counted and reported in any case.

    The remaining arguments are those of `Dataset`; of the file `unlabelled` only the text column is read.
    """

    kind, column = "text", "text"
    empty_texts: ClassVar[bool] = False  # whether the source has some, which then stay
    columns: dict[str, str] = {"text": "text"}
    encoding: str | None = None
    delimiter: str | None = None
    sheet: str | None = None
    header = True
    markup: Markup = "keep"  # what becomes of tags and entities in texts

    def __init__(
        self,
        name: Name,
        max_length: Annotated[int, ">= 1"] = 64,
        singleton_classes: Singletons = "refuse",
        deduplicate: Deduplicate = "none",
        **options: Any,
    ) -> None:
        super().__init__(name, singleton_classes, **options)
        self.max_length, self.deduplicate = max_length, deduplicate

    def identity(self) -> dict[str, Any]:
        return super().identity() | {"deduplicate": self.deduplicate}

    def check_input(self, value: Any, where: str) -> None:
        if not (self.empty_texts and isinstance(value, str)):
            checked_text(value, where)

    def unlabelled_rows(self) -> Iterator[Row]:
        """Rows of the file `unlabelled`; nothing without one. Raises InputError: it has none, or no text column."""
        if self.unlabelled is None:
            return
        column, hint = self.columns["text"], "the text column of dataset.unlabelled"
        kind = format_of(self.unlabelled)
        encoding = None if kind in ("xlsx", "parquet") else self.encoding
        file = checked_file(self.unlabelled, "dataset.unlabelled")
        table = open_table(file, None, self.delimiter, None, encoding, self.header or None, sheet=self.sheet)
        table.need_text(column, hint)
        where = None
        for where, row in table.rows:
            text = self.cleaned(table.text(where, row, column, hint))
            yield {"text": text, "label": None, "where": where, "unlabelled": True}
        if where is None:
            raise InputError(f"{self.unlabelled}: no rows, allowed: at least one text")

    def cleaned(self, text: Any) -> Any:
        """A text as this data set has it, one of its rows or a new one; what is no text stays as it is."""
        return without_markup(text) if self.markup == "strip" and isinstance(text, str) else text

    def datamodule(
        self,
        corpus: "Corpus",
        encoder: Any,
        augment: Any,
        prepare: Callable[[Any], None],
        cache_dir: Path,
        **options: Any,
    ) -> "DataModule":
        """As `Dataset.datamodule`. Raises ValueError: texts of more tokens than the encoder takes."""
        from datamodules.texts.datamodule import LearnedTokenizer, TextDataModule

        if self.max_length > (limit := encoder.max_length()):
            raise ValueError(
                f"dataset.max_length: found {self.max_length}, allowed: <= {limit}, "
                f"the positions of encoder={encoder.name}"
            )
        augment = augment if options["num_views"] > 1 else None

        def ready(tokenizer: Any) -> Any:
            if augment is not None:
                prepare(tokenizer)
            return tokenizer

        learn = getattr(encoder, "learn", None)  # an encoder of words has its vocabulary from the train rows
        tokenizer = LearnedTokenizer(lambda *train: ready(learn(*train))) if learn else ready(encoder.tokenizer())
        return TextDataModule(
            corpus, tokenizer, augment=augment, max_length=self.max_length, cache_dir=cache_dir, **options
        )

    def new_batches(self, encoder: Any, inputs: list, batch_size: int, of_one_width: bool) -> "Iterator[Batch]":
        from datamodules.texts.alone import batches_alone

        texts = [self.cleaned(text) for text in inputs]
        return batches_alone(texts, encoder.tokenizer(), self.max_length, batch_size, of_one_width)

    def open_inputs(
        self,
        source: str,
        column: str,
        encoding: str | None,
        header: bool | None,
        delimiter: str | None = None,
        sheet: str | None = None,
        untyped: Sequence[str] = (),
    ) -> Table:
        table = open_table(source, None, delimiter or self.delimiter, column, encoding, header, self.encoding, sheet)
        own_columns = self._own_columns(table, untyped)
        own, column = self.learned_columns.get("text", column), own_columns.get("text", column)
        hint = "set text_column=NAME" + (f"; the run learned from {own}" if own != column else "")
        table.need_text(column, hint)

        def with_texts() -> Iterator[tuple[str, Row]]:
            first = list(islice(table.rows, LOOKED_AT))
            if not first:
                raise InputError(f"{table.name}: no rows")
            if all(text_of(row, column) is None for _, row in first):  # some objects may lack it: they have no text
                table.text(*first[0], column, hint)
            for where, row in chain(first, table.rows):
                if not is_blank(value := text_of(row, column)):
                    checked_text(value, where)
                yield where, row

        return replace(table, rows=with_texts(), own_columns=own_columns)

    def _own_columns(self, table: Table, kinds: Sequence[str]) -> dict[str, str]:
        """Those of the columns that the run learned from that the table has."""
        own = {kind: self.learned_columns[kind] for kind in kinds if kind in self.learned_columns}
        names = table.first_names() if own else ()
        return {kind: column for kind, column in own.items() if set(text_columns(names, column)) <= set(names)}

    def input_of(self, row: Row, column: str) -> Any:
        return self.cleaned(text_of(row, column))  # of markup alone nothing is left


def checked_file(path: Path | str, key: str) -> Path:
    """The path itself. Raises InputError where there is no file to read."""
    path = expanded(path)
    if not path.is_file():
        raise InputError(f"{key}={path}: no such file, allowed: a file with rows")
    if not os.access(path, os.R_OK):
        raise InputError(f"{key}={path}: no permission to read it")
    return path
