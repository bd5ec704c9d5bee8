"""Add labelled texts to the datastore of a finished run: nothing is trained, nothing built again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig

from datamodules.labels import split_labels
from engine.finished import load_module, open_run
from engine.plan import Plan
from engine.retrieval import open_datastore
from storage.errors import short, short_list
from storage.tables import Row, is_blank, is_missing, label_name, label_text, text_of
from tasks.auto.reading.guesses import LISTS, LOOKED_AT, guess_separator, list_in
from tasks.predict import Encoded, pieces, read_as_learned


def datastore(config: DictConfig, overrides: list[str]) -> Path:
    """Add the rows of the file `add`, or without one say what the datastore holds; returns its folder.

    All rows of the file come in at once, or none where the process is stopped; the same file again adds nothing.

    Raises:
        ValueError: a run without a datastore, or one that is damaged or of another model; a row without a text, or
            with a label that the model does not know; the line names file and line.
    """
    run, plan = open_run(config)
    store = open_datastore(run, plan)
    if config.add is not None:
        if plan.plain["trainer"]["num_threads"]:
            torch.set_num_threads(plan.plain["trainer"]["num_threads"])
        module, label_names = load_module(run, plan)
        encoded, known = Encoded(module, plan), {label_text(name): number for number, name in enumerate(label_names)}
        config, table = read_as_learned(config, plan, "add", overrides, ("text", "label"))
        rows, reading = with_reader_of_labels(table.rows, config, plan, module.multilabel)
        texts, labels, vectors = [], [], []
        for piece in pieces(rows):
            labels += [_labels(where, row, config.label_column, known, reading) for where, row in piece]
            texts += [text_of(row, config.text_column) for _, row in piece]
            vectors.append(encoded(texts[-len(piece) :])[1])
        print(f"{store.add(np.concatenate(vectors), labels, texts)} of {len(texts)} rows are new")
    header = store.header
    print(f"{len(store)} rows of {header['dimension']} dimensions, {len(header['label_names'])} labels")
    return store.folder


def with_reader_of_labels(
    rows: Iterable[tuple[str, Row]], config: DictConfig, plan: Plan, several: bool
) -> tuple[Iterable[tuple[str, Row]], Callable[[Any], list[Any]]]:
    """The rows, and what gives the labels in a field of them.

    Several are separated as `label_separator` says, or as in the data set of the run; where neither says it, it is
    guessed as `task=auto` does.
    """
    if not several:
        if config.label_separator is not None:
            problem = f"label_separator: found {short(config.label_separator)}"
            raise ValueError(f"{problem}, and a text has one label in this run; allowed: null")
        return rows, _one_name
    separator = config.label_separator or getattr(plan.dataset, "label_separator", None)
    rows = iter(rows)
    first = list(islice(rows, LOOKED_AT))
    cells, rows = [row.get(config.label_column) for _, row in first], chain(first, rows)
    has_lists = any(isinstance(cell, list) for cell in cells)
    if separator is None:
        separator = guess_separator(cells)
        learned = plan.dataset.learned_separator
        filled = [cell for cell in cells if not is_blank(cell)]
        are_lists = bool(filled) and None not in map(list_in, filled)
        if separator is None and (learned != LISTS or are_lists):  # of few cells it cannot be told
            separator = learned
        if separator is None and not has_lists:
            return rows, _one_or_none  # no text of the file has two
    return rows, partial(_names, separator=None if separator == LISTS else separator, takes_plain=has_lists)


def labels_in(where: str, row: Row, column: str, reading: Callable[[Any], list[Any]]) -> list[str]:
    """Names of the labels of a row. Raises ValueError: no such column, or no labels in it."""
    if column not in row:
        raise ValueError(f"{where}: no column {short(column)}; found {short_list(row)}; set label_column=NAME")
    try:
        names = reading(row[column])
    except ValueError as error:
        raise ValueError(f"{where}: found {short(row[column])}; allowed: {error}") from error
    return [label_name(name, where) for name in names]


def _labels(where: str, row: Row, column: str, known: dict[str, int], reading: Callable[[Any], list[Any]]) -> list[int]:
    """Class indices of a row."""
    names = labels_in(where, row, column, reading)
    for name in names:
        if name not in known:
            some = ", ".join(sorted(known)[:20]) + (", …" if len(known) > 20 else "")
            raise ValueError(f"{where}: label {short(name)} is not one of the model's; allowed: {some}")
    return sorted({known[name] for name in names})


def _one_name(field: Any) -> list[Any]:
    if isinstance(field, list):
        raise ValueError("one label, for texts have one")
    return [field]


def _one_or_none(field: Any) -> list[Any]:
    return [] if is_blank(field) else _one_name(field)


def _names(field: Any, separator: str | None, takes_plain: bool) -> list[Any]:
    """Labels in a field: a list in JSON Lines, beside which a plain label may be a text's only one; in CSV with the
    data set's separator, or without one a list as text."""
    if isinstance(field, str) and separator is not None:
        return split_labels(field, separator)
    if (names := list_in(field)) is None and takes_plain and not is_missing(field):
        return [field]
    if names is None:
        raise ValueError('a list of labels, as ["a", "b"]')
    return list(names)
