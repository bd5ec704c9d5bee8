"""What people said of texts, in a file that no answer is lost from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, BinaryIO

from storage.errors import InputError, short
from storage.files import open_held, write_errors
from storage.tables import label_text

NO_LABEL = {"skip": -1, "ambiguous": -2, "no class fits": -3}  # what may stand in place of a class, and its number
NONE_FITS = "no class fits"
NEEDED = ("text", "label")  # of a line; a text may be empty
Label = str | tuple[str, ...]  # where texts have several classes those of a text, in the order of the alphabet


@dataclass(frozen=True)
class Answer:
    """What somebody said of a text.

    Attributes:
        text: the text.
        label: a class, or a word of `NO_LABEL`; where texts have several all of them, and an empty tuple where none
            fits.
        annotator: who said it; empty where nobody asked.
        note: what else they wrote.
        guess, probability: of the model at that moment, where there was one; probability in [0, 1].
        time: seconds since 1970; 0 where it is not known.
    """

    text: str
    label: Label
    annotator: str = ""
    note: str = ""
    guess: Label | None = None
    probability: float | None = None
    time: float = 0.0


class AnswerBook:
    """A file of JSON lines, one for each answer, appended and on the disk before the next text is shown.

    A later line for the same text by the same annotator replaces the earlier one; `{"text": …, "label": null}` takes
    it back; `{"class": NAME}` is a class that a person added.

    Args:
        file: it is created where there is none; a last line that was cut off is dropped.
        annotators: people who are asked for each text; where it is one, the last answer counts, whoever gave it.
        separator: what stands between the classes of a text in tables, where texts have several; else None.

    Attributes:
        by_text: text -> annotator -> the answer that stands; texts in the order in which they were last answered.
        taken_back: texts that had answers, of which none stands.
        added_classes: those that a person added.

    Raises:
        InputError: a line that is no answer, by its number.
        ReportError: another process has the file open; it cannot be written to.
    """

    def __init__(self, file: Path, annotators: int = 1, separator: str | None = None) -> None:
        self.path, self.annotators, self.separator = file, annotators, separator
        self.by_text: dict[str, dict[str, Answer]] = {}
        self.taken_back: set[str] = set()
        self.added_classes: list[str] = []
        with write_errors(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            problem = f"{file}: another process asks for these labels; allowed: end it, or active.answers=FILE"
            self._file: BinaryIO = open_held(file, problem)
        self._read()

    def close(self) -> None:
        """Let others write the file; one without an answer is removed."""
        if not self._file.closed:
            if not os.fstat(self._file.fileno()).st_size:
                self.path.unlink(missing_ok=True)
            self._file.close()

    def __enter__(self) -> AnswerBook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def record(self, answer: Answer) -> None:
        """Keep an answer in place of the same annotator's earlier one."""
        self.record_all([answer])

    def record_all(self, answers: Sequence[Answer]) -> None:
        """Keep them, written at once: a kill loses those at the end alone."""
        self._append(*(
            {name: value for name, value in asdict(answer).items() if name in NEEDED or value not in ("", None)}
            for answer in answers
        ))  # fmt: skip
        for answer in answers:
            self._take(answer)

    def withdraw(self, text: str, annotator: str = "") -> None:
        """Take an annotator's answer back."""
        self._append({"text": text, "label": None, "annotator": annotator})
        self._drop(text, annotator)

    def add_class(self, name: str) -> None:
        """Keep the name of a class that a person added."""
        self._append({"class": name})
        self.added_classes.append(name)

    def answers(self, text: str) -> list[Answer]:
        """Those to a text, the earliest first."""
        return list(self.by_text.get(text, {}).values())

    def label(self, text: str) -> Label | None:
        """What counts: the answer that all who were asked agree on, else `ambiguous`; None where nobody answered."""
        labels = [answer.label for answer in self.answers(text)]
        if not labels:
            return None
        return labels[-1] if self.annotators == 1 or len(set(labels)) == 1 else "ambiguous"

    def all(self) -> Iterator[Answer]:
        """Every answer that stands, by text in the order in which the texts were last answered."""
        for answers in self.by_text.values():
            yield from answers.values()

    def check_classes(self, label_names: Sequence[str]) -> None:
        """Raises InputError: an answer that is none of the classes, or a class that is a word of `NO_LABEL`."""
        check_no_word(label_names)
        try:
            check_labels(self.all(), [*label_names, *self.added_classes])
        except InputError as error:
            hint = "active.answers=FILE keeps those of other classes for the same texts"
            raise InputError(f"{self.path}: {error}; {hint}") from error

    def _take(self, answer: Answer) -> None:
        answers = self.by_text.pop(answer.text, {})  # to the end: texts stand in the order of their last answer
        answers.pop(answer.annotator, None)
        self.taken_back.discard(answer.text)
        self.by_text[answer.text] = {**answers, answer.annotator: answer}

    def _drop(self, text: str, annotator: str) -> None:
        answers = self.by_text.get(text, {})
        answers.pop(annotator, None)
        if not answers:
            self.by_text.pop(text, None)
            self.taken_back.add(text)

    def _append(self, *lines: dict[str, Any]) -> None:
        with write_errors(self.path):
            self._file.seek(0, os.SEEK_END)
            self._file.write(b"".join(json.dumps(content, ensure_ascii=False).encode() + b"\n" for content in lines))
            self._file.flush()
            os.fsync(self._file.fileno())

    def _read(self) -> None:
        whole = 0
        for number, line in enumerate(self._file, 1):
            if not line.endswith(b"\n"):
                self._file.truncate(whole)  # a stop came in between: nobody was told that it is kept
                return
            self._read_line(line, f"{self.path}:{number}")
            whole += len(line)

    def _read_line(self, line: bytes, where: str) -> None:
        try:
            content = json.loads(line)
            if "class" in content:
                self.added_classes.append(label_text(_text(content["class"])))
            elif content["label"] is None:
                self._drop(_text(content["text"]), _text(content.get("annotator", "")))
            else:
                answer = answer_of(content)
                label = of_kind(answer.label, self.separator is not None)
                label = tuple(map(label_text, label)) if isinstance(label, tuple) else label_text(label)
                self._take(replace(answer, label=label))
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f'{where}: found {short(line.decode(errors="replace").strip())}; '
                             f'allowed: {{"text": …, "label": …}}') from error  # fmt: skip


def answer_of(content: dict[str, Any]) -> Answer:
    """An answer from the fields of a line. Raises TypeError, KeyError: fields that are of another kind or missing."""
    names = {field.name for field in fields(Answer)}
    content = content | {name: tuple(map(_text, content[name])) for name in ("label", "guess")
                         if isinstance(content.get(name), list)}  # fmt: skip
    answer = Answer(**{name: value for name, value in content.items() if name in names})
    for name in ("text", "annotator", "note", *([] if isinstance(answer.label, tuple) else ["label"])):
        _text(getattr(answer, name))
    for number in (answer.time, 0.0 if answer.probability is None else answer.probability):
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise TypeError(f"{number!r} is no number")
    return answer


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def of_kind(label: Label, several: bool) -> Label:
    """A label as texts with one class, or with several, have it. Raises TypeError: several where a text has one."""
    if several:
        if isinstance(label, str):
            return () if label == NONE_FITS else label if label in NO_LABEL else (label,)
        return tuple(sorted(set(label)))
    if isinstance(label, str) or not label:
        return label or NONE_FITS
    if len(label) > 1:
        raise TypeError(f"the labels {', '.join(label)}")
    return label[0]


def classes_of(label: Label) -> tuple[str, ...]:
    """The classes that a label names."""
    if isinstance(label, str):
        return () if label in NO_LABEL else (label,)
    return label


def in_table(label: Label, separator: str | None) -> str:
    """A label as a cell holds it."""
    return label if isinstance(label, str) else (separator or ", ").join(label) or NONE_FITS


def from_table(cell: str, separator: str | None) -> Label:
    """The label in a cell."""
    if separator is None or cell in NO_LABEL:
        return of_kind(cell, separator is not None)
    return of_kind(tuple(name for part in cell.split(separator) if (name := part.strip())), several=True)


def check_no_word(label_names: Sequence[str]) -> None:
    """Raises InputError: a class is called as a word of `NO_LABEL`."""
    if taken := set(NO_LABEL) & set(label_names):
        raise InputError(f"active.oracle: found a class named {taken.pop()!r}, which means no class; rename it")


def check_labels(answers: Iterable[Answer], label_names: Sequence[str]) -> None:
    """Raises InputError: the first answer that is none of the classes."""
    for answer in answers:
        for name in classes_of(answer.label):
            if name not in label_names:
                allowed = ", ".join([*label_names, *NO_LABEL])
                raise InputError(f"found the label {short(name)}; allowed: {allowed}")


def all_of_kind(answers: Iterable[Answer], several: bool) -> list[Answer]:
    """The answers, each with as many classes as texts have here. Raises InputError: several where a text has one."""
    try:
        return [replace(answer, label=of_kind(answer.label, several)) for answer in answers]
    except TypeError as error:
        raise InputError(f"found {error}; allowed: one class a text") from error


def record_new(book: AnswerBook, answers: Iterable[Answer], texts: Iterable[str]) -> tuple[int, int]:
    """Keep those answers that are to one of `texts` and whose annotator has not answered it before.

    White space that differs makes no other text: spreadsheets and other programs change it.

    Returns:
        How many were kept, and how many are to texts that are not there.
    """
    known, unknown = {" ".join(text.split()): text for text in texts}, 0
    new: dict[str, dict[str, Answer]] = {}
    for answer in answers:
        text = known.get(" ".join(answer.text.split()))
        if text is None:
            unknown += 1
            continue
        earlier = {**book.by_text.get(text, {}), **new.get(text, {})}
        if answer.annotator not in earlier and len(earlier) < book.annotators:
            new.setdefault(text, {})[answer.annotator] = replace(answer, text=text)
    kept = [answer for of_text in new.values() for answer in of_text.values()]
    book.record_all(kept)
    return len(kept), unknown
