"""`task=auto` from Python: a table in, the ranking and the model out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from omegaconf import OmegaConf

from engine.validation import validate_top
from kontrast.estimators import LISTS, OPENING, TextClassifier, answering, labels_by_name, load
from kontrast.runs import HALF, config_of, overrides, unseeded, written
from storage.errors import InputError, short, short_list
from storage.run_store import RunFolder
from storage.tables import JOIN, date_text, flagged, is_missing, label_name, text_columns, text_of

SHOWN = ["rank", "title", "macro_f1", "macro_f1_lower", "macro_f1_upper", "accuracy", "micro_f1", "within_noise",
         "recommended", "train_seconds"]  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """What `kontrast.auto` came to.

    Attributes:
        folder: with `index.html`, the tables and `model/`.
        opening: the settings that its model is loaded with, as `kontrast.load` takes them.
        labels: of a table, by name, in which its model answers where texts have one each.
    """

    folder: Path
    opening: dict[str, Any] = field(default_factory=dict, repr=False)
    labels: dict[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """What `metrics.json` says."""
        return RunFolder(self.folder).read_metrics()

    @cached_property
    def ranking(self) -> pd.DataFrame:
        """A row a candidate, best first, in the columns of `ranking.csv`."""
        return pd.read_csv(self.folder / "ranking.csv")

    @property
    def recommended(self) -> str | None:
        """The candidate to take; None where none finished."""
        return self.metrics.get("recommended")

    @cached_property
    def model(self) -> TextClassifier:
        """The recommended candidate, fitted to all rows."""
        model = load(self.folder / "model", **self.opening)
        assert isinstance(model, TextClassifier)
        return answering(model, self.labels) if self.labels else model

    def __str__(self) -> str:
        return str(self.metrics.get("sentence", ""))

    def _repr_html_(self) -> str:
        from markupsafe import escape

        shown = [name for name in SHOWN if name in self.ranking]
        table = self.ranking[shown].to_html(index=False, float_format="{:.3f}".format, na_rep="", border=0)
        return f"<p>{escape(str(self))}</p>{table}<p>{escape(str(self.folder / 'index.html'))}</p>"


def _text(value: Any) -> str:
    """A text as a cell of the table that is read, a missing one as an empty cell. Raises InputError: it is no text."""
    if isinstance(value, str):
        if HALF.search(value):
            raise InputError("found half a surrogate pair, allowed: Unicode text")
        return str(value)
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return ""
    raise InputError(f"found {short(value)}, allowed: texts, or nothing")


def _label(value: Any) -> str:
    """A label as a cell of the table that is read: several as a JSON list, none that is known as an empty one.

    Raises:
        InputError: it is no Unicode text, number, date or the like, or a list that holds something else.
    """
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)  # the same table in every process
    if isinstance(value, LISTS):
        if missing := [part for part in value if pd.api.types.is_scalar(part) and pd.isna(part)]:
            raise InputError(f"found {missing[0]} in a list of labels, allowed: labels")
        cell = json.dumps([str(_plain(part)) for part in value], ensure_ascii=False)
    else:
        cell = _label_cell(value)
    if HALF.search(cell):
        raise InputError("found half a surrogate pair, allowed: Unicode text")
    return cell


def _cells(values: Iterable[Any], column: Any, cell_of: Callable[[Any], str]) -> list[str]:
    """The values of a column as cells. Raises what `cell_of` does, with the row and the column."""
    cells = []
    for place, value in enumerate(values):
        try:
            cells.append(cell_of(value))
        except InputError as error:
            raise InputError(f"data.iloc[{place}], column {short(column)}: {error}") from error
    return cells


def _label_cells(labels: Iterable[Any], column: Any) -> list[str]:
    """Labels as cells; where any is a list, all are, so that beside one a plain label is a text's only one."""
    labels = list(labels)
    if not any(isinstance(label, LISTS) for label in labels):
        return _cells(labels, column, _label)
    return _cells(labels, column, lambda label: _label(label if isinstance(label, LISTS) else _alone(label)))


def _alone(label: Any) -> list[str] | None:
    from tasks.auto.reading.guesses import json_list

    cell = _label_cell(label)
    return None if is_missing(cell) else json_list(cell) or [cell]


def _joined(data: pd.DataFrame, names: Sequence[Any]) -> list[list[str] | None]:
    """The labels of each row by columns of 0 and 1; None where all are missing. Raises InputError: other values."""
    columns = [data[name].astype(object) for name in names]
    rows = zip(*(column.where(column.notna(), None) for column in columns), strict=True)
    return [
        flagged(dict(zip(map(str, names), row, strict=True)), f"data.iloc[{place}]") for place, row in enumerate(rows)
    ]


def _plain(value: Any) -> Any:
    """A label itself. Raises InputError: it is bytes, a dict or another object."""
    if isinstance(value, bytes) or not (pd.api.types.is_scalar(value) or isinstance(value, Enum)):
        raise InputError(f"found {short(value)}, allowed: a text, a number or a date, a list of them, or nothing")
    return value


def _label_cell(value: Any) -> str:
    value = _plain(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # whole numbers, which pandas keeps as floats where some are missing
    if isinstance(value, date) and not pd.isna(value):
        value = date_text(value)
    return "" if pd.isna(value) else str(value)


def _columns(frame: pd.DataFrame, text: Any, label: Any) -> tuple[Any, list[Any]]:
    """The column of the texts and those of the labels; one that is not named is guessed as of a file, and printed.

    Raises:
        InputError: no such column, or two of the name; nothing looks like texts or labels.
    """
    from tasks.auto.reading.checks import likely_flags, with_flags
    from tasks.auto.reading.guesses import LOOKED_AT, NoLabels, guess_columns

    columns, labels = list(frame.columns), list(label) if isinstance(label, list | tuple) else [label]
    for key, name in (("text", text), *(("label", name) for name in labels)):
        parts = text_columns(_text_names(columns), name) if key == "text" and isinstance(name, str) else [name]
        for part in [key] if name is None else parts:
            if (number := columns.count(part)) > 1 or (number == 0 and name is not None):
                shown = f"{number or 'no'} column{'s' if number else ''} {short(part)}"
                raise InputError(f"data: found {shown}, allowed: {key}=NAME of {short_list(map(str, columns))}")
    if text is not None and label is not None:
        return text, labels
    by_name = {str(name): name for name in columns if columns.count(name) == 1}
    first = frame[list(by_name.values())].head(LOOKED_AT)
    rows = [dict(zip(by_name, map(_cell, row), strict=True)) for row in first.itertuples(index=False, name=None)]
    typed_text = None if text is None else str(text)
    typed_label = None if label is None else JOIN.join(map(str, labels))
    try:
        taken_text, taken_label, guessed, others = guess_columns(list(by_name), rows, typed_text, typed_label, "data")
    except NoLabels as error:
        raise InputError(
            f"data: no column looks like labels; allowed: label=NAME of {short_list(by_name)}, or topics of the texts, "
            "kontrast.TextClusterer().fit(texts)"
        ) from error
    except InputError as error:
        raise InputError(str(error).replace("text_column=NAME", "text=NAME")) from error
    which = " and ".join(guessed)
    print(f"data: text {taken_text!r}, label {taken_label!r}, guessed: {which} (text=, label= say others)")
    for kind, names in others.items():
        if names:
            print(f"data: {kind}s may also stand in {short_list(names)}: {kind}=NAME")
    flags = likely_flags(list(by_name), rows, taken_text, [taken_label, *others["label"]]) if label is None else []
    all_cells = zip(*(frame[by_name[name]] for name in flags), strict=True)
    for _ in with_flags((("data", dict(zip(flags, map(_cell, row), strict=True))) for row in all_cells), flags):
        pass
    if len(flags) > 1:
        typed = [by_name[name] for name in flags]
        print(f"data: columns {short_list(flags)} of 0 and 1 may each be a label; label={typed} learns several a text")
    return by_name.get(taken_text, taken_text), [by_name[taken_label]] if label is None else labels


def _text_names(columns: Iterable[Any]) -> list[str]:
    """Names of columns that are text, which alone others can be joined to."""
    return [name for name in columns if isinstance(name, str)]


def _cell(value: Any) -> Any:
    """A value of a frame as the reader of tables has it."""
    if isinstance(value, LISTS):
        return list(value)
    return None if pd.api.types.is_scalar(value) and pd.isna(value) else value


def _texts(frame: pd.DataFrame, column: Any) -> list[str]:
    """The texts of a column, or of those that it joins."""
    if column in frame.columns:
        return _cells(frame[column], column, _text)
    parts = text_columns(_text_names(frame.columns), column)
    rows = zip(*(_cells(frame[part], part, _text) for part in parts), strict=True)
    return [text_of(dict(zip(parts, row, strict=True)), column) for row in rows]


def auto(
    data: Any,
    text: str | None = None,
    label: str | Sequence[str] | None = None,
    minutes: float = 20,
    **settings: Any,
) -> Answer:
    """Which method for these texts, how good, how sure, and the model; the same as `python run.py task=auto`.

    Args:
        data: a table with texts and labels, of pandas or with `to_pandas` as those of polars, or the path of a file.
        text: column of the texts, `TITLE+BODY` joins two. By default it is guessed, and said.
        label: column of the labels, lists where texts have several; a missing one is a text without a label. By
            default it is guessed, and said. A list of columns of 0 and 1: each is a label.
        minutes: how long it may take, > 0.
        settings: any key that the task takes: `prefer="speed"`, `precision=0.9`, `seed=1`, `paths__runs="elsewhere"`.

    Raises:
        ValueError: data or a setting that cannot be used; one line.
    """
    from tasks.auto import answered

    if isinstance(label, list | tuple) and not label:
        raise InputError("label: found an empty list, allowed: the name of a column, or of those of 0 and 1 a list")
    data = data.to_pandas() if hasattr(data, "to_pandas") else data  # of polars, or an Arrow table
    words = ["task=auto", f"minutes={minutes}", *overrides(settings)]
    labels: dict[str, Any] = {}
    if is_frame := isinstance(data, pd.DataFrame):
        text, names = _columns(data, text, label)
        if str(text) in map(str, names):
            raise InputError(f"label: found {short(text)}, the column of the texts, allowed: another one")
        column = data[names[0]] if len(names) == 1 else _joined(data, names)
        cells = _label_cells(column, JOIN.join(map(str, names)))
        if not any(isinstance(value, LISTS) for value in column):
            pairs = zip(cells, column, strict=True)
            labels = labels_by_name((label_name(cell, "data"), value) for cell, value in pairs if not is_missing(cell))
        texts = _texts(data, text)
        text, label = str(text), JOIN.join(map(str, names))
        if "${" in text + label:  # which a config would resolve
            text, label = "text", "label"
        if not texts:
            raise InputError("data: found no rows, allowed: rows of a text and a label")
        data = written({text: texts, label: cells}, Path(config_of(words).paths.data)).resolve()
    elif not isinstance(data, str | Path):
        raise InputError(f"data: found {type(data).__name__}, allowed: a pandas DataFrame, or the path of a file")
    if isinstance(label, list | tuple):
        label = JOIN.join(map(str, label))
    columns_of_file = {"text_column": text, "label_column": label}
    words += overrides({"input": str(data)} | {key: name for key, name in columns_of_file.items() if name is not None})
    config = config_of(words)
    plain: Any = OmegaConf.to_container(config, resolve=True)
    validate_top(plain)
    with unseeded():
        opening = {name: value for name, value in settings.items() if name.startswith(OPENING)}
        try:
            return Answer(answered(config, words).absolute(), opening, labels)
        except InputError as error:
            if not is_frame:
                raise
            raise InputError(_of_frame(str(error), str(data))) from error


def _of_frame(message: str, file: str) -> str:
    """What is said of the file that a frame was written to, in terms of the frame."""
    message = re.sub(rf"^{re.escape(file)}:(\d+)", lambda line: f"data.iloc[{int(line[1]) - 1}]", message)
    message = re.sub(rf"^{re.escape(file)}", "data", message)
    message = re.sub("topics of the texts[:,].*", "topics of the texts, kontrast.TextClusterer().fit(texts)", message)
    return re.sub(r"\b(text|label)_column=NAME", r"\1=NAME", message)
