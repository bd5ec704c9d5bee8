"""People who answer in place of the data set: in a CSV, in the terminal, on a page.

Needs no PyTorch: where a pool has rows without a label, a person is asked within seconds, at random, while the model
is loaded; in the terminal not where names of classes choose the first texts.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from datamodules.cards import digests
from datamodules.class_descriptions import spelt_out
from datamodules.corpus import Corpus, prepare
from datamodules.labels import meant_separator, without_label
from datamodules.markup import without_markup
from datamodules.streams import QUERY_STREAM
from engine.identity import completed
from engine.validation import check_targets
from labelling.answers import NO_LABEL, Answer, AnswerBook, Label, all_of_kind, check_labels, classes_of, record_new
from labelling.desk import AT_RANDOM, Desk, Suggestion
from labelling.formats import read_answers
from storage.errors import InputError
from storage.files import expanded
from storage.run_store import RunFolder
from storage.tables import checked_delimiter
from tasks.active.file import FileOracle
from tasks.active.prompt import Prompt

Code = int | list[int]  # a class, or all classes of a text; a number of `NO_LABEL` where it has no label
Suggestions = Mapping[int, Suggestion]  # by position in the pool
SEPARATOR = "|"  # between the classes of a text in tables, where the data set names none
FAREWELL = 3.0  # seconds in which an open page may still learn how it ended


def not_held_out(corpus: Corpus, places: Sequence[int]) -> list[int]:
    """Of these rows of the train table those whose text, case and spaces aside, is neither test nor validation."""
    held_out = [digests(corpus.table(split))[1] for split in ("val", "test") if split in corpus.splits]
    if not held_out:
        return list(places)
    is_held_out = np.isin(digests(corpus.table("train"))[1], np.concatenate(held_out))
    return [place for place in places if not is_held_out[place]]


def first_of_equal(texts: Sequence[str]) -> list[int]:
    """Places of the texts, of equal ones the first, ascending."""
    first = {text: place for place, text in reversed(list(enumerate(texts)))}
    return sorted(first.values())


def options_of(config: DictConfig, group: str = "active") -> dict[str, Any]:
    """A group with each default that stands in no file. Raises ConfigError: a target that is not allowed."""
    plain: Any = OmegaConf.to_container(config[group], resolve=True)
    check_targets({group: plain})  # before anything that it names is imported
    return completed({group: plain})[group]


def answers_file(config: DictConfig, answers: str | None) -> Path:
    """`active.answers`, or the file of the run store that all runs on these train rows share."""
    if answers is not None:
        return expanded(answers)
    dataset = config.dataset
    source = dataset.get("train") or dataset.get("path")
    place = str(expanded(source).resolve()) if source else dataset.name
    return (
        Path(config.paths.runs) / "answers" / f"{dataset.name}-{hashlib.sha256(place.encode()).hexdigest()[:10]}.jsonl"
    )


class People:
    """What the three ways have in common: the answers there are, and the texts that they are to.

    Attributes:
        ahead: how many texts are suggested for each that a round needs.
        label_names: the classes, those that a person added at the end.
    """

    ahead = 1
    is_asked_while_training = False

    def __init__(self, config: DictConfig) -> None:
        self.config = config
        self.plain = options_of(config)
        typed = config.dataset.get("label_separator") or SEPARATOR
        separator = meant_separator(typed) if self.corpus.multilabel else None
        self.book = AnswerBook(answers_file(config, self.plain["answers"]), int(self.plain["annotators"]), separator)
        self.texts: dict[int, str] = {}
        self.label_names: list[str] = []

    def __enter__(self) -> People:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.book.close()

    @cached_property
    def corpus(self) -> Corpus:
        """The data set."""
        plain: Any = OmegaConf.to_container(self.config.dataset, resolve=True)
        check_targets({"dataset": plain})
        paths = self.config.paths
        mirror = Path(paths.source_mirror) if paths.source_mirror else None
        return prepare(
            instantiate(self.config.dataset), Path(paths.data), mirror if mirror and mirror.is_dir() else None
        )

    def begin(self) -> None:
        """Ask, where the pool is known already: all train rows, if some of them have no label.

        Raises:
            InputError: such a pool is to be thinned, which takes the labels of all rows.
        """
        table = self.corpus.table("train")
        if not without_label(table).any():
            return
        self._refuse_thinning()
        texts = table.column("text").to_pylist()
        different = first_of_equal(texts)
        places = not_held_out(self.corpus, different)
        if number := len(different) - len(places):
            print(f"{number} texts of the pool are also in test or validation: not asked for", file=sys.stderr)
        self.use({place: texts[place] for place in places}, self.corpus.label_names)

    def _refuse_thinning(self) -> None:
        reason = "where texts of the pool have no label"
        for key in ("labels", "labels_per_class"):
            if (value := self.config.dataset.get(key)) is not None:
                raise InputError(f"dataset.{key}: found {value} {reason}, and people are asked; allowed: null")
        thinning: dict[str, Any] = options_of(self.config, "imbalance") if self.config.get("imbalance") else {}
        if thinning and thinning.get("ir", 1) is not None:
            kind = thinning["_target_"].rpartition(".")[2]
            shown = f"imbalance.ir: found {thinning['ir']}" if "ir" in thinning else f"imbalance: found {kind}"
            raise InputError(f"{shown} {reason}, which cannot be thinned by class; allowed: imbalance.ir=null")

    def use(self, texts: Mapping[int, str], label_names: Sequence[str]) -> None:
        """The pool: position -> text, each text once. Raises InputError: answers that are no class of these."""
        if self.texts:
            return
        self.texts, self.label_names = dict(texts), list(label_names)
        if (file := self.plain["answers_from"]) is not None:
            dataset = self.config.dataset
            columns = (dataset.get("text_column", "text"), dataset.get("label_column", "label"))
            path, pool = expanded(file), expanded(dataset.get("train") or "")
            keys = ("encoding", "delimiter", "header", "sheet") if path.resolve() == pool.resolve() else ()
            reading = {key: dataset[key] for key in keys if key in dataset}
            if "delimiter" in reading:
                reading["delimiter"] = checked_delimiter(reading["delimiter"], "dataset.delimiter")
            answers = read_answers(path, *columns, self.book.separator, reading)
            answers = [replace(answer, text=self.cleaned(answer.text)) for answer in answers]
            try:
                answers = all_of_kind(answers, self.book.separator is not None)
                check_labels(answers, [*label_names, *self.book.added_classes])
            except InputError as error:
                raise InputError(f"active.answers_from={file}: {error}") from error
            kept, unknown = record_new(self.book, answers, self.texts.values())
            about = f", {unknown} are to texts that the pool has not" if unknown else ""
            print(f"{file}: {kept} of {len(answers)} answers are new{about}", file=sys.stderr)
        self.book.check_classes(label_names)
        self.label_names += [name for name in self.book.added_classes if name not in self.label_names]

    def cleaned(self, text: str) -> str:
        """A text from elsewhere as the pool has it."""
        return without_markup(text) if self.config.dataset.get("markup") == "strip" else text

    def answered(self, taken: frozenset[int]) -> list[int]:
        """Positions of the texts with an answer that counts, outside `taken`, in the order of the answers."""
        positions = {text: position for position, text in self.texts.items()}
        return [p for text in self.book.by_text if (p := positions.get(text)) is not None and p not in taken]

    def class_of(self, position: int) -> Code:
        """The class of a text or all its classes, or a number of `NO_LABEL`."""
        label = self.book.label(self.texts[position])
        return NO_LABEL["skip"] if label is None else self.code_of(label)

    def class_by_now(self, position: int, earlier: Code) -> Code:
        """The class of a text, which people may have changed; the earlier one where they say nothing of it."""
        text = self.texts.get(position)  # one that is no longer asked for, being a test text, keeps its answer
        says = text is not None and (text in self.book.by_text or text in self.book.taken_back)
        return self.class_of(position) if says else earlier

    def code_of(self, label: Label) -> Code:
        """Number of a class or numbers of all of them, or that of a word of `NO_LABEL`."""
        if isinstance(label, str) and label in NO_LABEL:
            return NO_LABEL[label]
        numbers = sorted(map(self.label_names.index, classes_of(label)))
        return numbers[0] if isinstance(label, str) else numbers

    def collect(self, run: RunFolder, suggestions: Suggestions, size: int, taken: frozenset[int]) -> list[int]:
        """Positions that were answered for a round: those that were suggested, or others.

        Raises:
            InputError: there are labels to fill in.
            Stopped: the person had enough.
        """
        raise NotImplementedError

    def reason_of(self, position: int) -> Suggestion:
        """Why a text was asked for."""
        return Suggestion("labelled before")

    def say(self, stage: str, curve: list[dict[str, Any]] | None = None) -> None:
        """What the program does now, and the points of the curve."""

    def first_size(self) -> int:
        """Labels of the first round, as far as `active.query_size` says; what is wrong with it is said later."""
        size = self.plain["query_size"]
        first = size[0] if isinstance(size, list) and size else size
        return first if isinstance(first, int) else 0


class InFile(People):
    """A CSV in the run's folder, which somebody fills between two calls of the same line."""

    def collect(self, run: RunFolder, suggestions: Suggestions, size: int, taken: frozenset[int]) -> list[int]:
        oracle, positions = FileOracle(run.path / "to_label.csv", self.book.separator), list(suggestions)
        answers = oracle.answers(positions, [self.texts[place] for place in positions], self.label_names)
        for position, label in zip(positions, answers, strict=True):
            self.book.record(Answer(self.texts[position], label))
        return positions


class InTerminal(People):
    """Keys in the terminal; the first round is asked at random, before anything is loaded, unless names choose it."""

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config)
        self.asked_first: dict[int, Suggestion] = {}

    def begin(self) -> None:
        super().begin()
        if self.plain["cold_start"] is not None:
            return
        order = np.random.default_rng([self.config.seed, QUERY_STREAM]).permutation(list(self.texts)).tolist()
        missing = min(self.first_size(), len(order)) - len(self.answered(frozenset()))
        if missing > 0:
            chosen = [place for place in order if self.book.label(self.texts[place]) is None][:missing]
            self.asked_first = dict.fromkeys(chosen, Suggestion(AT_RANDOM))
            self._prompt().ask({self.texts[place]: shown for place, shown in self.asked_first.items()})

    def reason_of(self, position: int) -> Suggestion:
        return self.asked_first.get(position) or super().reason_of(position)

    def _prompt(self) -> Prompt:
        budget = self.plain["budget"] if isinstance(self.plain["budget"], int) else None
        return Prompt(self.book, self.label_names, budget, self.plain["show_guess"])

    def collect(self, run: RunFolder, suggestions: Suggestions, size: int, taken: frozenset[int]) -> list[int]:
        self._prompt().ask({self.texts[place]: shown for place, shown in suggestions.items()})
        return list(suggestions)


class OnPage(People):
    """A page on this machine; the person labels on while the model learns."""

    ahead = 3
    is_asked_while_training = True
    desk: Desk | None = None
    page: Any = None

    def begin(self) -> None:
        super().begin()
        if not self.texts:
            print("the page opens when the pool is read", file=sys.stderr, flush=True)

    def use(self, texts: Mapping[int, str], label_names: Sequence[str]) -> None:
        if self.desk:
            return
        super().use(texts, label_names)
        try:
            from tasks.active.page import EVERYWHERE, LabellingPage
        except ImportError as error:
            raise InputError("active.oracle=browser: needs fastapi and uvicorn; pip install '.[serve]'") from error
        dataset = self.config.dataset
        self.desk = Desk(
            self.texts,
            self.book,
            self.label_names,
            budget=self.plain["budget"],
            rng=np.random.default_rng([self.config.seed, QUERY_STREAM]),
            descriptions=self._descriptions(self.label_names),
            can_add_classes=dataset.get("label_names") is not None,
            shows_guess=self.plain["show_guess"],
        )
        self.label_names = self.desk.classes  # which grows
        columns = (dataset.get("text_column", "text"), dataset.get("label_column", "label"))
        self.page = LabellingPage(self.desk, self.plain["host"], self.plain["port"], *columns, self.cleaned)
        self.page.start()
        if self.plain["host"] not in ("127.0.0.1", "localhost"):
            elsewhere = ("; from a phone or another machine, with this one's name in place of 127.0.0.1"
                         if self.plain["host"] in EVERYWHERE else "")  # fmt: skip
            print(f"active.host={self.plain['host']}: whoever reaches this machine and has the address below reads the "
                  f"texts and labels them; nothing on the way is encrypted{elsewhere}", file=sys.stderr)  # fmt: skip
        print(f"label at {self.page.address}\nevery answer is kept at once in {self.book.path}; Ctrl-C stops, the same "
              f"line goes on", file=sys.stderr, flush=True)  # fmt: skip
        if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform in ("darwin", "win32"):
            webbrowser.open(self.page.address)

    def _descriptions(self, label_names: Sequence[str]) -> Sequence[str] | None:
        descriptions = instantiate(self.config.dataset).describe_classes(label_names)
        return descriptions and ["" if text == spelt_out(name) else text  # which would say the name twice
                                 for name, text in zip(label_names, descriptions, strict=True)]  # fmt: skip

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self.desk and self.page:
            if error is None:
                over = "finished: the model is trained; this page may be closed"
            elif isinstance(error, KeyboardInterrupt):
                over = "stopped; every answer is kept, and the same line goes on"
            else:
                over = f"stopped: {str(error) or type(error).__name__}; every answer is kept"
            self.desk.say("", over=over)
            if self.desk.is_watched():
                time.sleep(FAREWELL)
            self.page.stop()
        super().__exit__(kind, error, trace)

    def _desk(self) -> Desk:
        assert self.desk is not None, "use() comes first"
        return self.desk

    def answered(self, taken: frozenset[int]) -> list[int]:
        return self._desk().answered(taken)

    def class_of(self, position: int) -> Code:
        return self.code_of(self._desk().label_of(position))

    def reason_of(self, position: int) -> Suggestion:
        return self._desk().reason_of(position)

    def collect(self, run: RunFolder, suggestions: Suggestions, size: int, taken: frozenset[int]) -> list[int]:
        self._desk().suggest(suggestions, has_model=any(shown.guess is not None for shown in suggestions.values()))
        self.say(f"waiting for {size} labels")
        return self._desk().wait(size, taken)

    def say(self, stage: str, curve: list[dict[str, Any]] | None = None) -> None:
        self._desk().say(stage, curve)


ORACLES: dict[str, type[People]] = {"file": InFile, "prompt": InTerminal, "browser": OnPage}
