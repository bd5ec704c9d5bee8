"""The label column of a table as an array: one class a text, or any number of them."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def has_several_labels(table: pa.Table) -> bool:
    """Whether the texts of a table have any number of labels each, none included."""
    return pa.types.is_list(table.schema.field("label").type)


def label_array(table: pa.Table, num_classes: int) -> np.ndarray:
    """Labels of the rows of a table.

    Returns:
        ``(N,)`` class indices, -1 without a label; where texts have several labels ``(N, C)`` uint8, 1 at each label.
        That the array has two dimensions says so from here on.
    """
    column = table["label"]
    if not has_several_labels(table):
        return column.to_numpy()
    labels = np.zeros((len(column), num_classes), np.uint8)
    labels[np.repeat(np.arange(len(column)), pc.list_value_length(column)), pc.list_flatten(column)] = 1
    return labels


def class_counts(labels: np.ndarray, num_classes: int) -> np.ndarray:
    """Rows a class ``(C,)``, given what `label_array` returns."""
    if labels.ndim == 2:
        return labels.sum(axis=0, dtype=np.int64)
    return np.bincount(labels[labels >= 0], minlength=num_classes)
