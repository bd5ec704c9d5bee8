"""The label column of a table as an array: one class a text, or any number of them."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage.tables import trim

TYPED = {r"\n": "\n", r"\t": "\t"}  # separators that a shell does not hand on


def meant_separator(separator: str) -> str:
    """What a separator that was typed stands for."""
    return TYPED.get(separator, separator)


def split_labels(field: Any, separator: str) -> Any:
    r"""The labels in a field of CSV, none where it is empty; blank ones, as after a separator at the end, are left out.
    A space as separator stands for white space of any kind; `\n` and `\t` are typed for a line end and a tab.

    What is no text stays as it is, and so do the blanks of a field that holds nothing else, which are no labels.
    """
    if not isinstance(field, str):
        return field
    if separator == " ":
        return field.split()
    parts = field.split(meant_separator(separator)) if trim(field) else []
    return [part for part in parts if trim(part)] or parts


def has_several_labels(table: pa.Table) -> bool:
    """Whether the texts of a table have any number of labels each, none included."""
    return pa.types.is_list(table.schema.field("label").type)


def without_label(table: pa.Table) -> np.ndarray:
    """Which rows of a table have no label ``(N,)``; where texts have several, a list of none is a label."""
    column = table["label"]
    return pc.is_null(column).to_numpy() if has_several_labels(table) else column.to_numpy() < 0


def label_array(table: pa.Table, num_classes: int) -> np.ndarray:
    """Labels of the rows of a table.

    Returns:
        ``(N,)`` class indices, -1 without a label; where texts have several labels ``(N, C)`` uint8, 1 at each label
        (`without_label` tells those of which none is known from those that have none).
        That the array has two dimensions says so from here on.
    """
    column = table["label"]
    if not has_several_labels(table):
        return column.to_numpy()
    labels = np.zeros((len(column), num_classes), np.uint8)
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    labels[np.repeat(np.arange(len(column)), lengths), pc.list_flatten(column)] = 1
    return labels


def class_counts(labels: np.ndarray, num_classes: int) -> np.ndarray:
    """Rows a class ``(C,)``, given what `label_array` returns."""
    if labels.ndim == 2:
        return labels.sum(axis=0, dtype=np.int64)
    return np.bincount(labels[labels >= 0], minlength=num_classes)
