"""What a file says of itself: which column is the text, which the label, and what stands between several labels."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from datamodules.labels import split_labels
from reporting.auto.commands import topics_line
from storage.errors import InputError, short, short_list
from storage.tables import JOIN, Row, composed, is_blank, is_missing, is_text, text_columns, text_of

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
SURE_LABEL_NAMES = ("label", "labels", "class", "classes", "category", "categories")  # whatever stands there
LABEL_NAMES = (
    *SURE_LABEL_NAMES,
    *("target", "topic", "intent", "sentiment", "emotion", "tag", "y", "rating", "stars"),
    *("klasse", "kategorie", "thema", "kennzeichnung", "einstufung", "gruppe", "etikett", "rubrik", "sparte"),
    *("klassen", "kategorien", "themen", "etiketten"),
    *("classe", "categorie", "catégorie", "étiquette", "etiqueta", "categoria", "categoría", "clase", "etichetta"),
    *("topics", "tags", "genre", "genres"),  # which stand beside other labels, too
)
LIKELY_LABEL_NAMES = (
    *("department", "priority", "severity", "urgency", "abteilung", "priorität", "dringlichkeit"),
)  # of columns that go before others which look like labels
SIDE_NAMES = (
    *("split", "fold", "set", "subset", "partition", "lang", "language", "locale", "sprache", "langue", "idioma"),
    *("date", "day", "month", "year", "time", "timestamp", "datum", "monat", "jahr", "zeit", "fecha"),
)  # of columns that stand beside texts and their labels, and are neither where there is another
NAMES_OF_LISTS = (
    *("author", "authors", "autor", "autoren", "keywords", "address", "place", "location", "adresse", "ort"),
)  # of columns whose lists are no labels
DATE = r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([T ].*)?"
SEPARATORS = "|;,"  # between the labels of a text, where it has several
LISTS = "lists"  # in place of a separator: cells are lists, in CSV as JSON
GUESS = "guess"  # in place of a separator: what the cells say
MOST_CLASSES = 0.5  # of the rows; more different values are no classes
FEW = 0.34  # of the rows; up to so many different values, and 1,000, are classes whatever their column is called
MOSTLY = 0.9  # of the values of a column, that are strings, or single words
PROSE = 5  # words on the mean, from which different values are texts, whatever their column is called
SPARSE = 0.5  # of the rows that another column of texts fills, below which one is mostly empty
KNOWN_PARTS = 0.8  # of the parts of cells with a separator, that stand in other cells too, from which they are labels
FLAGS = ({"0", "1"}, {"0.0", "1.0"}, {"false", "true"})  # cells that say whether a label applies
NEVER = ({"0"}, {"0.0"}, {"false"})  # that none does
URL = r"(https?://|www\.)\S+"
UNSPACED = re.compile(  # characters of scripts that set no space between words
    "[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)  # Thai, Lao, Khmer, Hiragana, Katakana, Chinese characters
QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
OF_NUMPY = re.compile(rf"\bnp\.str_\(({QUOTED})\)")  # a text in a list, as NumPy 2 shows it
SIDE_BY_SIDE = re.compile(rf"({QUOTED}|-?\d[\d.]*)(\s+(?=['\"]|-?\d))?")  # a value of a list, perhaps without a comma
BARE_LIST = re.compile(r"""\[((?!\s*')[^\[\]"]*)\]""")


def words_in(text: str) -> int:
    """How many words a text has; of scripts that set no space between words each character counts as one."""
    if text.isascii():
        return len(text.split())
    spaced, characters = UNSPACED.subn(" ", text)
    return characters + len(spaced.split())


def guess_separator(cells: Iterable[Any]) -> str | None:
    """What stands between the labels of a text, `LISTS` where cells are lists, None where each is one label.

    Where a cell is a list of names as JSON, all are to be lists: beside a plain name it would be taken for one itself.
    Lists without quotes, as Spark writes them, are lists where all cells are and one holds several.

    A separator is taken for one where the parts of the cells that hold it stand in other cells too, alone or beside
    other labels: "Sci/Tech" and "Food, Drink" are one label each, and so is the number "1,5".
    """
    filled = [cell for cell in cells if cell is not None and str(cell).strip()]
    lists = list(map(_listed, filled))
    if filled and (None not in lists or any(map(holds_names, filled))):
        return LISTS
    if None in lists and _are_bare_lists(filled):
        return LISTS
    different = {str(cell) for cell in filled}
    for separator in SEPARATORS:
        joined = [cell for cell in different if separator in cell]
        cells_of = Counter(part for cell in different for part in {part.strip() for part in cell.split(separator)})
        parts = [part.strip() for cell in joined for part in cell.split(separator)]
        is_known = sum(cells_of[part] > 1 for part in parts) >= KNOWN_PARTS * len(parts)
        if joined and is_known and not (are_numbers(joined) and _may_be_one(joined, separator)):
            return separator
    return None


def _may_be_one(numbers: Sequence[str], separator: str) -> bool:
    """Whether each of these may be one number: a decimal has one comma, thousands have three digits after each."""
    are_thousands = all(re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+", number.strip()) for number in numbers)
    return are_thousands or not any(number.strip().strip(separator).count(separator) > 1 for number in numbers)


def commas_in_numbers(cells: Iterable[Any]) -> str | None:
    """The first of the cells that are numbers with a comma, where what stands before and after it mostly stands alone
    in other cells: they may be two labels each. None where there are none."""
    different = dict.fromkeys(str(cell).strip() for cell in cells if not is_blank(cell))
    joined = [cell for cell in different if "," in cell]
    parts = [part.strip() for cell in joined for part in cell.split(",")]
    is_likely = joined and are_numbers(joined) and sum(part in different for part in parts) >= KNOWN_PARTS * len(parts)
    return joined[0] if is_likely else None


def holds_names(cell: Any) -> bool:
    """Whether a cell is text that holds a list of names."""
    parts = json_list(cell)
    return bool(parts) and all(isinstance(part, str) for part in parts or ())


def _listed(cell: Any) -> Sequence[Any] | None:
    return cell if isinstance(cell, list | tuple) else json_list(cell)


def _are_bare_lists(cells: Sequence[Any]) -> bool:
    lists = list(map(list_in, cells))
    has_words = any(letter.isalpha() for own in lists for part in own or () for letter in str(part))
    return None not in lists and has_words and any(len(own or ()) > 1 for own in lists)


def json_list(cell: Any) -> list[Any] | None:
    """The list that a cell holds, as JSON or as Python or NumPy write it; None where it holds something else."""
    if not isinstance(cell, str) or not cell.strip().startswith("["):
        return None
    for parsed in (json.loads, _literal):
        try:
            value = parsed(cell.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        return value if isinstance(value, list) else None
    return None


class NoLabels(InputError):
    """No column of a table looks like labels, and none was named.

    Attributes:
        why: the line without what finds topics.
        text: the column of the texts.
        lacks_texts: whether rows have none.
    """

    def __init__(self, why: str, topics: str, text: str, lacks_texts: bool) -> None:
        super().__init__(f"{why}; {topics}")
        self.why, self.text, self.lacks_texts = why, text, lacks_texts


def _literal(text: str) -> Any:
    """A value as Python writes it, or a list as NumPy does, which sets no commas: two texts would be read as one."""
    plain = OF_NUMPY.sub(r"\1", text)
    return ast.literal_eval(SIDE_BY_SIDE.sub(lambda value: value[1] + ("," if value[2] else ""), plain))


def list_in(cell: Any) -> Sequence[Any] | None:
    """The list that a cell is or holds, its texts in quotes or, as Spark and Hive write them, without; None where it
    holds something else."""
    if (parts := _listed(cell)) is not None or not isinstance(cell, str):
        return parts
    bare = BARE_LIST.fullmatch(cell.strip())
    return [part.strip() for part in bare[1].split(",") if part.strip()] if bare else None


def guess_columns(
    columns: Sequence[str],
    rows: Sequence[Row],
    text: str | None,
    label: str | None,
    file: str,
    typed: Mapping[str, Any] | None = None,
    words: Sequence[str] = (),
) -> tuple[str, str, list[str], dict[str, list[str]]]:
    """The column of the texts, that of the labels, which of the two ("text", "label") were guessed, and for either the
    columns that may be meant in place of the one that was taken.

    Known names count first, English, German and some others, unless what stands there looks like no text or is mostly
    empty and another column does better. Among several, and without one, the text is the longest column of several
    words or mostly different values and the label the last column of few short values. Headlines are joined to the
    text.

    Raises:
        InputError: a named column is not there or holds objects, or nothing looks like a text or a label.
    """
    for key, name in (("text_column", text), ("label_column", label)):
        parts = [] if name is None else text_columns(columns, name)
        if not set(parts) <= set(columns):
            raise InputError(f"{key}: found {short(str(name))}; allowed in {file}: one of {short_list(columns)}")
        _refuse_objects(file, parts, rows)
    guessed = [kind for kind, name in (("text", text), ("label", label)) if name is None]
    labels = [] if label is None else text_columns(columns, label)
    looks = {name: _Column([row.get(name) for row in rows]) for name in columns}
    others: dict[str, list[str]] = {"text": [], "label": []}
    if text is None:
        sure = [name for name in columns if _is_named(name, SURE_LABEL_NAMES)]
        usual = [name for name in columns if _is_named(name, LABEL_NAMES) and looks[name].may_be_label]
        free = [name for name in columns if name not in (*labels, *sure, *usual)]
        text, others["text"] = _guess_text(free, looks)
        if text is None:
            _refuse_objects(file, columns, rows)
            raise InputError(f"{file}: no column looks like texts; allowed: text_column=NAME of {short_list(columns)}")
        text = _with_headlines(text, [name for name in columns if looks[name].is_headline and name not in labels])
    if label is None:
        free = [name for name in columns if name not in text_columns(columns, text)]
        label, others["label"] = _guess_label(free, looks)
        _refuse_objects(file, columns if label is None else [label], rows)
        if label is None:
            lacks_texts = any(not is_text(text_of(row, text)) for row in rows)
            raise NoLabels(
                f"{file}: no column looks like labels (label_column=NAME of {short_list(columns)} says which)",
                topics_line(file, text, typed or {}, lacks_texts, words),
                text,
                lacks_texts,
            )
    taken = {label, *labels, *text_columns(columns, text)}
    return text, label, guessed, {kind: [name for name in names if name not in taken] for kind, names in others.items()}


def _refuse_objects(file: str, columns: Iterable[str], rows: Sequence[Row]) -> None:
    for name in columns:
        cells = [row[name] for row in rows if row.get(name) is not None]
        if cells and all(isinstance(cell, dict) for cell in cells):
            shown = f"column {short(name)} holds objects, as {short(cells[0], 40)}"
            allowed = "texts and labels in columns of their own (pandas: json_normalize)"
            raise InputError(f"{file}: {shown}; allowed: {allowed}")


def _guess_text(free: Sequence[str], looks: Mapping[str, _Column]) -> tuple[str | None, list[str]]:
    """The column of the texts, None where none looks like one, and those whose names say as much."""
    usual = [name for name in free if _is_named(name, TEXT_NAMES) and looks[name].are_strings]
    likely = [name for name in free if looks[name].is_text or (name in usual and not looks[name].is_reference)] or usual
    sure = [name for name in likely if not looks[name].is_weak and (name in usual or looks[name].is_prose)]

    def is_behind(name: str) -> bool:
        """Whether one of the sure columns goes before this one, which looks like no text or is mostly empty."""
        own = looks[name]
        if own.is_weak and any(looks[other].filled >= SPARSE * own.filled for other in sure):
            return True
        beside = [other for other in sure if not (looks[other].is_headline and _is_named(other, HEADLINE_NAMES))]
        return any(own.filled < SPARSE * looks[other].filled for other in beside)  # headlines are joined to it

    kept = [name for name in likely if not is_behind(name)]
    text = max(kept, key=lambda name: (name in usual, looks[name].has_words, looks[name].length), default=None)
    return text, [name for name in usual if name in likely and not looks[name].is_id]


def _guess_label(free: Sequence[str], looks: Mapping[str, _Column]) -> tuple[str | None, list[str]]:
    """The column of the labels, None where none looks like one, and those that look as much like it."""
    known = [name for name in free if _is_named(name, LABEL_NAMES) and looks[name].may_be_label]
    known = known or [name for name in free if _is_named(name, SURE_LABEL_NAMES)]
    known.sort(key=lambda name: LABEL_NAMES.index(_plain(name)))  # the surest name first
    few = [name for name in free if looks[name].is_label]
    few = [name for name in few if not (looks[name].has_several and _is_named(name, NAMES_OF_LISTS))]
    if known:
        is_sure = _is_named(known[0], SURE_LABEL_NAMES)
        others = [] if is_sure else [name for name in few if name not in known and not _is_named(name, SIDE_NAMES)]
        return known[0], [name for name in [*known, *others] if looks[name].tells_rows_apart]
    few.sort(key=lambda name: not looks[name].has_several)  # as keywords beside the labels have
    likely = [name for name in few if looks[name].tells_rows_apart and not _is_named(name, SIDE_NAMES)] or few
    usual = [name for name in likely if _is_named(name, LIKELY_LABEL_NAMES)]
    usual.sort(key=lambda name: LIKELY_LABEL_NAMES.index(_plain(name)))
    return next(iter([*usual, *likely[::-1]]), None), likely


def _with_headlines(text: str, free: Sequence[str]) -> str:
    """`TITLE+BODY` where columns that are called headlines stand beside the texts."""
    headlines = [name for name in free if _is_named(name, HEADLINE_NAMES)]
    return text if text in headlines or JOIN in text else JOIN.join([*headlines, text])


def called_as(kinds: Sequence[str], columns: Iterable[str]) -> list[str]:
    """The columns whose names say that they may be what was guessed, "text" or "label"."""
    names = {"text": (*TEXT_NAMES, *HEADLINE_NAMES), "label": LABEL_NAMES}
    return [column for column in columns if any(_is_named(column, names[kind]) for kind in kinds)]


def flag_columns(columns: Sequence[str], rows: Sequence[Row], likely: Sequence[str]) -> list[str]:
    """Those of the columns that hold nothing but 0 and 1, or true and false: both of them and among the `likely`, or
    0 or false alone beside several of these, as of a rare label. None where fewer than two hold both."""
    cells = {column: [row.get(column) for row in rows] for column in columns}
    values = {name: {str(cell).strip().lower() for cell in own if not is_missing(cell)} for name, own in cells.items()}
    flags = [column for column in likely if values[column] in FLAGS]
    rare = [column for column in columns if values[column] in NEVER]
    return [column for column in columns if column in {*flags, *rare}] if len(flags) > 1 else []


def _is_named(name: str, names: Sequence[str]) -> bool:
    return _plain(name) in names


def _plain(name: str) -> str:
    return composed(name).strip().lower()


class _Column:
    """What the first values of a column look like."""

    def __init__(self, values: Sequence[Any]) -> None:
        as_text = partial(json.dumps, ensure_ascii=False, default=str)
        cells = [value for value in values if not is_blank(value)]
        plain = [as_text(value) if isinstance(value, list) else value for value in cells]
        texts = [str(value).strip() for value in plain if not isinstance(value, dict)]
        different = len(set(texts))
        are_different = different > 0.5 * len(texts)
        self.filled = len(texts) / max(len(values), 1)
        self.length = sum(map(len, texts)) / max(len(texts), 1)
        words = [words_in(text) for text in texts]
        mean_words = sum(words) / max(len(texts), 1)
        strings = sum(isinstance(value, str) for value in cells)
        self.are_strings = bool(texts) and strings >= MOSTLY * len(cells)
        self.has_words = mean_words >= 2
        self.is_reference = are_numbers(texts) or all(re.fullmatch(URL, text) for text in texts)
        self.is_text = self.are_strings and (self.has_words or are_different) and not self.is_reference
        self.is_prose = self.is_text and are_different and mean_words >= PROSE
        kinds = len({re.sub(r"\d+", "", text) for text in texts})  # "Order 17" and "Order 18" are one
        self.is_headline = self.are_strings and self.has_words and kinds > 0.5 * len(values)
        self.is_label = _are_few(texts, min(1000, FEW * len(texts)))
        self.may_be_label = _are_few(texts, MOST_CLASSES * len(texts))  # where its name says so
        parts = [] if self.is_label else _several([cell for cell in cells if not isinstance(cell, dict)])
        self.has_several = _are_few(parts, min(1000, FEW * len(texts)))
        self.is_label |= self.has_several
        self.may_be_label |= _are_few(parts, MOST_CLASSES * len(texts))
        self.is_id = are_different and sum(number <= 1 for number in words) >= MOSTLY * len(texts)
        self.is_weak = self.is_id or self.is_label  # as a column of texts
        are_dates = all(re.fullmatch(DATE, text) for text in texts)
        self.tells_rows_apart = different >= 2 and not are_dates


def _are_few(labels: Sequence[str], most: float) -> bool:
    """Whether these are short, and no more than so many differ."""
    number = max(len(labels), 1)
    is_short = sum(map(len, labels)) <= 60 * number and sum(len(label.split()) for label in labels) <= 6 * number
    return bool(labels) and is_short and not _fractions(labels) and len(set(labels)) <= max(2, most)


def _several(cells: Sequence[Any]) -> list[str]:
    """The labels of all cells where these hold several; none where they look otherwise: of labels some cells hold more
    than others, and few the same twice."""
    if (separator := guess_separator(cells)) is None:
        return []
    lists = map(list_in, cells) if separator == LISTS else (split_labels(str(cell), separator) for cell in cells)
    parts = [[str(part).strip() for part in own or ()] for own in lists]
    once = sum(len(set(own)) == len(own) for own in parts)
    is_usual = once >= MOSTLY * len(parts) and len({len(own) for own in parts}) > 1
    return list(chain.from_iterable(parts)) if is_usual else []


def are_numbers(texts: Sequence[str]) -> bool:
    """Whether these are numbers, dates or times."""
    return all(re.fullmatch(r"[-+\d.,:/ TZ]+", text) for text in texts)


def _fractions(texts: Sequence[str]) -> bool:
    """Whether these are measurements: many different numbers with a fraction."""
    return len(set(texts)) > 20 and all(re.fullmatch(r"[-+]?\d+[.,]\d+", text) for text in texts)
