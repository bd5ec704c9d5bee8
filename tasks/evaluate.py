"""Evaluate a finished run again: on its own data from its checkpoint, or on a file of labelled rows."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from omegaconf import DictConfig

from datamodules.corpus import Corpus
from engine.environment import ENVIRONMENT
from engine.finished import is_of_auto, load_weights, open_run, shown_id
from engine.plan import Plan
from engine.results import show_figures
from reporting.calibration import answers, brier_score, expected_calibration_error
from reporting.intervals import bootstrap_intervals, majority_metrics, multilabel_intervals
from reporting.metrics import ClassScores, class_scores, classification_metrics, confusion_matrix
from reporting.multilabel_metrics import label_scores, multilabel_metrics
from reporting.tables import LABEL_COLUMNS, worst_confusions, worst_labels
from storage.errors import ReportError, short, short_list
from storage.run_store import RunFolder
from storage.tables import Row, is_blank, is_missing, label_text
from tasks.datastore import labels_in, with_reader_of_labels
from tasks.fit import measure, run_names
from tasks.predict import Predictor, classifier_predictor, pieces, read_as_learned

FILE = "evaluation-input.json"  # in the run's folder, of the last file


def evaluate(config: DictConfig, overrides: list[str]) -> Path:
    """Read the data and the selected weights again and print the figures; `evaluation.json` holds them.

    With retrieval the datastore counts as it is now, with what was added to it since, and the vote that answers.

    With `input` the rows of that file, read as `task=predict` reads them, stand for the test rows; its figures, their
    intervals, those of each class and the confusions are in `evaluation-input.json`. Rows with a label that the run
    does not know, without one or without a text are said and left out. Where a run learned from cells with several
    labels, by its `dataset.label_separator`, an empty one says that none applies.

    Raises:
        ValueError: no row with a label that the run knows, a column that is not there; with file and line. Without
            `input`, rows that are no longer those of the run, and a model of `task=auto`, which has no test rows.
    """
    run, plan = open_run(config)
    if config.input is not None:
        return _evaluate_file(config, run, plan, overrides)
    if is_of_auto(run):  # it was fitted to every row of its data
        elsewhere = "ranking.csv and out_of_fold.csv there are of rows that were not seen"
        raise ValueError(
            f"run={shown_id(run)}: a model of task=auto, fitted to all rows ({elsewhere}); allowed: input=FILE"
        )
    corpus = plan.corpus()
    _check_rows(run, plan, corpus)
    datamodule = plan.datamodule(corpus)
    module = plan.module(datamodule)
    load_weights(module, run, plan)
    figures = run_names(plan) | measure(plan, run, module, datamodule, keep_store=True)
    run.write_json("evaluation.json", figures)
    show_figures(figures, "test" if "test/accuracy" in figures else "val")
    return run.path


def _check_rows(run: RunFolder, plan: Plan, corpus: Corpus) -> None:
    """Raises ValueError: the data are no longer what the run learned from, as far as it kept what they were."""
    kept = run.read_json(ENVIRONMENT) if run.has(ENVIRONMENT) else {}
    if kept.get("corpus_fingerprint") in (None, corpus.fingerprint):
        return
    digests = kept.get("inputs") or {}
    changed = [path for path, digest in plan.inputs().items() if digests.get(path) != digest]
    what = ", ".join(changed) or f"dataset={plan.dataset.name}"
    before = "the file as it was" if changed else "the rows as they were"
    raise ValueError(f"{what}: found other rows than {run.id} learned from; allowed: {before}, or input=FILE")


def _evaluate_file(config: DictConfig, run: RunFolder, plan: Plan, overrides: Sequence[str]) -> Path:
    if plan.plain["trainer"]["num_threads"]:
        torch.set_num_threads(plan.plain["trainer"]["num_threads"])
    predictor = classifier_predictor(run, plan, explain=False)
    names, class_counts = predictor.label_names, run.metric("class_counts", list, int)
    labels, scores, reader = _scored_rows(config, plan, predictor, overrides)
    if predictor.threshold is None:
        true, best = labels.argmax(axis=1), scores.argmax(axis=1)
        figures: dict[str, Any] = classification_metrics(
            true, best, len(names), class_counts, plan.dataset.shot_bounds
        )
        figures |= bootstrap_intervals(true, best, len(names), np.random.default_rng(0))
        figures |= majority_metrics(true, class_counts)
        probabilities = scores.astype(np.float64)
        figures["ece"] = expected_calibration_error(*answers(true, probabilities))
        figures["brier"] = brier_score(true, probabilities)
        per_class = class_scores(true, best, len(names))
        more = {"confusion": confusion_matrix(true, best, len(names))}
        table = worst_confusions(true, best, names, class_counts)
    else:
        figures = multilabel_metrics(labels, scores, predictor.threshold)
        figures["accuracy"] = figures["subset_accuracy"]
        figures |= multilabel_intervals(labels, scores > np.asarray(predictor.threshold), np.random.default_rng(0))
        per_class, more = label_scores(labels, scores, predictor.threshold), {}
        table = worst_labels(_rows(names, class_counts, per_class))
    absent = (per_class.references == 0) & (per_class.predictions > 0)
    if absent.any():
        strange = short_list(np.array(names)[absent].tolist())
        _warn(f"{config.input}: no row is of {strange}; some are predicted so, which macro-F1 counts as 0")
    figures = run_names(plan) | {f"test/{name}": value for name, value in figures.items()}
    about = {"input": str(config.input), "rows": len(labels), "rows_of_unknown_labels": dict(reader.unknown)}
    about["rows_left_out_for_labels"] = reader.num_unknown
    print(f"{len(labels):,} rows of {config.input} as test rows")
    show_figures(figures, "test")
    print()
    table.show()
    try:
        run.write_json(FILE, about | figures | {"classes": _rows(names, class_counts, per_class)} | more)
    except ReportError as error:  # of a run that may not be written to, the figures are shown at least
        _warn(f"{FILE} is not kept: {error}")
    return run.path


def _scored_rows(
    config: DictConfig, plan: Plan, predictor: Predictor, overrides: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.floating], _LabelledRows]:
    """Labels (N, C) of 0 and 1 and scores (N, C) of the rows, and what counted those that are left out."""
    names, several = predictor.label_names, predictor.threshold is not None
    config, table = read_as_learned(config, plan, "input", overrides, ("text", "label"), blank_allowed=True)
    table.need(config.label_column, "set label_column=NAME")
    rows, reading = with_reader_of_labels(table.rows, config, plan, several)
    reader = _LabelledRows(plan, config, names, reading, several, has_key=table.columns is not None)
    labels, scores = [], []
    for piece in pieces(rows):
        counted = [row for row in itertools.starmap(reader.read, piece) if row is not None]
        labels += [marks for _, marks in counted]
        if counted:
            scores.append(predictor.scores([text for text, _ in counted])[0])
    reader.say_what_is_left_out()
    if not labels:
        raise ValueError(f"{config.input}: found no label of the run; allowed: {short_list(names)}")
    return np.array(labels, dtype=np.int64), np.concatenate(scores), reader


class _LabelledRows:
    """Reads the texts and labels of rows, and counts the rows that are left out.

    Attributes:
        unknown: rows of each label that the run does not know.
        num_unknown: rows with any of these.
    """

    def __init__(
        self,
        plan: Plan,
        config: DictConfig,
        names: Sequence[str],
        reading: Callable[[Any], list[Any]],
        several: bool,
        has_key: bool,
    ) -> None:
        self.dataset, self.config, self.reading, self.has_key = plan.dataset, config, reading, has_key
        self.own_labels = list(map(label_text, names))  # those of an older run may be `True`
        self.none_applies = several and getattr(plan.dataset, "label_separator", None) is not None  # in an empty cell
        self.without: dict[str, list[str]] = {"text": [], "label": []}
        self.unknown: Counter[str] = Counter()
        self.num_unknown, self.first_unknown = 0, ""

    def read(self, where: str, row: Row) -> tuple[Any, NDArray[np.bool_]] | None:
        """The text of a row and its labels (C,); None where it is left out."""
        column = self.config.label_column
        if is_blank(text := self.dataset.input_of(row, self.config.text_column)):
            self.without["text"].append(where)
            return None
        label, self.has_key = row.get(column), self.has_key or column in row  # objects may lack the key
        if label is None or (is_missing(label) and not self.none_applies):
            self.without["label"].append(where)
            return None
        labels = labels_in(where, row, column, self.reading)
        if strange := set(labels) - set(self.own_labels):
            self.unknown.update(strange)
            self.num_unknown += 1
            self.first_unknown = self.first_unknown or where
            return None
        return text, np.isin(self.own_labels, labels)

    def say_what_is_left_out(self) -> None:
        """Raises ValueError: no row has the key of the labels."""
        if not self.has_key:
            column = short(self.config.label_column)
            raise ValueError(f"{self.config.input}: no row has a key {column}; set label_column=NAME")
        for what, rows in self.without.items():
            if rows:
                _warn(f"{rows[0]}: {len(rows):,} rows without a {what} are left out")
        if self.unknown:
            shown = ", ".join(f"{short(name)} ({number:,} rows)" for name, number in self.unknown.most_common(10))
            _warn(f"{self.first_unknown}: the run does not know every label; left out of all figures: {shown}")


def _warn(line: str) -> None:
    print(f"warning: {line}", file=sys.stderr)


def _rows(names: Sequence[str], class_counts: Sequence[int], scores: ClassScores) -> list[dict[str, Any]]:
    """Counts and figures of each class, as `labels.csv` calls them."""
    columns = (names, class_counts, scores.references, scores.predictions, scores.precision, scores.recall, scores.f1)
    return [dict(zip(LABEL_COLUMNS, values, strict=False)) for values in zip(*columns, strict=True)]
