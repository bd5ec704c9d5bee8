"""A file that a person has: which column is the text, which the label, and what stands in them. Needs no torch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from datamodules.labels import split_labels
from datamodules.markup import MARKUP, without_markup
from datamodules.splits import stratified_split
from reporting.auto.commands import ONCE_DELETED, reading_words, topics_line
from storage.command_words import in_shell_quotes, literal, quoted, quoted_word, shell_line
from storage.errors import InputError, short, short_list
from storage.files import expanded
from storage.run_store import COMMAND
from storage.tables import (
    JOIN,
    TAB,
    Row,
    Table,
    checked_delimiter,
    checked_encoding,
    folded,
    format_of,
    is_blank,
    is_flag,
    is_missing,
    is_text,
    is_visible,
    label_name,
    label_text,
    labels_of,
    no_values,
    open_table,
    text_columns,
    text_of,
    trim,
)
from tasks.auto.reading.guesses import (
    LISTS,
    MOST_CLASSES,
    PROSE,
    are_numbers,
    called_as,
    commas_in_numbers,
    flag_columns,
    guess_columns,
    guess_separator,
    holds_names,
    list_in,
    words_in,
)

LOOKED_AT = 2000  # rows from which the columns are guessed
GUESS = "guess"
TEST_FRACTION = 0.2  # of the rows of a file that comes without test rows
POOL = "POOL.csv"  # stands for a file of texts without labels
LEAST_DIFFERENT = 5  # texts, of which folds can be made
NO_VALUES = ("na", "n/a", "#n/a", "<na>", "null", "none", "nil", r"\n")  # as R, SQL and the like write where none is
LONGEST_NO_VALUE = 10  # characters, blanks around it included

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


def read_labelled(
    file: str,
    text_column: str | None = None,
    label_column: str | None = None,
    encoding: str | None = None,
    markup: str = "keep",
    separator: str | None = GUESS,
    header: bool = True,
    delimiter: str | None = None,
    sheet: str | None = None,
    missing: Sequence[Any] | None = None,
    guess: str | None = None,
    words: Sequence[str] = (),
) -> Labelled:
    """The labelled rows of a table; a column that is not named is guessed from names and contents.

    Args:
        separator: between the labels of a text, or `lists`; None: one label a text; by default guessed.
        header, delimiter, sheet, guess: see `storage.tables.open_table`.
        missing: what stands in cells that are read as empty ones, such as NA.
        words: see `Labelled`.

    Raises:
        InputError: no file that can be read, no such sheet or column, no column that looks like a text or a label, no
            header line, a list in a column of single labels; with file and line.
    """
    path, emptied = _existing(file), Counter[str]()
    table = _opened(path, encoding, header, delimiter, sheet, guess).without(missing or (), emptied)
    options = {"encoding": encoding, "delimiter": delimiter, "header": None if header else False, "sheet": sheet}
    typed = {key: value for key, value in options.items() if value is not None}
    first = list(islice(table.rows, LOOKED_AT))
    if not first:
        raise InputError(f"{file}: no rows, allowed: a header line and rows")
    _refuse_whole_columns(file, table, first)
    columns = list(table.columns or dict.fromkeys(key for _, row in first for key in row))
    rows = [row for _, row in first]
    text, label, guessed, others = guess_columns(columns, rows, text_column, label_column, file, typed, words)
    labels = text_columns(columns, label)
    table.refuse_uncalculated([*text_columns(columns, text), *labels, *called_as(guessed, columns)])
    if len(labels) > 1:
        separator = _separator_of_flags(separator)
    if "label" in guessed and table.columns:
        _refuse_no_header(table.header, label, first)
    is_like_a_row = table.line is not None and any(words_in(name) >= PROSE for name in text_columns(columns, text))
    if is_like_a_row and {"text", "label"} <= set(guessed):
        _refuse_values(table, text_columns(columns, text), label, rows)
    data = Labelled(file, markup=markup, words=words)
    data.about = {
        "path": file,
        "format": format_of(path) or "csv",
        "delimiter": TAB if table.delimiter == "\t" else table.delimiter,
        "sheet": table.sheet,
        "typed": typed,
        "text_columns": [text],
        "label_column": label,
        "label_separator": separator,
        "flags": labels if len(labels) > 1 else [],
        "missing": no_values(missing or ()),
        "guessed": guessed,
        "alone": None if text in columns or "text" not in guessed else text.split(JOIN)[-1],
    }
    data.notes += _notes_on_columns(data, others, columns if is_like_a_row else (), rows)
    flags = likely_flags(columns, rows, text, [label, *others["label"]]) if "label" in guessed else []
    _add_rows(data, with_flags(chain(first, table.rows), flags), markup, separator)
    data.notes += _notes_on_flags(flags)
    data.about["encoding"] = table.encoding  # known for sure once all rows are read
    data.about["likely_encoding"] = table.likely_encoding
    data.notes += [f"{number:,} cells of {short(name)} are read as empty" for name, number in emptied.items()]
    if idle := [name for name in data.about["missing"] if name not in emptied]:
        data.notes.append(f"missing: no cell is {short_list(idle)}")
    return data


def _existing(file: str) -> Path:
    path = expanded(file)
    if path.is_dir():
        raise InputError(f"input={file}: a folder; allowed: a file (CSV, TSV, JSON Lines, XLSX, Parquet)")
    if not path.is_file():
        raise InputError(f"input={file}: no such file; allowed: CSV, TSV, JSON Lines, XLSX, Parquet")
    return path


def _notes_on_columns(
    data: Labelled, others: Mapping[str, Sequence[str]], first_row: Sequence[str], rows: Sequence[Row]
) -> list[str]:
    """What is said of the columns: which `others` may be meant, that the first row, which may be none, names them, and
    that labels look merged."""
    notes, label = [], data.about["label_column"]
    for kind, names in others.items():
        notes += [f"{kind}s may also stand in {short_list(names)}: {kind}_column=NAME"] if names else []
    if first_row:
        notes.append(f"the first row names the columns, {short_list(first_row)}; header=false reads it as a row")
    if data.about["format"] == "xlsx" and _look_merged([row.get(label) for row in rows]):
        notes.append(
            f"column {short(label)} looks merged: rows below a label have none, and are read as texts without one; "
            f"fill it down in a spreadsheet program where they have that label"
        )
    return notes


def likely_flags(columns: Sequence[str], rows: Sequence[Row], text: str, labels: Sequence[str]) -> list[str]:
    """Columns that hold 0 and 1 in these rows beside the texts; `labels` are those that may be the labels' column."""
    free = [name for name in columns if name not in text_columns(columns, text)]
    return [name for name in flag_columns(free, rows, [n for n in free if n in labels]) if JOIN not in name]


def with_flags(rows: Iterable[tuple[str, Row]], flags: list[str]) -> Iterator[tuple[str, Row]]:
    """The rows; out of `flags` goes any column in which one of them holds neither 0 nor 1, or nothing where others
    hold one of these: as labels they would be refused."""
    for where, row in rows:
        values = {name: row.get(name) for name in flags}
        if not all(map(is_missing, values.values())):
            flags[:] = [name for name, cell in values.items() if is_flag(cell)]
        yield where, row


def _notes_on_flags(flags: Sequence[str]) -> list[str]:
    """What is said where several columns hold 0 and 1."""
    if len(flags) < 2:
        return []
    typed = f"label_column={quoted_word(JOIN.join(flags))}"
    return [f"columns {short_list(flags)} of 0 and 1 may each be a label; {typed} learns several labels a text"]


def _separator_of_flags(typed: str | None) -> str:
    """Raises InputError: one was typed that says otherwise."""
    if typed not in (GUESS, LISTS):
        shown = "null" if typed is None else short(typed)
        allowed = "no word of it, for each column is a label"
        raise InputError(f"label_separator: found {shown} beside a label_column of several; allowed: {allowed}")
    return LISTS


def _look_merged(cells: Sequence[Any]) -> bool:
    """Whether labels stand above the empty cells that each is meant for too: more than half are empty, from the first
    row on, most labels have such cells below, and none is repeated after them."""
    filled = [place for place, cell in enumerate(cells) if not is_blank(cell)]
    if not filled or filled[0] != 0 or 2 * len(filled) >= len(cells):
        return False
    above_blank = sum(below - place > 1 for place, below in pairwise([*filled, len(cells)]))
    return 2 * above_blank > len(filled) and all(cells[a] != cells[b] for a, b in pairwise(filled))


def _refuse_whole_columns(file: str, table: Table, rows: Sequence[tuple[str, Row]]) -> None:
    """Raises InputError: JSON of one object that holds all values of each column, as pandas writes it by default."""
    row = rows[0][1]
    if table.columns is None and len(rows) == 1 and row and all(isinstance(cell, dict | list) for cell in row.values()):
        raise InputError(
            f"{file}: found one object of {short_list(row)}; allowed: an object for each row, one a line or in an "
            f"array (pandas: orient='records')"
        )


def _refuse_no_header(where: str, label: str, rows: Iterable[tuple[str, Row]]) -> None:
    """Raises InputError: the name of the label column is a label of other rows too, so that it is no name."""
    if label in (row.get(label) for _, row in rows):
        raise InputError(
            f"{where}: found {short(label)}, which is a label of other rows too, in the place of a column's name; "
            f"allowed: a header line, as text,label, or header=false (label_column={quoted_word(label)} says that it "
            f"is one)"
        )


def _refuse_values(table: Table, names: Sequence[str], label: str, rows: Sequence[Row]) -> None:
    """Raises InputError: of the names of the columns one of texts is prose and one of numbers a number, so that neither
    is a name. A question may be one, of a survey."""
    prose = [name for name in names if words_in(name) >= PROSE and not name.rstrip().endswith(("?", ":"))]
    numbers = [
        name
        for name in table.columns or ()
        if re.search(r"\d", name)
        and not re.fullmatch(r"(19|20)\d\d", name)  # a year may be one
        and are_numbers([name, *(str(row[name]) for row in rows)])
    ]
    if prose and numbers:
        raise InputError(
            f"{table.header}: found {short(prose[0])} and {short(numbers[0])} in the place of columns' names; allowed: "
            f"a header line, as text,label, or header=false (label_column={quoted_word(label)} says that it is one)"
        )


def _add_rows(data: Labelled, rows: Iterable[tuple[str, Row]], markup: str, separator: str | None) -> None:
    """All rows into `data`, and what is to be said of them. Raises InputError: none has a label."""
    text, label = data.about["text_columns"][0], data.about["label_column"]
    empty, strange, no_text, example, marked, file, cells = 0, 0, "", "", 0, "", []
    for where, row in rows:
        value = text_of(row, text)
        if isinstance(value, str) and (match := MARKUP.search(value)):
            example, marked = example or short(match.group(), 30), marked + 1
            value = without_markup(value) if markup == "strip" else value
        if not is_text(value):
            empty, strange = empty + is_blank(value), strange + (not is_blank(value))
            no_text = no_text or ("" if is_blank(value) else where)
            continue
        file = where.rstrip("0123456789")
        data.texts.append(value)
        data.lines.append(int(where[len(file) :]))
        cells.append(labels_of(row, label, where))
    guessed = _separator_of(cells) if separator == GUESS else separator
    _add_labels(data, file, cells, guessed)
    if separator == GUESS and guessed is None and (joined := commas_in_numbers(cells)) is not None:
        typed = in_shell_quotes(f"label_separator={quoted(',')}")
        data.notes.append(f"labels such as {short(joined)} are read as one number each; {typed} reads several labels")
    if empty:
        data.notes.append(f"{empty} rows without a text are left out")
    if strange:
        data.notes.append(f"{strange} rows whose text is a number or the like are left out; allowed: a string")
    data.about |= {"lacks_texts": empty + strange > 0, "no_text": no_text, "entries": file.endswith(": entry ")}
    if not data.labels:
        topics = topics_line(data.file, text, data.about["typed"], data.about["lacks_texts"], data.words)
        raise InputError(f"{data.file}: no row has a label in column {short(label)}; {topics}")
    counts = data.rows_of_label()
    if never := [name for name in data.about["flags"] if label_text(name) not in counts]:
        data.notes.append(f"no labelled row of {short_list(never)}: never predicted")
    if data.several:  # of labels beside others no cell can be read as empty
        counts = Counter(name for cell in cells if (name := label_text(cell)) in counts)
    data.notes += _notes_on_no_values(counts, [*data.texts, *data.unlabelled])
    data.about |= {"unlabelled_rows": len(data.unlabelled), "markup_rows": marked}
    if data.unlabelled:
        number = sum(isinstance(cell, str) and cell.strip().lower() == "nan" for cell in cells)
        counted = f", {number} of them with {short('nan')}, which counts as empty" if number else ""
        data.notes.append(f"{len(data.unlabelled)} rows without a label{counted}")
    if marked:
        what = "is taken out" if markup == "strip" else "stays (markup=strip takes it out)"
        data.notes.append(f"{marked} rows hold markup, such as {example}, which {what}")


def _notes_on_no_values(labels: Counter[str], texts: Iterable[str]) -> list[str]:
    """What is said where labels or texts are words that R, SQL and the like write where there is none."""
    strange = Counter(text for text in texts if len(text) <= LONGEST_NO_VALUE and text.strip().lower() in NO_VALUES)
    kinds = {"label": {name: labels[name] for name in labels if name.lower() in NO_VALUES}, "text": strange}
    names = ",".join(map(literal, no_values(chain(*kinds.values()))))
    typed = in_shell_quotes(f"missing=[{names}]")
    notes = []
    for kind, counts in kinds.items():
        counted = "a class" if kind == "label" else "a text"
        for name, number in counts.items():
            rows = f"{number:,} row{'' if number == 1 else 's'}"
            notes.append(f"{kind} {short(name)} ({rows}) counts as {counted}; {typed} reads it as empty")
    return notes


def _opened(
    path: Path, encoding: str | None, header: bool, delimiter: str | None, sheet: str | None, guess: str | None = None
) -> Table:
    mark = checked_delimiter(delimiter, "delimiter")
    table = open_table(path, None, mark, None, checked_encoding(encoding, "encoding"), header, guess, sheet)
    table.refuse_idle(delimiter, sheet)
    return table


def read_texts(
    file: str,
    text_column: str,
    encoding: str | None = None,
    markup: str = "keep",
    header: bool = True,
    delimiter: str | None = None,
    sheet: str | None = None,
    missing: Sequence[Any] | None = None,
) -> list[str]:
    """The texts of a table whose labels, if it has any, are not read.

    Args:
        encoding: of the labelled rows; here, what text that is not UTF-8 is read as.
        header, delimiter, sheet, missing: of the labelled rows; what the format of this file lacks is not asked of it.

    Raises:
        InputError: no file that can be read, no such sheet or column, no text in it; with file and line.
    """
    path = expanded(file)
    if not path.is_file():
        raise InputError(f"unlabelled={file}: no such file; allowed: CSV, TSV, JSON Lines, XLSX, Parquet")
    kind = format_of(path) or "csv"
    table = _opened(
        path,
        None,
        header or kind in ("json", "parquet"),
        delimiter if kind in ("csv", "tsv") else None,
        sheet if kind == "xlsx" else None,
        checked_encoding(encoding, "encoding"),
    ).without(missing or (), Counter())
    hint = "the text column of the labelled rows"
    table.need_text(text_column, hint)
    values = (table.text(where, row, text_column, hint) for where, row in table.rows)
    texts = [without_markup(value) if markup == "strip" else value for value in values if isinstance(value, str)]
    if not (texts := [text for text in texts if is_visible(text)]):
        raise InputError(f"unlabelled={file}: no texts in column {short(text_column)}; allowed: at least one")
    return texts


def _separator_of(cells: Sequence[Any]) -> str | None:
    """As `guess_separator`, by the first cells with a label, or where each of these has one by cells spread evenly."""
    filled = [cell for cell in cells if not is_blank(cell)]
    first, spread = filled[:LOOKED_AT], filled[:: len(filled) // LOOKED_AT or 1]
    return guess_separator(first) or guess_separator(spread) or (LISTS if any(map(holds_names, filled)) else None)


def _add_labels(data: Labelled, file: str, cells: Sequence[Any], separator: str | None) -> None:
    """The labels of the rows in `data`, of which `file` and a line say where they stand; a text of which none is known
    goes to those without one."""
    data.about["label_separator"], data.several = separator, separator is not None
    texts, lines, data.texts, data.lines = data.texts, data.lines, [], []
    if separator == LISTS and any(isinstance(cell, list | tuple) for cell in cells):  # a plain one is a list of one
        cells = [[cell] if not is_missing(cell) and list_in(cell) is None else cell for cell in cells]
    for text, line, cell in zip(texts, lines, cells, strict=True):
        if (label := _label_of(f"{file}{line}", cell, separator)) is None:
            data.unlabelled.append(text)
            continue
        data.texts.append(text)
        data.labels.append(label)
        data.lines.append(line)


def _label_of(where: str, cell: Any, separator: str | None) -> Label | None:
    """None where it is not known."""
    if separator is not None:
        parts = _parts(where, cell, separator)
        return None if parts is None else tuple(dict.fromkeys(label_name(part, where) for part in parts))
    if isinstance(cell, list | tuple):
        raise InputError(f"{where}: a list of labels; allowed: one label a text, or label_separator=lists for several")
    return None if is_missing(cell) else label_name(cell, where)


def _parts(where: str, label: Any, separator: str) -> list[Any] | None:
    """The labels in a cell; None where it is empty, so that they are not known. Raises InputError: it is no list."""
    if isinstance(label, list | tuple):
        return list(label)
    if is_missing(label):
        return None
    if separator == LISTS:
        if (names := list_in(label)) is None:
            raise InputError(f"{where}: found {short(label)} where other cells hold lists; allowed: a list, or nothing")
        return list(names)
    parts = split_labels(str(label), separator)
    return [part for part in parts if trim(part)] if parts else None


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
