"""Texts with a label, however they were read; whether methods can be compared on them, and what labels more of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from datamodules.splits import stratified_split
from reporting.auto.commands import ONCE_DELETED, reading_words
from storage.command_words import in_shell_quotes, literal, quoted, quoted_word, shell_line
from storage.errors import InputError, short, short_list
from storage.run_store import COMMAND
from storage.tables import folded
from tasks.auto.reading.guesses import LISTS, MOST_CLASSES

TEST_FRACTION = 0.2  # of the rows of a file that comes without test rows
POOL = "POOL.csv"  # stands for a file of texts without labels
LEAST_DIFFERENT = 5  # texts, of which folds can be made

Label = str | tuple[str, ...]  # of a text; a tuple where texts have any number of them


@dataclass
class Labelled:
    """Texts with a label, and what was said of the file on the way.

    Attributes:
        texts, labels, lines: of each labelled row; `lines` number the row in its file, the header being 1.
        file: the path that the rows came from, for messages and tables.
        several: whether texts have any number of labels, none included; `labels` are tuples then.
        unlabelled: texts of the rows without a label.
        descriptions: by label, what it means; empty where the labels themselves say it, or nothing does.
        markup: whether tags and entities were kept in the texts, or `strip`: taken out.
        about: facts of the file for the report: format, encoding, delimiter, sheet, columns, which of them were
            guessed, and what was typed of how to read it; `alone` is the column of texts that guessed headlines were
            joined to, `lacks_texts` whether rows without a text were left out, `no_text` the first place where one is a
            number or the like, `entries` whether `lines` number the entries of an array.
        notes: what a person should know, a line each.
        words: overrides that a line to type next carries too: the encoder, the seed, where things lie.
    """

    file: str
    texts: list[str] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    unlabelled: list[str] = field(default_factory=list)
    descriptions: dict[str, str] = field(default_factory=dict)
    markup: str = "keep"
    about: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    several: bool = False
    words: Sequence[str] = ()

    def rows_of_label(self) -> Counter[str]:
        """How many rows have each label, in the order of the rows."""
        return Counter(name for label in self.labels for name in (label if isinstance(label, tuple) else [label]))

    @property
    def once_deleted(self) -> str:
        """What has to be done before a line that refuses rows without a text; "" where all have one."""
        return ONCE_DELETED if self.about.get("lacks_texts") else ""

    def describe(self, names: Sequence[str], descriptions: Sequence[str]) -> None:
        """Keep what the labels mean, of those that a row has."""
        counts = self.rows_of_label()
        pairs = zip(names, descriptions, strict=True)
        self.descriptions = {name: description for name, description in pairs if counts[name]}
        for label, words in [*self.descriptions.items()][:1]:
            self.notes.append(f"the labels are described, as {short(label)} by {short(words)}")

    def leave_out_labelled(self) -> None:
        """Leave out the texts without a label that stand with one too: where a fold is held out, its texts would be
        learned from."""
        if not self.unlabelled:
            return
        labelled = {hash(folded(text)) for text in self.texts}  # the texts themselves would be in memory twice
        kept = [text for text in self.unlabelled if hash(folded(text)) not in labelled]
        if number := len(self.unlabelled) - len(kept):
            self.notes.append(f"{number:,} texts without a label stand with one too, and are left out of those without")
        self.unlabelled = kept

    def checked(self) -> Labelled:
        """Itself. Raises InputError where no choice between methods can be made of it."""
        counts = self.rows_of_label()
        where, rows = self.file, len(self.labels)
        if len(counts) == 1:
            column = f" in column {short(name)}" if (name := self.about.get("label_column")) else ""
            number = self.about.get("unlabelled_rows")
            blank = f"; the {number} rows of an empty cell are texts without a label" if number else ""
            raise InputError(
                f"{where}: one class only{column}, {short(next(iter(counts)))}; allowed: at least 2 classes{blank}"
            )
        if rows < 10 or sum(count > 1 for count in counts.values()) < 2:
            has_line = self.unlabelled and not why_no_more_labels(self)
            more = f"; to label more{self.once_deleted}: {label_more_line(self)}" if has_line else ""
            raise InputError(
                f"{where}: {rows} labelled rows of {len(counts)} classes are too few to compare methods; allowed: at "
                f"least 10 rows and 2 classes of 2 (no labels yet: task=cluster shows topics){more}"
            )
        if (different := _different(self.texts, LEAST_DIFFERENT)) < LEAST_DIFFERENT:
            shown = f"{different} different texts in {rows} rows"
            raise InputError(f"{where}: {shown}; allowed: at least {LEAST_DIFFERENT}")
        if len(counts) > MOST_CLASSES * sum(counts.values()):
            column = self.about.get("label_column", "label")
            raise InputError(
                f"{where}: column {short(column)} has {len(counts)} different values in {rows} rows, too many for "
                f"classes; allowed: label_column=NAME of a column with a few labels"
            )
        return self


def _different(texts: Iterable[str], enough: int) -> int:
    """How many texts differ, case and white space aside; of more than enough no more are counted."""
    different: set[str] = set()
    for text in texts:
        different.add(folded(text))
        if len(different) == enough:
            break
    return len(different)


def why_no_more_labels(data: Labelled) -> str | None:
    """Why active learning cannot go on with the labels of a file; None where it can."""
    if "encoding" in data.about.get("typed", {}) and (second := data.about.get("unlabelled")):
        return f"it would read {second} in the typed encoding too: save both files as UTF-8"
    if data.about.get("missing"):
        return f"it reads {short_list(data.about['missing'])} as labels: empty these cells in the file"
    if data.about.get("flags"):
        return "it reads several labels in one column, as a|b, not as columns of 0 and 1"
    if data.about.get("label_separator") == LISTS:
        return "it reads several labels with a mark between, as a|b, not as lists"
    return None


def label_more_line(data: Labelled, more: int = 40) -> str:
    """What to type to label so many texts more: rows of the file without a label, and those of the second file; where
    there are neither, of `POOL`. Active learning has to read the file (`why_no_more_labels`)."""
    about = data.about
    of_json = "csv" if data.several else "jsonl"  # which takes no separator
    dataset = of_json if about["format"] == "json" else "csv"
    separator = about.get("label_separator")
    pool = about.get("unlabelled") or (None if about.get("unlabelled_rows") else POOL)
    names = ",".join(map(literal, sorted(data.rows_of_label())))
    method = "bce" if data.several else "kontrast"
    markup = ["dataset.markup=strip"] if data.markup == "strip" else []
    words = [f"{COMMAND} method={method} active=rep_clun active.oracle=browser", f"dataset={dataset}"]
    words += [in_shell_quotes(f"dataset.label_separator={quoted(str(separator))}")] if data.several else []
    words += [f"dataset.train={quoted_word(data.file)}", f"active.answers_from={quoted_word(data.file)}"]
    words += [] if pool is None else [f"dataset.unlabelled={quoted_word(str(pool))}"]
    words += [*reading_words(about.get("typed", {}), "dataset."), *markup]
    columns = {"text": about["text_columns"][0], "label": about["label_column"]}
    words += [f"dataset.{key}_column={quoted_word(name)}" for key, name in columns.items() if name != key]
    words.append(in_shell_quotes(f"dataset.label_names=[{names}]"))
    held_out = 0 if pool is None else _test_rows(data)
    if pool is not None and not data.several and 1 in data.rows_of_label().values():
        words.append("dataset.singleton_classes=keep_in_train")
    words.append(f"active.budget={len(data.labels) - held_out + more}")
    return " ".join([*words, *([shell_line(data.words)] if data.words else [])])


def _test_rows(data: Labelled) -> int:
    """How many of the labelled rows are held out to judge what learns from the others and from texts without a label:
    a fifth, of one label a text a fifth of each class, one at least."""
    if data.several:
        return len(data.labels) // 5
    codes = np.unique([str(label) for label in data.labels], return_inverse=True)[1]
    return len(stratified_split(codes, TEST_FRACTION, np.random.default_rng(0), "keep_in_train")[1])
