"""A file that a person has: which column is the text, which the label, and what stands in them. Needs no torch."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from datamodules.labels import label_name, split_labels
from datamodules.markup import MARKUP, without_markup
from reporting.auto.commands import reading_words
from storage.command_words import in_shell_quotes, literal, quoted, quoted_word
from storage.errors import InputError, short, short_list
from storage.run_store import COMMAND
from storage.tables import (
    JOIN,
    TAB,
    Row,
    Table,
    checked_delimiter,
    checked_encoding,
    format_of,
    open_table,
    text_columns,
    text_of,
)

LOOKED_AT = 2000  # rows from which the columns are guessed
TEXT_NAMES = (
    *("text", "texts", "content", "body", "message", "sentence", "document", "review", "comment", "tweet", "post"),
    *("abstract", "description", "question", "utterance", "query", "title", "subject", "headline"),
    *("inhalt", "nachricht", "satz", "dokument", "bewertung", "kommentar", "beschreibung", "frage", "titel", "betreff"),
    *("texte", "contenu", "texto", "contenido", "mensaje", "testo"),
)
HEADLINE_NAMES = (
    *("title", "subject", "headline", "heading", "titel", "betreff", "überschrift", "schlagzeile"),
    *("titre", "sujet", "objet", "título", "titulo", "asunto", "titolo", "oggetto"),
)  # of columns that stand above another text, and are read before it
LABEL_NAMES = (
    *("label", "labels", "class", "category", "target", "topic", "intent", "sentiment", "tag", "y", "rating", "stars"),
    *("klasse", "kategorie", "thema", "kennzeichnung", "einstufung", "gruppe", "etikett", "rubrik", "sparte"),
    *("classe", "categorie", "catégorie", "étiquette", "etiqueta", "categoria", "categoría", "clase", "etichetta"),
)
SEPARATORS = "|;,"  # between the labels of a text, where it has several
GUESS = "guess"
LISTS = "lists"  # in place of a separator: cells are lists, in CSV as JSON
KNOWN_PARTS = 0.8  # of the parts of cells with a separator, that stand in other cells too, from which they are labels
MOST_CLASSES = 0.5  # of the rows; more different values are no classes

Label = str | tuple[str, ...]  # of a text; a tuple where texts have any number of them


@dataclass
class Labelled:
    """Texts with a label, and what was said of the file on the way.

    Attributes:
        texts, labels, lines: of each labelled row; `lines` number the row in its file, the header being 1.
        file: the path that the rows came from, for messages and tables.
        several: whether texts have any number of labels, none included; `labels` are tuples then.
        unlabelled: texts of the rows without a label.
        about: facts of the file for the report: format, encoding, delimiter, columns, which of them were guessed, and
            what was typed of how to read it; `alone` is the column of texts that guessed headlines were joined to.
        notes: what a person should know, a line each.
    """

    file: str
    texts: list[str] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    unlabelled: list[str] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    several: bool = False

    def rows_of_label(self) -> Counter[str]:
        """How many rows have each label, in the order of the rows."""
        return Counter(name for label in self.labels for name in (label if isinstance(label, tuple) else [label]))

    def checked(self) -> Labelled:
        """Itself. Raises InputError where no choice between methods can be made of it."""
        counts = self.rows_of_label()
        where, rows = self.file, len(self.labels)
        if len(counts) == 1:
            raise InputError(f"{where}: one class only, {short(next(iter(counts)))}; allowed: at least 2 classes")
        if rows < 10 or sum(count > 1 for count in counts.values()) < 2:
            raise InputError(
                f"{where}: {rows} labelled rows of {len(counts)} classes are too few to compare methods; allowed: at "
                f"least 10 rows and 2 classes of 2 (no labels yet: task=cluster shows topics"
                f"{'; to label more: ' + line if (line := label_more_line(self)) else ''})"
            )
        if len(set(self.texts)) < 5:
            raise InputError(f"{where}: {len(set(self.texts))} different texts in {rows} rows; allowed: at least 5")
        if len(counts) > MOST_CLASSES * rows:
            column = self.about.get("label_column", "label")
            raise InputError(
                f"{where}: column {short(column)} has {len(counts)} different values in {rows} rows, too many for "
                f"classes; allowed: label_column=NAME of a column with a few labels"
            )
        return self


def read_labelled(
    file: str,
    text_column: str | None = None,
    label_column: str | None = None,
    encoding: str | None = None,
    markup: str = "keep",
    separator: str | None = GUESS,
    header: bool = True,
    delimiter: str | None = None,
) -> Labelled:
    """The labelled rows of a table; a column that is not named is guessed from names and contents.

    Args:
        separator: between the labels of a text, or `lists`; None: one label a text; by default guessed.
        header, delimiter: see `storage.tables.open_table`.

    Raises:
        InputError: no file that can be read, no such column, no column that looks like a text or a label, no header
            line, a list in a column of single labels; with file and line.
    """
    path = Path(file).expanduser()
    if path.is_dir():
        raise InputError(f"input={file}: a folder; allowed: a file (CSV, TSV, JSON Lines, XLSX, Parquet)")
    if not path.is_file():
        raise InputError(f"input={file}: no such file; allowed: CSV, TSV, JSON Lines, XLSX, Parquet")
    table = _opened(path, encoding, header, delimiter)
    typed: dict[str, Any] = {} if encoding is None else {"encoding": encoding}
    typed |= {} if delimiter is None else {"delimiter": delimiter}
    typed |= {} if header else {"header": False}
    first = list(islice(table.rows, LOOKED_AT))
    if not first:
        raise InputError(f"{file}: no rows, allowed: a header line and rows")
    columns = list(table.columns or dict.fromkeys(key for _, row in first for key in row))
    text, label, guessed = guess_columns(columns, [row for _, row in first], text_column, label_column, file, typed)
    if "label" in guessed and table.columns:
        _refuse_no_header(file, label, first)
    separator = guess_separator([row.get(label) for _, row in first]) if separator == GUESS else separator
    data = Labelled(file, several=separator is not None)
    data.about = {
        "path": file,
        "format": format_of(path) or "csv",
        "delimiter": TAB if table.delimiter == "\t" else table.delimiter,
        "typed": typed,
        "text_columns": [text],
        "label_column": label,
        "label_separator": separator,
        "guessed": guessed,
        "alone": None if text in columns or "text" not in guessed else text.split(JOIN)[-1],
    }
    _add_rows(data, chain(first, table.rows), markup)
    data.about["encoding"] = table.encoding  # known for sure once all rows are read
    return data


def _refuse_no_header(file: str, label: str, rows: Iterable[tuple[str, Row]]) -> None:
    """Raises InputError: the name of the label column is a label of other rows too, so that it is no name."""
    if label in (row.get(label) for _, row in rows):
        raise InputError(
            f"{file}:1: found {short(label)}, which is a label of other rows too, in the place of a column's name; "
            f"allowed: a header line, as text,label, or header=false (label_column={label} says that it is one)"
        )


def _add_rows(data: Labelled, rows: Iterable[tuple[str, Row]], markup: str) -> None:
    """All rows into `data`, and what is to be said of them. Raises InputError: none has a label."""
    text, label, separator = data.about["text_columns"][0], data.about["label_column"], data.about["label_separator"]
    empty, example, marked = 0, "", 0
    for where, row in rows:
        value = text_of(row, text)
        if isinstance(value, str) and (match := MARKUP.search(value)):
            example, marked = example or short(match.group(), 30), marked + 1
            value = without_markup(value) if markup == "strip" else value
        if not isinstance(value, str) or not value.strip():
            empty += 1
            continue
        _add(data, where, value, row.get(label), separator)
    if empty:
        data.notes.append(f"{empty} rows without a text are left out")
    if not data.labels:
        topics = topics_line(data.file, text, data.about["typed"])
        raise InputError(f"{data.file}: no row has a label in column {short(label)}; {topics}")
    data.about |= {"unlabelled_rows": len(data.unlabelled), "markup_rows": marked}
    if data.unlabelled:
        data.notes.append(f"{len(data.unlabelled)} rows without a label")
    if marked:
        what = "is taken out" if markup == "strip" else "stays (markup=strip takes it out)"
        data.notes.append(f"{marked} rows hold markup, such as {example}, which {what}")


def _opened(path: Path, encoding: str | None, header: bool, delimiter: str | None) -> Table:
    mark = checked_delimiter(delimiter, "delimiter")
    table = open_table(path, None, mark, None, checked_encoding(encoding, "encoding"), header)
    table.refuse_idle(delimiter)
    return table


def read_texts(
    file: str,
    text_column: str,
    encoding: str | None = None,
    markup: str = "keep",
    header: bool = True,
    delimiter: str | None = None,
) -> list[str]:
    """The texts of a table whose labels, if it has any, are not read.

    Raises:
        InputError: no file that can be read, no such column, no text in it; with file and line.
    """
    path = Path(file).expanduser()
    if not path.is_file():
        raise InputError(f"unlabelled={file}: no such file; allowed: CSV, TSV, JSON Lines, XLSX, Parquet")
    table = _opened(path, encoding, header, delimiter)
    hint = "the text column of the labelled rows"
    table.need_text(text_column, hint)
    values = (table.text(where, row, text_column, hint) for where, row in table.rows)
    texts = [without_markup(value) if markup == "strip" else value for value in values if isinstance(value, str)]
    if not (texts := [text for text in texts if text.strip()]):
        raise InputError(f"unlabelled={file}: no texts in column {short(text_column)}; allowed: at least one")
    return texts


def _add(data: Labelled, where: str, text: str, label: Any, separator: str | None) -> None:
    if separator is not None:
        label = _parts(label, separator)
    elif isinstance(label, list | tuple):
        raise InputError(f"{where}: a list of labels; allowed: one label a text, or label_separator=lists for several")
    if label is None or (isinstance(label, str) and label.strip().lower() in ("", "nan")):
        data.unlabelled.append(text)
        return
    data.texts.append(text)
    if separator is None:
        data.labels.append(label_name(label, where))
    else:
        data.labels.append(tuple(dict.fromkeys(label_name(part, where) for part in label)))
    data.lines.append(int(re.search(r"(\d+)$", where).group(1)))  # type: ignore[union-attr]


def _parts(label: Any, separator: str) -> list[Any] | None:
    """The labels in a cell; None where it is empty, so that they are not known."""
    if label is None or isinstance(label, list | tuple):
        return None if label is None else list(label)
    if separator == LISTS:
        return _json_list(label) if str(label).strip() else None
    parts = split_labels(str(label), separator)
    return [part for part in parts if part.strip()] if parts else None


def _json_list(cell: Any) -> list[Any] | None:
    """The list that a cell holds as JSON; None where it holds something else."""
    try:
        value = json.loads(cell) if isinstance(cell, str) and cell.strip().startswith("[") else None
    except ValueError:
        return None
    return value if isinstance(value, list) else None


def guess_separator(cells: Iterable[Any]) -> str | None:
    """What stands between the labels of a text, `LISTS` where cells are lists, None where each is one label.

    A separator is taken for one where the parts of the cells that hold it stand in other cells too, alone or beside
    other labels: "Sci/Tech" and "Food, Drink" are one label each.
    """
    filled = [cell for cell in cells if cell is not None and str(cell).strip()]
    if filled and all(isinstance(cell, list | tuple) or _json_list(cell) is not None for cell in filled):
        return LISTS
    different = {str(cell) for cell in filled}
    for separator in SEPARATORS:
        joined = [cell for cell in different if separator in cell]
        cells_of = Counter(part for cell in different for part in {part.strip() for part in cell.split(separator)})
        parts = [part.strip() for cell in joined for part in cell.split(separator)]
        if joined and sum(cells_of[part] > 1 for part in parts) >= KNOWN_PARTS * len(parts):
            return separator
    return None


def topics_line(file: str, text_column: str, typed: Mapping[str, Any]) -> str:
    """What to type for topics of texts without labels; `typed` is how to read the file, of `Labelled.about`."""
    words = [f"{COMMAND} task=cluster method=sbert_words dataset=csv dataset.train={quoted_word(file)}"]
    words += [] if text_column == "text" else [f"dataset.text_column={quoted_word(text_column)}"]
    return f"topics of the texts: {' '.join([*words, *reading_words(typed, 'dataset.')])} method.num_clusters=auto"


def label_more_line(data: Labelled, more: int = 40) -> str | None:
    """What to type to label so many of the file's rows without a label; None where it has none, or is no table of
    text that active learning reads."""
    about = data.about
    if about.get("typed"):  # it guesses how to read answers, and finds them by the names of their columns
        return None
    dataset = {"csv": "csv", "tsv": "csv", "json": "jsonl"}.get(about.get("format", ""))
    separator = about.get("label_separator")
    if not about.get("unlabelled_rows") or dataset is None or separator == LISTS:
        return None
    names = ",".join(map(literal, sorted(data.rows_of_label())))
    method = "bce" if data.several else "kontrast"
    words = [f"{COMMAND} method={method} active=rep_clun active.oracle=browser", f"dataset={dataset}"]
    words += [in_shell_quotes(f"dataset.label_separator={quoted(str(separator))}")] if data.several else []
    words += [f"dataset.train={quoted_word(data.file)}", f"active.answers_from={quoted_word(data.file)}"]
    columns = {"text": about["text_columns"][0], "label": about["label_column"]}
    words += [f"dataset.{key}_column={quoted_word(name)}" for key, name in columns.items() if name != key]
    words.append(in_shell_quotes(f"dataset.label_names=[{names}]"))
    return " ".join([*words, f"active.budget={len(data.labels) + more}"])


def guess_columns(
    columns: Sequence[str],
    rows: Sequence[Row],
    text: str | None,
    label: str | None,
    file: str,
    typed: Mapping[str, Any] | None = None,
) -> tuple[str, str, list[str]]:
    """The column of the texts, that of the labels, and which of the two ("text", "label") were guessed.

    Known names count first, English, German and some others; among several, and without one, the text is the longest
    column of mostly different values and the label a column of few short values. Headlines are joined to the text.

    Raises:
        InputError: a named column is not there, or nothing looks like a text or a label.
    """
    for key, name in (("text_column", text), ("label_column", label)):
        parts = [] if name is None else text_columns(columns, name) if key == "text_column" else [name]
        if name is not None and not set(parts) <= set(columns):
            raise InputError(f"{key}: found {short(name)}; allowed in {file}: one of {short_list(columns)}")
    guessed = [kind for kind, name in (("text", text), ("label", label)) if name is None]
    looks = {name: _Column([row.get(name) for row in rows]) for name in columns}
    if text is None:
        named = [name for name in columns if _is_named(name, TEXT_NAMES) and looks[name].are_strings]
        free = [name for name in columns if name != label and (looks[name].is_text or name in named)]
        text = max(free, key=lambda name: (_is_named(name, TEXT_NAMES), looks[name].length), default=None)
        if text is None:
            raise InputError(f"{file}: no column looks like texts; allowed: text_column=NAME of {short_list(columns)}")
        text = _with_headlines(text, [name for name in columns if looks[name].is_headline and name != label])
    if label is None:
        free = [name for name in columns if name not in text_columns(columns, text)]
        few = [name for name in free if looks[name].is_label]
        named = [name for name in few if _is_named(name, LABEL_NAMES)]
        named = named or [name for name in free if _is_named(name, LABEL_NAMES[:4])]
        label = next(iter(named or few[-1:]), None)
        if label is None:
            raise InputError(
                f"{file}: no column looks like labels (label_column=NAME of {short_list(columns)} says which); "
                f"{topics_line(file, text, typed or {})}"
            )
    return text, label, guessed


def _with_headlines(text: str, free: Sequence[str]) -> str:
    """`TITLE+BODY` where columns that are called headlines stand beside the texts."""
    headlines = [name for name in free if _is_named(name, HEADLINE_NAMES)]
    return text if text in headlines or JOIN in text else JOIN.join([*headlines, text])


def _is_named(name: str, names: Sequence[str]) -> bool:
    return name.strip().lower() in names


class _Column:
    """What the first values of a column look like."""

    def __init__(self, values: Sequence[Any]) -> None:
        plain = [json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value for value in values]
        texts = [str(value).strip() for value in plain if value is not None and not isinstance(value, dict)]
        texts = [text for text in texts if text]
        different = len(set(texts))
        self.length = sum(map(len, texts)) / max(len(texts), 1)
        words = sum(len(text.split()) for text in texts) / max(len(texts), 1)
        self.are_strings = bool(texts) and all(isinstance(value, str) for value in values if value is not None)
        is_free = words >= 2 or different > 0.5 * len(texts)
        self.is_text = self.are_strings and is_free and not _numbers(texts)
        kinds = len({re.sub(r"\d+", "", text) for text in texts})  # "Order 17" and "Order 18" are one
        self.is_headline = self.are_strings and words >= 2 and kinds > 0.5 * len(values)
        few = different <= max(2, min(1000, 0.34 * len(texts)))
        self.is_label = different >= 1 and few and self.length <= 60 and words <= 6 and not _fractions(texts)


def _numbers(texts: Sequence[str]) -> bool:
    return all(re.fullmatch(r"[-+\d.,:/ TZ]+", text) for text in texts)


def _fractions(texts: Sequence[str]) -> bool:
    """Whether these are measurements: many different numbers with a fraction."""
    return len(set(texts)) > 20 and all(re.fullmatch(r"[-+]?\d+[.,]\d+", text) for text in texts)
