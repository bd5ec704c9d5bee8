"""Answers as other programs have them: CSV, JSON Lines, Label Studio's tasks, Argilla's records.

A format is told by its fields: Label Studio's tasks have `data` and `annotations`, Argilla's records `fields` and
`responses`, and exported as `datasets` a column `QUESTION.responses`. Everything else is a table with a column of texts
and one of labels, as `chosen.csv` and `to_label.csv` of a run are.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from labelling.answers import NO_LABEL, Answer, Label, answer_of, from_table, in_table
from storage.errors import InputError, short, short_list
from storage.tables import csv_writer, is_missing, label_name, open_table, text_columns, text_of

DETAILS = ("note", "guess", "probability", "time")  # of an answer, beside text, label and annotator
COLUMNS = ("text", "label", "annotator", *DETAILS)
DRAFT = "draft"  # an answer of Argilla that a person has not submitted
QUESTION = "label"  # what the question is called in what is written, and looked for among several in what is read
RESPONSES = ".responses"  # after the name of a question, a column of Argilla's


@dataclass(frozen=True)
class Said:
    """What a file holds of one person and one text, before it is an answer.

    Attributes:
        question: where other programs may ask several of a text; None: it is of the text itself.
        label: a name or a list of them; None or empty: nothing was answered.
    """

    question: str | None
    text: Any
    label: Any
    annotator: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


def read_answers(
    file: Path,
    text_column: str = "text",
    label_column: str = "label",
    separator: str | None = None,
    reading: Mapping[str, Any] = MappingProxyType({}),
) -> list[Answer]:
    """The answers of a file in any of the formats; rows without a label are left out, and so are objects without its
    key where others have it. Of several questions about a text that one counts which is called as the label column, or
    `label`.

    Args:
        file: CSV, TSV, XLSX, JSON, JSON Lines or Parquet, see `storage.tables.open_table`.
        text_column, label_column: of a plain table; `text` and `label` are looked for too.
        separator: what stands between the classes of a text in a plain table, where texts have several.
        reading: further arguments of `open_table`, for a plain table.

    Raises:
        InputError: no such file, one that is of no format, a row without a text, a label that is no text or number,
            several questions of which none is called so.
    """
    said: list[tuple[str, Said]] = []
    table = open_table(file, **reading)
    columns = table.columns or ()
    texts = text_columns(columns, text_column)
    asked = [*texts, label_column, *(() if set(texts) <= set(columns) else ("text",))]
    table.refuse_uncalculated([*asked, *(() if label_column in columns else (QUESTION,))])
    has_labels, lacking = False, None
    for where, row in table.rows:
        if "annotations" in row and isinstance(row.get("data"), Mapping):
            parts = _as_exported(where, row, _of_label_studio, "tasks of Label Studio")
        elif isinstance(row.get("fields"), Mapping) and "responses" in row:
            parts = _as_exported(where, row, _of_argilla, "records of Argilla 2")
        elif any(key.endswith(RESPONSES) for key in row):
            parts = _as_exported(where, row, _of_argilla_columns, "records of Argilla 2")
        elif table.columns is None and not {label_column, QUESTION} & row.keys():
            lacking, parts = lacking or (where, row), []
        else:
            has_labels = True
            parts = list(_of_table(where, row, text_column, label_column, separator))
        said += [(where, part) for part in parts]
    if lacking is not None and not has_labels:
        raise _lacks_columns(*lacking, text_column, label_column)
    question = _question(file, dict.fromkeys(part.question for _, part in said), label_column)
    of_question = [(where, part) for where, part in said if part.question in (None, question)]
    return [_answer(where, part, separator) for where, part in of_question if part.label not in (None, "")]


def _question(file: Path, names: Iterable[str | None], label_column: str) -> str | None:
    """The question whose answers are the labels; None in a plain table. Raises InputError: it may be any of several."""
    questions = [name for name in names if name is not None]
    for name in (label_column, QUESTION):
        if name in questions:
            return name
    if len(questions) > 1:
        raise InputError(f"{file}: found the questions {short_list(questions)}; allowed: one, or one called {QUESTION}")
    return questions[0] if questions else None


def _as_exported(
    where: str, row: Mapping[str, Any], read: Callable[[str, Mapping[str, Any]], Iterator[Said]], kind: str
) -> list[Said]:
    """What is said in a row of another program. Raises InputError: it has other keys, or other kinds of values."""
    try:
        return list(read(where, row))
    except (AttributeError, LookupError, TypeError) as error:
        raise InputError(f"{where}: found {short(row)}; allowed: {kind} as they are exported") from error


def _of_table(
    where: str, row: Mapping[str, Any], text_column: str, label_column: str, separator: str | None
) -> Iterator[Said]:
    own_text = text_column if _has_text(row, text_column) else "text"
    own_label = label_column if label_column in row else QUESTION
    if not _has_text(row, own_text) or own_label not in row:
        raise _lacks_columns(where, row, text_column, label_column)
    text, label = text_of(row, own_text), row[own_label]
    if is_missing(label) or (label == [] and separator is None):
        return
    if isinstance(label, str) and separator is not None:
        label = from_table(label, separator)
    person = str(row["annotator"]) if row.get("annotator") else ""
    ours = set(COLUMNS) <= row.keys()  # elsewhere a column `time` may hold anything
    yield Said(None, text, label, person, _details(where, row, separator) if ours else {"note": row.get("note")})


def _lacks_columns(where: str, row: Mapping[str, Any], text_column: str, label_column: str) -> InputError:
    return InputError(f"{where}: found the columns {', '.join(row)}; allowed: {text_column} and {label_column}")


def _details(where: str, row: Mapping[str, Any], separator: str | None) -> dict[str, Any]:
    """The cells of `DETAILS`, numbers and the classes of the guess as such."""
    details = {name: row[name] for name in DETAILS}
    if separator is not None and details["guess"] and isinstance(details["guess"], str):
        details["guess"] = from_table(details["guess"], separator)
    for name in ("probability", "time"):
        try:
            details[name] = None if details[name] in (None, "") else float(details[name])
        except (TypeError, ValueError) as error:
            raise InputError(f"{where}: {name}: found {short(details[name])}; allowed: a number") from error
    return details


def _has_text(row: Mapping[str, Any], column: str) -> bool:
    return any(part in row for part in text_columns(row, column))


def _of_label_studio(where: str, task: Mapping[str, Any]) -> Iterator[Said]:
    text = _text_among(where, task["data"])
    for annotation in _list(where, "annotations", task["annotations"]):
        is_skipped = annotation.get("was_cancelled")  # it may keep what was chosen before
        results = [part for part in annotation.get("result") or [] if part.get("type") == "choices" and not is_skipped]
        meta = annotation.get("meta") or {}
        annotator = meta.get("annotator") or _person(annotation.get("completed_by"))
        first = {part.get("from_name"): part for part in reversed(results)}
        for question, result in first.items():
            yield Said(question, text, result["value"]["choices"], annotator, meta)
        if is_skipped:
            yield Said(None, text, meta.get("answer") or "skip", annotator, meta)


def _person(completed_by: Any) -> str:
    if isinstance(completed_by, Mapping):
        completed_by = completed_by.get("email") or completed_by.get("id")
    return "" if completed_by is None else str(completed_by)


def _of_argilla(where: str, record: Mapping[str, Any]) -> Iterator[Said]:
    text = _text_among(where, record["fields"])
    for question, responses in (record["responses"] or {}).items():
        for response in _list(where, "responses", responses):
            if response.get("status") == DRAFT:
                continue
            label = "skip" if response.get("status") == "discarded" else response.get("value")
            yield Said(question, text, label, str(response.get("user_id") or ""))


def _of_argilla_columns(where: str, row: Mapping[str, Any]) -> Iterator[Said]:
    fields = {key: value for key, value in row.items() if "." not in key and key not in ("id", "status", "_server_id")}
    text = _text_among(where, fields)
    for key in (key for key in row if key.endswith(RESPONSES)):
        yield Said(key.removesuffix(RESPONSES), text, None)  # a question, though nobody may have answered it
        yield from _of_columns(where, row, key, text)


def _of_columns(where: str, row: Mapping[str, Any], name: str, text: str) -> Iterator[Said]:
    labels = _list(where, name, row[name] or [])

    def column(kind: str, missing: Any = None) -> list[Any]:
        return _list(where, f"{name}.{kind}", row.get(f"{name}.{kind}") or [missing] * len(labels))

    details = zip(*(column(detail) for detail in DETAILS), strict=False)
    responses = zip(labels, column("users"), column("status"), column("no_label", "skip"), details, strict=False)
    for label, user, state, no_label, said in responses:
        if state == DRAFT:
            continue
        shown = (no_label or "skip") if state == "discarded" else label
        question = name.removesuffix(RESPONSES)
        yield Said(question, text, shown, str(user or ""), dict(zip(DETAILS, said, strict=True)))


def _text_among(where: str, fields: Mapping[str, Any]) -> str:
    """The field `text`, or the only one that holds a text."""
    texts = [value for value in fields.values() if isinstance(value, str)]
    if isinstance(fields.get("text"), str):
        return fields["text"]
    if len(texts) != 1:
        raise InputError(f"{where}: found {len(texts)} texts in {', '.join(fields)}; allowed: a field called text")
    return texts[0]


def _list(where: str, name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{where}: {name}: found {short(value)}; allowed: a list")
    return value


def _answer(where: str, said: Said, separator: str | None) -> Answer:
    text, label = said.text, said.label
    several = isinstance(label, list | tuple) and len(label) != 1
    names = [label_name(name, where) for name in (label if isinstance(label, list | tuple) else [label])]
    if not isinstance(text, str):
        raise InputError(f"{where}: found {short(text)} with the label {short(label)}; allowed: a text and one label")
    if several and separator is None:
        raise InputError(f"{where}: found the labels {short(names)}; allowed: a text and one label")
    known = {name: said.details[name] for name in DETAILS if said.details.get(name) not in (None, "")}
    if "note" in known:
        known["note"] = str(known["note"])
    row = {"text": text, "label": names if several else names[0], "annotator": said.annotator, **known}
    try:
        return answer_of(row)
    except TypeError as error:
        raise InputError(f"{where}: found {error}; allowed: {', '.join(DETAILS)} as they are exported") from error


# Writing


def as_csv(answers: Iterable[Answer], separator: str | None = None) -> str:
    """A table with the columns of `COLUMNS`; `separator` stands between the classes of a text."""
    stream = io.StringIO()
    writer = csv_writer(stream)
    writer.writerow(COLUMNS)
    writer.writerows([[_cell(getattr(answer, name), separator) for name in COLUMNS] for answer in answers])
    return stream.getvalue()


def _cell(value: Any, separator: str | None) -> Any:
    return "" if value is None else in_table(value, separator) if isinstance(value, tuple) else value


def as_json_lines(answers: Iterable[Answer], separator: str | None = None) -> str:
    """An object of the fields of `COLUMNS` for each answer."""
    return _lines({name: getattr(answer, name) for name in COLUMNS} for answer in answers)


def as_label_studio(answers: Iterable[Answer], separator: str | None = None) -> str:
    """Label Studio's tasks with annotations: an array for its import, `<Choices name="label" toName="text">`."""
    tasks = []
    for text, same in _by_text(answers).items():
        annotations = [_annotation(answer) for answer in same]
        guesses = [answer for answer in same if answer.guess is not None][:1]
        predictions = [{"model_version": "kontrast", "score": guess.probability, "result": [_choice(guess.guess)]}
                       for guess in guesses]  # fmt: skip
        tasks.append({"data": {"text": text}, "annotations": annotations, "predictions": predictions})
    return json.dumps(tasks, ensure_ascii=False, indent=1)


def _annotation(answer: Answer) -> dict[str, Any]:
    meta = {"annotator": answer.annotator} | {name: getattr(answer, name) for name in DETAILS}
    if answer.label in NO_LABEL:
        return {"was_cancelled": True, "result": [], "meta": meta | {"answer": answer.label}}
    return {"was_cancelled": False, "result": [_choice(answer.label)], "meta": meta}


def _choice(label: Label | None) -> dict[str, Any]:
    choices = list(label) if isinstance(label, tuple) else [label]
    return {"type": "choices", "from_name": QUESTION, "to_name": "text", "value": {"choices": choices}}


def as_argilla(answers: Iterable[Answer], separator: str | None = None) -> str:
    """JSON Lines with the columns that Argilla's `records.to_datasets` has, and others, which it passes over."""

    def row(text: str, same: list[Answer]) -> dict[str, Any]:
        guess = next((answer for answer in same if answer.guess is not None), None)
        return {
            "text": text,
            f"{QUESTION}.responses": [None if answer.label in NO_LABEL else answer.label for answer in same],
            f"{QUESTION}.responses.users": [answer.annotator for answer in same],
            f"{QUESTION}.responses.status": ["discarded" if a.label in NO_LABEL else "submitted" for a in same],
            f"{QUESTION}.responses.no_label": [answer.label if answer.label in NO_LABEL else None for answer in same],
            **{f"{QUESTION}.responses.{name}": [getattr(answer, name) for answer in same] for name in DETAILS},
            f"{QUESTION}.suggestion": guess and guess.guess,
            f"{QUESTION}.suggestion.score": guess and guess.probability,
        }

    return _lines(row(text, same) for text, same in _by_text(answers).items())


def _by_text(answers: Iterable[Answer]) -> dict[str, list[Answer]]:
    by_text: dict[str, list[Answer]] = {}
    for answer in answers:
        by_text.setdefault(answer.text, []).append(answer)
    return by_text


def _lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


WRITERS: dict[str, tuple[Callable[[Iterable[Answer], str | None], str], str]] = {  # name -> how, and the file's name
    "csv": (as_csv, "labels.csv"),
    "jsonl": (as_json_lines, "labels.jsonl"),
    "label_studio": (as_label_studio, "label_studio.json"),
    "argilla": (as_argilla, "argilla.jsonl"),
}
