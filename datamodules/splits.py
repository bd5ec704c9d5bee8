"""Which rows select the epoch: the protocol and the stratified validation split."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, get_args, get_type_hints

import numpy as np

from datamodules.streams import FOLD_STREAM
from storage.errors import InputError
from storage.tables import folded


@dataclass(frozen=True)
class Protocol:
    """How a run chooses its epoch and what it calls that.

    ``clean``: a validation split chooses; test is read once, at the end. Where the data set ships a validation split,
    that one is used, otherwise a stratified share ``val_fraction`` (0 < f < 1) of train. ``published``: the test rows
    choose, as in some published code; every figure of such a run carries the name. ``few_shot``: the rows that
    ``imbalance`` keeps are all that is labelled, and a random share ``val_fraction`` of them chooses.
    ``fixed``: every label trains, nothing chooses and the last epoch counts; rows without a label stay as such.
    ``kfold``: all rows of all splits in ``folds`` stratified folds, drawn anew for each ``repeat`` and by nothing else;
    fold number ``fold`` is the test split, and a stratified share ``val_fraction`` of the other rows chooses.
    ``fold=null``: no fold is held out, and there is no test split. Where nothing is chosen (``monitor=null``),
    ``val_fraction=0`` lets all the other rows train, and there is no validation split.
    ``transductive``: clustering; what trains is what is evaluated, no label is seen and nothing chooses: the last epoch
    counts.

    Of epochs whose figure is equal the ``earliest`` is chosen, or the ``latest`` (``ties``): accuracy over a handful of
    rows is equal often, and the later epoch has learned more.

    Where fewer than ``loss_below`` rows validate, the lowest loss chooses in place of ``monitor``: each of a few rows
    moves accuracy and F1 by points, and the loss by a little.

    ``read_test``: false leaves the test rows out of the run: no figure and no prediction of them. What a search sets.

    ``val_from``: a split drawn by ``clean`` or ``kfold`` comes from the ``thinned`` train rows, those that the scenario
    grants, or from the ``unthinned``: validation then holds rows of rare classes that ``imbalance`` takes away.
    """

    name: Literal["clean", "published", "few_shot", "fixed", "kfold", "transductive"]
    val_fraction: Annotated[float, ">= 0", "< 1"]
    monitor: str | None
    mode: Literal["min", "max"] = "max"
    ties: Literal["earliest", "latest"] = "earliest"
    folds: Annotated[int, ">= 2", "with name=kfold"] = 5
    fold: Annotated[int, ">= 0", "with name=kfold"] | None = 0
    repeat: Annotated[int, ">= 0", "with name=kfold"] = 0
    val_from: Annotated[Literal["thinned", "unthinned"], "with name=clean|kfold"] = "thinned"
    loss_below: Annotated[int, ">= 0", "with name=clean|kfold"] = 0
    read_test: Annotated[bool, "with name=clean|few_shot|kfold"] = True

    def __post_init__(self) -> None:
        if self.name not in (names := get_args(get_type_hints(type(self))["name"])):
            raise InputError(f"protocol.name: found {self.name!r}, allowed: {', '.join(names)}")
        if self.fold is not None and not 0 <= self.fold < self.folds:
            raise InputError(f"protocol.fold: found {self.fold}, allowed: 0 to {self.folds - 1}, or null")
        if self.name == "kfold" and self.monitor is None and self.val_fraction == 0:
            return
        if self.name in ("clean", "few_shot", "kfold") and not 0 < self.val_fraction < 1:
            also = ", or 0 with protocol.monitor=null" if self.name == "kfold" else ""
            raise InputError(f"protocol.val_fraction: found {self.val_fraction}, allowed: 0 < val_fraction < 1{also}")

    def with_rows(self, number: int) -> "Protocol":
        """What chooses where so many rows validate."""
        chooses_by_loss = self.name in ("clean", "kfold") and self.monitor is not None and number < self.loss_below
        return replace(self, monitor="val/loss", mode="min") if chooses_by_loss else self


def stratified_split(
    labels: np.ndarray,
    val_fraction: float,
    rng: np.random.Generator,
    singleton_classes: Literal["refuse", "keep_in_train"] = "refuse",
    label_names: Sequence[str] | None = None,
    unit: str = "train row",
) -> tuple[np.ndarray, np.ndarray]:
    """Split row positions into train and validation, class by class; rows of several labels by `multilabel_split`.

    A class of n rows gives ``round(val_fraction * n)`` of them to validation, but at least one, so that validation
    macro-F1 sees every class, and keeps at least one. With many small classes validation is therefore a little larger
    than ``val_fraction``. A class of one row cannot do both: it is refused, or stays in train.

    Args:
        labels: ``(N,)`` class indices, or ``(N, C)`` of 0 and 1.
        val_fraction: wanted share of validation rows, 0 < f < 1.
        rng: draws the rows.
        singleton_classes: what to do with classes of one row; rows of several labels always stay in train.
        label_names: names for the error message.
        unit: what a row is there.

    Returns:
        Sorted positions of the train rows and of the validation rows.

    Raises:
        InputError: a class of one row under ``refuse``.
    """
    if labels.ndim == 2:
        return multilabel_split(labels, val_fraction, rng, unit)
    sizes = np.bincount(labels)
    singletons = np.flatnonzero(sizes == 1)
    if len(singletons) and singleton_classes == "refuse":
        first = singletons[0] if label_names is None else repr(label_names[singletons[0]])
        raise InputError(
            f"dataset.singleton_classes: class {first} has one {unit} ({len(singletons)} such classes), too few for a "
            f"stratified validation split; allowed: at least 2 {unit}s per class beside the test rows (without a file "
            "of these one at least of each class), or dataset.singleton_classes=keep_in_train"
        )
    quota = np.clip(np.floor(val_fraction * sizes + 0.5).astype(np.int64), 1, np.maximum(sizes - 1, 0))
    is_val = rank_in_class(labels, rng) < quota[labels]
    return np.flatnonzero(~is_val), np.flatnonzero(is_val)


def multilabel_split(
    labels: np.ndarray, val_fraction: float, rng: np.random.Generator, unit: str = "train row"
) -> tuple[np.ndarray, np.ndarray]:
    """Split rows of several labels so that each label has about its share of them in validation.

    Iterative stratification (Sechidis et al., 2011), which places the rows of the rarest label first. Every label
    keeps a train row: a row that would be its last one goes back to train.

    Args:
        labels: ``(N, C)`` of 0 and 1; rows without a label are allowed.
        val_fraction: wanted share of validation rows, 0 < f < 1.
        rng: draws the rows.
        unit: what a row is in the error message.

    Returns:
        Sorted positions of the train rows and of the validation rows.

    Raises:
        InputError: fewer than three rows, or labels of one row each, which leave none for validation.
    """
    from iterstrat.ml_stratifiers import MultilabelStratifiedShuffleSplit

    if len(labels) < 3:
        raise InputError(f"train split: found {len(labels)} {unit}s, allowed: at least 3, one of which validates")
    splitter = MultilabelStratifiedShuffleSplit(
        n_splits=1,
        test_size=min(max(round(val_fraction * len(labels)), 1), len(labels) - 2),
        random_state=int(rng.integers(2**32)),
    )
    ((_, val),) = splitter.split(np.zeros(len(labels)), labels)
    is_val = np.zeros(len(labels), bool)
    is_val[val] = True
    for label in np.flatnonzero(labels.any(axis=0)):
        if not labels[~is_val, label].any():
            is_val[rng.choice(np.flatnonzero(labels[:, label]))] = False
    if not is_val.any():
        raise InputError(f"train split: every {unit} has a label of its own; allowed: labels of more than one {unit}")
    return np.flatnonzero(~is_val), np.flatnonzero(is_val)


def random_split(size: int, val_fraction: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Split ``size`` row positions at random: sorted positions of train and of validation, one at least in each.

    Raises:
        InputError: fewer than three rows: a batch needs two.
    """
    if size < 3:
        raise InputError(f"protocol=few_shot: found {size} labelled rows, allowed: at least 3, one of which validates")
    order = rng.permutation(size)
    number = min(max(round(val_fraction * size), 1), size - 2)
    return np.sort(order[number:]), np.sort(order[:number])


def fold_numbers(labels: np.ndarray, texts: Sequence[Any], folds: int, repeat: int = 0) -> np.ndarray:
    """The fold of each row, ``(N,)``, 0 to ``folds`` - 1: stratified, and texts together that are equal, case and white
    space aside.

    A text that stands in several folds would be learned by heart in one and asked for in another. Folds depend on
    labels, texts, ``folds`` and ``repeat`` alone, so that all methods are compared on the same ones. Rows of several
    labels are placed by iterative stratification (Sechidis et al., 2011).

    Args:
        labels: ``(N,)`` class indices, or ``(N, C)`` of 0 and 1.
        texts: N texts, or other inputs.
        folds: >= 2, at most N.
        repeat: number of the drawing, >= 0.

    Raises:
        InputError: fewer different texts than folds.
    """
    group, first = _groups(texts)
    if len(first) < folds:
        raise InputError(f"protocol.folds: found {folds} for {len(first)} different texts, allowed: 2 to {len(first)}")
    rng = np.random.default_rng([repeat, folds, FOLD_STREAM])
    if labels.ndim == 2:
        return _multilabel_folds(labels[first], folds, rng)[group]
    ranks = rank_in_class(labels[first], rng)
    order = np.lexsort([ranks, labels[first]])  # class after class, so that folds differ by one row at the most
    fold_of_group = np.empty(len(first), np.int64)
    fold_of_group[order] = np.arange(len(first)) % folds
    return fold_of_group[group]


def split_together(
    labels: np.ndarray,
    texts: Sequence[Any],
    val_fraction: float,
    rng: np.random.Generator,
    singleton_classes: Literal["refuse", "keep_in_train"] = "refuse",
    label_names: Sequence[str] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """`stratified_split` with equal texts on one side, as `fold_numbers` has them."""
    group, first = _groups(texts)
    _, val = stratified_split(labels[first], val_fraction, rng, singleton_classes, label_names, "different text")
    is_val = np.isin(group, val)
    return np.flatnonzero(~is_val), np.flatnonzero(is_val)


def _groups(inputs: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The group of each row (N,), equal texts being one, and the first row of each (G,), as whose class it counts."""
    number: dict[Any, int] = {}
    keys = (folded(row) if isinstance(row, str) else row for row in inputs)
    group = np.array([number.setdefault(key, len(number)) for key in keys])
    return group, np.unique(group, return_index=True)[1]


def _multilabel_folds(labels: np.ndarray, folds: int, rng: np.random.Generator) -> np.ndarray:
    from iterstrat.ml_stratifiers import MultilabelStratifiedKFold

    splitter = MultilabelStratifiedKFold(folds, shuffle=True, random_state=int(rng.integers(2**32)))
    numbers = np.empty(len(labels), np.int64)
    for number, (_, held) in enumerate(splitter.split(np.zeros(len(labels)), labels)):
        numbers[held] = number
    return numbers


def rank_in_class(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Give each row a random rank 0..n-1 among the n rows of its class: ``(N,)``.

    Taking the rows whose rank is below n' draws n' rows of each class without replacement, and the draws for a smaller
    n' are a subset of those for a larger one.
    """
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    sizes = np.bincount(labels)
    starts = np.cumsum(sizes) - sizes
    ranks = np.empty(len(labels), dtype=np.int64)
    ranks[order] = np.arange(len(labels)) - starts[labels[order]]
    return ranks
