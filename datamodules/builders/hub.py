"""Any data set of the Hugging Face hub, or a local folder in its format."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from datamodules.builders.base import EmptyLabel, Name, Row, TextDataset
from datamodules.class_descriptions import names_of
from storage.errors import InputError

NO_LABEL = -1  # of class indices on the hub


class Hub(TextDataset):
    """A data set by name and columns, read with ``datasets.load_dataset``.

    Without ``test_split``, a stratified fifth of train becomes test, drawn by ``split_seed``.

    Args:
        path: name on the hub, or a local folder.
        config_name: which of its configurations.
        revision: branch, tag or commit on the hub; a prepared copy is used again only for the same value.
        train_split: name of its train split.
        test_split: name of its test split.
        val_split: name of its validation split.
        text_column: column of the text.
        label_column: column of the label: a class index with names (-1: none), a string or a number; or a list of
            those, where texts have several labels.
        split_seed: seed of the test split where there is no ``test_split``.
        empty_label: what a train row without a label is: an error, or a text without a label.
        name, max_length, singleton_classes, deduplicate: see `TextDataset`.
    """

    licence = "see its page on the hub"
    differences = "no paper to compare with"
    version = 4
    test_fraction = 0.2

    def __init__(
        self,
        path: str,
        config_name: str | None = None,
        revision: str | None = None,
        train_split: str = "train",
        test_split: str | None = "test",
        val_split: str | None = None,
        text_column: str = "text",
        label_column: str = "label",
        split_seed: Annotated[int, ">= 0"] = 0,
        empty_label: EmptyLabel = "refuse",
        name: Name = "hub",
        max_length: Annotated[int, ">= 1"] = 128,
        **options: Any,
    ) -> None:
        super().__init__(name, max_length, **options)
        self.path, self.config_name, self.revision = path, config_name, revision
        splits = {"train": train_split, "val": val_split, "test": test_split}
        self.split_names = {split: name for split, name in splits.items() if name}
        self.columns = {"text": text_column, "label": label_column}
        self.split_seed, self.empty_label = split_seed, empty_label
        self.origin = path if config_name is None else f"{path} ({config_name})"

    def describe_classes(self, label_names: Sequence[str]) -> tuple[str, ...] | None:
        """As `Dataset.describe_classes`; its name is no name of a data set here, whose classes may be others."""
        return names_of(label_names) if self.class_descriptions is None else super().describe_classes(label_names)

    def identity(self) -> dict[str, Any]:
        source = {"path": self.path, "config": self.config_name, "revision": self.revision}
        source |= {"empty_label": self.empty_label} if self.empty_label != "refuse" else {}
        return super().identity() | source | {"columns": self.columns, "splits": self.split_names}

    @property
    def ships_test_rows(self) -> bool:
        return "test" in self.split_names

    def own_files(self) -> tuple[Path, ...]:
        folder = Path(self.path)
        return tuple(sorted(path for path in folder.rglob("*") if path.is_file())) if folder.is_dir() else ()

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[Row]]:
        return {split: self._read(split, name) for split, name in self.split_names.items()}

    def _read(self, split: str, split_name: str) -> Iterator[Row]:
        table = self._load(split, split_name)
        for key, column in self.columns.items():
            if column not in table.column_names:
                raise InputError(
                    f"dataset.{key}_column={column}: {self.path} has no such column, "
                    f"there are: {', '.join(map(repr, table.column_names))}"
                )
        text, label = self.columns["text"], self.columns["label"]
        feature = table.features[label]
        names = getattr(getattr(feature, "feature", feature), "names", None)  # of a ClassLabel, or a list of them
        batches = table.select_columns([text, label]).iter(batch_size=1000)
        pairs = (pair for batch in batches for pair in zip(batch[text], batch[label], strict=True))
        for number, (content, value) in enumerate(pairs, 1):
            yield {"text": content, "label": _class_of(value, names), "where": f"{self.path} {split_name} row {number}"}

    def _load(self, split: str, split_name: str) -> Any:
        from datasets import load_dataset
        from datasets.exceptions import DatasetNotFoundError

        try:
            return load_dataset(self.path, self.config_name, split=split_name, revision=self.revision)
        except (DatasetNotFoundError, FileNotFoundError) as error:
            raise InputError(
                f"dataset.path={self.path}: no such data set on the hub, in its cache or on disk ({_line(error)})"
            ) from error
        except OSError as error:  # ConnectionError, time-outs, HTTP errors
            raise InputError(
                f"dataset.path={self.path}: the hub is out of reach and the data set is not in its cache "
                f"({_line(error)}); allowed: a network, or a local folder"
            ) from error
        except ValueError as error:
            raise InputError(
                f"dataset.path={self.path} dataset.config_name={self.config_name} "
                f"dataset.{split}_split={split_name}: {_line(error)}"
            ) from error


def _class_of(value: Any, names: list[str] | None) -> Any:
    if isinstance(value, list):
        return [_class_of(item, names) for item in value]
    if names and value == NO_LABEL:
        return None
    return names[value] if names and value is not None and 0 <= value < len(names) else value


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
