"""A file that a person has: its labelled rows, texts without a label, what is to be said of them. Needs no torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from datamodules.labels import split_labels
from datamodules.markup import MARKUP, without_markup
from reporting.auto.commands import topics_line
from storage.command_words import in_shell_quotes, quoted
from storage.errors import InputError, short, short_list
from storage.files import expanded
from storage.tables import (
    JOIN,
    TAB,
    Row,
    Table,
    checked_delimiter,
    checked_encoding,
    format_of,
    is_blank,
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
from tasks.auto.reading.checks import (
    likely_flags,
    notes_on_columns,
    notes_on_flags,
    notes_on_no_values,
    refuse_no_header,
    refuse_values,
    refuse_whole_columns,
    separator_of_flags,
    with_flags,
)
from tasks.auto.reading.guesses import (
    GUESS,
    LISTS,
    LOOKED_AT,
    PROSE,
    called_as,
    commas_in_numbers,
    guess_columns,
    guess_separator,
    holds_names,
    list_in,
    words_in,
)
from tasks.auto.reading.labelled import Label, Labelled


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
    refuse_whole_columns(file, table, first)
    columns = list(table.columns or dict.fromkeys(key for _, row in first for key in row))
    rows = [row for _, row in first]
    text, label, guessed, others = guess_columns(columns, rows, text_column, label_column, file, typed, words)
    labels = text_columns(columns, label)
    table.refuse_uncalculated([*text_columns(columns, text), *labels, *called_as(guessed, columns)])
    if len(labels) > 1:
        separator = separator_of_flags(separator)
    if "label" in guessed and table.columns:
        refuse_no_header(table.header, label, first)
    is_like_a_row = table.line is not None and any(words_in(name) >= PROSE for name in text_columns(columns, text))
    if is_like_a_row and {"text", "label"} <= set(guessed):
        refuse_values(table, text_columns(columns, text), label, rows)
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
    data.notes += notes_on_columns(data, others, columns if is_like_a_row else (), rows)
    flags = likely_flags(columns, rows, text, [label, *others["label"]]) if "label" in guessed else []
    _add_rows(data, with_flags(chain(first, table.rows), flags), markup, separator)
    data.notes += notes_on_flags(flags)
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
    data.notes += notes_on_no_values(counts, [*data.texts, *data.unlabelled])
    data.about |= {"unlabelled_rows": len(data.unlabelled), "markup_rows": marked}
    if data.unlabelled:
        number = sum(isinstance(cell, str) and cell.strip().lower() == "nan" for cell in cells)
        counted = f", {number} of them with {short('nan')}, which counts as empty" if number else ""
        data.notes.append(f"{len(data.unlabelled)} rows without a label{counted}")
    if marked:
        what = "is taken out" if markup == "strip" else "stays (markup=strip takes it out)"
        data.notes.append(f"{marked} rows hold markup, such as {example}, which {what}")


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
