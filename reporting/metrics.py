"""Classification metrics from references and predictions, as fractions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

NO_CLASS = -1  # a prediction that is none of the classes, and an error
THIRDS = ("head", "middle", "tail")
MANY_ABOVE, FEW_BELOW = 100, 20  # train rows of a class that has many, and of one that has few


@dataclass(frozen=True)
class ClassScores:
    """Figures per class, each (C,); a class never predicted has precision 0, one that does not occur recall 0."""

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    f1: NDArray[np.float64]
    references: NDArray[np.int64]
    predictions: NDArray[np.int64]


def f1_of_counts(hits: NDArray[Any], both: NDArray[Any]) -> NDArray[Any]:
    """F1 (…, C) of how often each class is rightly predicted, and how often it is a reference or a prediction, summed:
    2 hits / both, and 0 where it is neither."""
    return np.divide(2 * hits, both, out=np.zeros(both.shape, np.result_type(both, np.float16)), where=both > 0)


def mean_of_occurring(f1: NDArray[Any], both: NDArray[Any]) -> NDArray[Any]:
    """Macro-F1 (…): the mean of `f1_of_counts` over the classes that occur; 0 where none does."""
    return f1.sum(axis=-1) / np.maximum((both > 0).sum(axis=-1), 1)


def non_uniformity(class_counts: ArrayLike) -> float:
    """Sum over the C classes of |share - 1/C|: 0 for equal counts, up to 2 (1 - 1/C).

    Source: SCL-HNM (LREC 2026), eq. 4, there times 100.
    """
    shares = np.asarray(class_counts, dtype=np.float64)
    shares = shares / shares.sum()
    return float(np.abs(shares - 1 / len(shares)).sum())


def confusion_matrix(labels: ArrayLike, predictions: ArrayLike, num_classes: int) -> NDArray[np.int64]:
    """Counts (C, C): row the reference class, column the predicted one. A prediction of -1 is no class and not counted.

    Raises:
        ValueError: lengths differ, or a class lies outside [0, num_classes).
    """
    from sklearn.metrics import confusion_matrix as count_pairs

    labels, predictions = _checked(labels, predictions, num_classes)
    if not labels.size:
        return np.zeros((num_classes, num_classes), np.int64)
    return count_pairs(labels, predictions, labels=np.arange(num_classes))


def class_scores(labels: ArrayLike, predictions: ArrayLike, num_classes: int) -> ClassScores:
    """Precision, recall and F1 of each class. Raises ValueError as `confusion_matrix` does."""
    from sklearn.metrics import precision_recall_fscore_support

    labels, predictions = _checked(labels, predictions, num_classes)
    classes = np.arange(num_classes)
    precision, recall, f1, references = precision_recall_fscore_support(
        labels, predictions, labels=classes, zero_division=0.0
    )
    counts = np.bincount(predictions[predictions != NO_CLASS], minlength=num_classes)
    return ClassScores(precision, recall, f1, references, counts)


def _checked(
    labels: ArrayLike, predictions: ArrayLike, num_classes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    labels, predictions = np.asarray(labels, dtype=np.int64), np.asarray(predictions, dtype=np.int64)
    if labels.shape != predictions.shape or labels.ndim != 1:
        raise ValueError(f"labels {labels.shape} and predictions {predictions.shape} must be two equally long rows")
    for name, values in (("labels", labels), ("predictions", predictions[predictions != NO_CLASS])):
        if values.size and (values.min() < 0 or values.max() >= num_classes):
            raise ValueError(f"{name}: found class {values.min()} to {values.max()}, allowed 0 to {num_classes - 1}")
    return labels, predictions


def thirds(class_counts: ArrayLike) -> dict[str, NDArray[np.int64]]:
    """Classes in three groups by train size (C,): ``head`` the largest, ``middle``, ``tail`` the smallest.

    Equally large classes keep their order. Where C is no multiple of 3 the larger groups come first; with C < 3 the
    last ones are empty.
    """
    order = np.argsort(-np.asarray(class_counts, dtype=np.int64), kind="stable")
    return dict(zip(THIRDS, np.array_split(order, 3), strict=True))


def shots(class_counts: ArrayLike, many_above: int = MANY_ABOVE, few_below: int = FEW_BELOW) -> dict[str, NDArray]:
    """Classes ``many``, ``medium`` and ``few``, those that are there: of more than 100, 20 to 100 and fewer train rows.

    Source: Liu et al., Large-Scale Long-Tailed Recognition in an Open World (CVPR 2019), sec. 4.1.
    """
    counts = np.asarray(class_counts, dtype=np.int64)
    is_many, is_few = counts > many_above, counts < few_below
    groups = {"many": is_many, "medium": ~(is_many | is_few), "few": is_few & ~is_many}
    return {name: np.flatnonzero(group) for name, group in groups.items() if group.any()}


def classification_metrics(
    labels: ArrayLike,
    predictions: ArrayLike,
    num_classes: int,
    class_counts: ArrayLike | None = None,
    shot_bounds: tuple[int, int] = (MANY_ABOVE, FEW_BELOW),
) -> dict[str, float]:
    """``accuracy``, ``macro_f1``, ``micro_f1`` and, with train ``class_counts`` (C,), ``macro_f1_{head,middle,tail}``;
    where classes are of more than one of the groups of `shots`, ``accuracy_{many,medium,few}``.

    Macro-F1 is the mean over the classes that occur in references or predictions, as scikit-learn's
    ``f1_score(average="macro")``: a class that occurs and is never predicted counts 0. F1 of a third is the mean over
    its classes that occur in the references; a third without any is left out. With one label per row micro-F1 equals
    accuracy. Accuracy of a group is the mean over its classes that occur, as long-tail papers have it.

    Raises:
        ValueError: no rows, or as `confusion_matrix`.
    """
    if not np.size(labels):
        raise ValueError("metrics need at least one row, found none")
    scores = class_scores(labels, predictions, num_classes)
    occurring = (scores.references + scores.predictions) > 0
    accuracy = float(np.mean(np.asarray(labels) == np.asarray(predictions)))
    metrics = {"accuracy": accuracy, "macro_f1": float(scores.f1[occurring].mean()), "micro_f1": accuracy}
    if class_counts is None:
        return metrics
    for name, classes in thirds(class_counts).items():
        present = classes[scores.references[classes] > 0]
        if present.size:
            metrics[f"macro_f1_{name}"] = float(scores.f1[present].mean())
    groups = shots(class_counts, *shot_bounds)
    for name, classes in groups.items() if len(groups) > 1 else ():
        present = classes[scores.references[classes] > 0]
        if present.size:
            metrics[f"accuracy_{name}"] = float(scores.recall[present].mean())
    return metrics
