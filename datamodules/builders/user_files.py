"""A user's own tables, read as a stream; every complaint names file and line."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from datamodules.builders.base import EmptyLabel, Markup, Name, Row, TextDataset, checked_file
from datamodules.class_descriptions import names_of
from datamodules.labels import split_labels
from storage.errors import InputError
from storage.files import expanded
from storage.tables import (
    Table,
    checked_delimiter,
    checked_encoding,
    format_of,
    label_text,
    labels_of,
    open_table,
    text_columns,
    text_of,
)


class UserFiles(TextDataset):
    """Files with a text and a label column, plain or packed (``.gz``, ``.bz2``, ``.xz``).

    Without ``test``, a stratified fifth of train becomes test, drawn by ``split_seed``.

    Args:
        train: file of the train rows.
        test: file of the test rows.
        val: file of the validation rows; without it, the protocol takes some from train.
        text_column: name of the column that holds the text; `TITLE+BODY` joins two, a line each.
        label_column: name of the column that holds the label, a name or a number; in JSONL also a list of them, empty
            where a text has none. `TOXIC+THREAT` joins columns of 0 and 1, each a label.
        label_names: the classes, where train rows have no label (yet): an empty cell, or no such column at all. The
            test rows need labels; without a test file there is no test split then.
        aug_column: name of the column that holds an augmented text, empty where there is none.
        split_seed: seed of the test split where there is no test file.
        empty_label: what a train row with an empty label is: an error, or a text without a label.
        markup: whether tags and entities stay in the texts, or `strip`: they are taken out, of new texts too.
        encoding: of all files; by default what a byte order mark says, else UTF-8, or cp1252 where that does not fit.
        name, max_length, options: see `TextDataset`.
    """

    licence = "the user's own files"
    differences = "no paper to compare with"
    version = 3
    test_fraction = 0.2

    def __init__(
        self,
        train: str,
        test: str | None = None,
        val: str | None = None,
        text_column: str = "text",
        label_column: str = "label",
        aug_column: str | None = None,
        label_names: list[str | int] | None = None,
        split_seed: Annotated[int, ">= 0"] = 0,
        empty_label: EmptyLabel = "refuse",
        markup: Markup = "keep",
        encoding: str | None = None,
        name: Name = "user",
        max_length: Annotated[int, ">= 1"] = 128,
        **options: Any,
    ) -> None:
        super().__init__(name, max_length, **options)
        paths = {"train": train, "val": val, "test": test}
        self.paths = {split: expanded(path) for split, path in paths.items() if path is not None}
        self.columns = {"text": text_column, "label": label_column}
        self.learned_columns = {"text": text_column, "label": label_column}
        if aug_column:
            self.columns["aug"] = aug_column
        if label_names is not None:
            self.label_names = _checked_names(label_names)
        self.split_seed = split_seed
        self.has_flags = False  # whether columns of 0 and 1 are the labels, which the file that is read says
        self.empty_label, self.markup = empty_label, markup
        self.encoding = checked_encoding(encoding, "dataset.encoding")
        self.origin = ", ".join(map(str, self.paths.values()))

    @property
    def ships_test_rows(self) -> bool:
        return "test" in self.paths

    def own_files(self) -> tuple[Path, ...]:
        return tuple(checked_file(path, f"dataset.{split}") for split, path in self.paths.items())

    def identity(self) -> dict[str, Any]:
        options: dict[str, Any] = {} if self.label_names is None else {"label_names": list(self.label_names)}
        options |= {"encoding": self.encoding} if self.encoding else {}
        options |= {"markup": self.markup} if self.markup != "keep" else {}
        options |= {"empty_label": self.empty_label} if self.empty_label != "refuse" else {}
        return super().identity() | {"columns": self.columns, "splits": list(self.paths)} | options

    def describe_classes(self, label_names: Sequence[str]) -> tuple[str, ...] | None:
        """As `Dataset.describe_classes`; without a file the labels themselves are the names, unless they are codes."""
        if self.class_descriptions is not None:
            return super().describe_classes(label_names)
        return names_of(label_names)

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[Row]]:
        return {split: self._some(path, self._columns(split)) for split, path in self.paths.items()}

    def _columns(self, split: str) -> frozenset[str]:
        """Keys of the columns that the file of a split must have."""
        is_optional = split == "train" and (self.label_names or self.empty_label == "unlabelled")
        optional = {"label"} if is_optional else set()
        return frozenset(self.columns) - optional

    def all_rows(self, files: dict[str, Path]) -> Iterator[Row]:
        """As `Dataset.all_rows`; a column of the default name `label` may be missing, then there are no labels."""
        needed = frozenset(self.columns) - ({"label"} if self.columns["label"] == "label" else set())
        return (row for path in self.paths.values() for row in self._some(path, needed, "at least one row"))

    def _some(
        self, path: Path, needed: frozenset[str], allowed: str = "at least one row for each of at least 2 classes"
    ) -> Iterator[Row]:
        row = None
        for row in self.read(path, needed):
            yield row
        if row is None:
            raise InputError(f"{path}: no rows, allowed: {allowed}")

    def read(self, path: Path, needed: frozenset[str]) -> Iterator[Row]:
        """Rows of one file, whose columns `needed` must be there."""
        table = self.table(path)
        for key in needed:
            table.need_text(self.columns[key], f"dataset.{key}_column")
        self.has_flags = len(text_columns(table.first_names(), self.columns["label"])) > 1
        names = [name for column in self.columns.values() for name in text_columns(table.columns or (), column)]
        table.refuse_uncalculated(names)  # one that may be missing may not be empty by mistake
        always = needed - {"aug"} if table.columns is None else ()
        for where, row in table.rows:
            for key in always:
                table.text(where, row, self.columns[key], f"dataset.{key}_column")
            texts = {key: self.cleaned(text_of(row, self.columns[key])) for key in self.columns if key != "label"}
            yield {**texts, "label": labels_of(row, self.columns["label"], where), "where": where}

    def table(self, path: Path) -> Table:
        """One file, opened."""
        raise NotImplementedError


class Csv(UserFiles):
    """CSV with a header line, or what a file's name says: TSV, XLSX, Parquet, JSON Lines.

    Args:
        delimiter: one character, or `tab`; by default a tab for ``.tsv``, a comma otherwise, or what the header has in
            its place or beside it and splits the first rows alike. `bare_tab`: a tab, and quotes are part of the texts.
        label_separator: what stands between the labels of a text, where texts have any number of them; an empty field
            is no label, or in train rows with `label_names` none yet. null: one label a text.
        header: whether the first row of each file names the columns; if not, they are `column_1`, `column_2`, ….
        sheet: of each file that is XLSX; by default the first that holds rows.
        options: see `UserFiles`.
    """

    def __init__(
        self,
        train: str,
        delimiter: str | None = None,
        label_separator: str | None = None,
        header: bool = True,
        sheet: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(train, **options)
        if label_separator == "":
            raise InputError("dataset.label_separator: found '', allowed: one or more characters, or null")
        for name in self.label_names or ():
            if label_separator and label_separator in name:
                problem = f"dataset.label_names: found {name!r} beside dataset.label_separator={label_separator}"
                raise InputError(f"{problem}, allowed: names without it")
        self.label_separator = label_separator
        self.several_labels = True if label_separator else None
        self.delimiter, self.header = checked_delimiter(delimiter, "dataset.delimiter"), header
        self.learned_header = header
        self.sheet = self.learned_sheet = sheet

    def identity(self) -> dict[str, Any]:
        identity = super().identity() | {"delimiters": [self._delimiter(path) for path in self.paths.values()]}
        identity |= {} if self.header else {"header": False}
        identity |= {} if self.sheet is None else {"sheet": self.sheet}
        return identity | ({"label_separator": self.label_separator} if self.label_separator else {})

    def _delimiter(self, path: Path) -> str:
        return self.delimiter or ("\t" if ".tsv" in path.suffixes else ",")

    def table(self, path: Path) -> Table:
        kind = format_of(path) or "csv"
        table = open_table(path, kind, self.delimiter, None, self.encoding, self.header, sheet=self.sheet)
        kinds = {format_of(file) or "csv" for file in (*self.paths.values(), self.unlabelled or path)}
        delimiter = None if kinds & {"csv", "tsv"} else self.delimiter  # otherwise it is that of another file
        table.refuse_idle(delimiter, None if "xlsx" in kinds else self.sheet, "dataset.")
        return table

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[Row]]:
        rows = super().rows(files)
        return rows | {"train": self._as_train(rows["train"])}

    def all_rows(self, files: dict[str, Path]) -> Iterator[Row]:
        return self._as_train(super().all_rows(files))

    def _as_train(self, rows: Iterator[Row]) -> Iterator[Row]:
        if self.empty_label == "unlabelled" or self.label_names is not None:  # otherwise it says that no label applies
            return (row | {"label": None} if self._is_blank(row["label"]) else row for row in rows)
        return rows

    def _is_blank(self, label: Any) -> bool:
        return label == "" or (label == [] and not self.has_flags)  # of columns of 0 and 1 it is known

    def read(self, path: Path, needed: frozenset[str]) -> Iterator[Row]:
        for row in super().read(path, needed):
            if self.label_separator is not None:
                row["label"] = split_labels(row["label"], self.label_separator)
            yield row


class Jsonl(UserFiles):
    """One JSON object a line, or an array of them; labels may be strings or numbers, or lists of them where texts have
    several.
    """

    def table(self, path: Path) -> Table:
        return open_table(path, "json", encoding=self.encoding)


def _checked_names(names: Sequence[str | int]) -> tuple[str, ...]:
    stripped = [label_text(name) for name in names]
    if len(stripped) < 2 or len(set(stripped)) != len(stripped) or "" in stripped:
        raise InputError(f"dataset.label_names: found {stripped}, allowed: at least 2 different names")
    return tuple(stripped)
