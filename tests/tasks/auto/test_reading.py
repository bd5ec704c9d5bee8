"""What people have in their files: columns guessed, faults in a line."""

import csv
import json
import shlex
import subprocess
import unicodedata
from datetime import date
from pathlib import Path

import openpyxl
import pandas as pd
import pytest
from omegaconf import OmegaConf

from datamodules.builders.user_files import Csv
from engine.finished import _read_alike
from engine.identify import compose_run
from reporting.auto.commands import predict_line
from storage.command_words import quoted
from storage.errors import InputError
from storage.run_store import RunFolder
from storage.tables import open_table
from tasks.auto import _name_of, _read, next_lines
from tasks.auto.candidates.plans import plan_of
from tasks.auto.comparison.clock import Clock
from tasks.auto.model.judged import read_test, reading_words_of, rows_shared
from tasks.auto.reading.guesses import LISTS, LOOKED_AT, guess_columns, guess_separator, list_in, words_in
from tasks.auto.reading.labelled import Labelled, label_more_line, why_no_more_labels
from tasks.auto.reading.rows import max_length_for
from tasks.auto.reading.table import read_labelled, read_texts
from tests.command_lines import command

TEXTS = [f"a text of some words, number {number}" for number in range(12)]
TITLES = [f"title {number}" for number in range(12)]
LABELS = ["red", "green", "blue"] * 4
CHINESE = [f"这部电影非常好看{number}" for number in range(12)]
TAGS = ["p, q", "q", "p, r", "r, q, s", "s, p", "s", "p", "r", "q, p,", "r, s", "p, q, s", "q, r"]  # all different
SPARSE = [*[f"{text}, and a remark that is much longer than these are" for text in TEXTS[:4]], *8 * [""]]
MARKED = "1 rows hold markup, such as '<p>', which stays (markup=strip takes it out)"


def write(path, header, rows, encoding="utf-8", delimiter=","):
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter).writerows([header, *rows])
    return str(path)


def test_columns_with_german_names_in_another_encoding(tmp_path):
    rows = [(number, text, f"größe {label}") for number, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))]
    file = write(tmp_path / "a.csv", ("Nr", "Nachricht", "Kategorie"), rows, "cp1252", ";")
    data = read_labelled(file).checked()
    assert (data.texts, data.lines) == (TEXTS, list(range(2, 14)))
    assert data.labels[:2] == ["größe red", "größe green"]
    assert data.about["text_columns"] == ["Nachricht"] and data.about["label_column"] == "Kategorie"
    assert data.about["guessed"] == ["text", "label"] and data.about["delimiter"] == ";"


HEADLINES = [f"{word} is the title" for word in "abcdefghijkl"]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"Title": HEADLINES, "body": TEXTS, "label": LABELS}, "Title+body"),
        ({"Text": TEXTS, "label": LABELS, "Betreff": HEADLINES}, "Betreff+Text"),
        ({"title": HEADLINES, "subject": HEADLINES[::-1], "body": TEXTS, "label": LABELS}, "title+subject+body"),
        ({"title": HEADLINES, "label": LABELS}, "title"),
        ({"title": TITLES, "body": TEXTS, "label": LABELS}, "body"),  # numbered
        ({"title": [f"x{word}" for word in HEADLINES[0]] * 12, "body": TEXTS, "label": LABELS}, "body"),
        ({"title": ["of a kind", "of others"] * 6, "body": TEXTS, "label": LABELS}, "body"),
        ({"title": [*HEADLINES[:5], *7 * [""]], "body": TEXTS, "label": LABELS}, "body"),
        ({"name": HEADLINES, "body": TEXTS, "label": LABELS}, "body"),
        ({"title": HEADLINES, "body": SPARSE, "label": LABELS}, "title+body"),
    ],
)
def test_headlines_are_joined_to_the_texts_beside_them(tmp_path, columns, expected):
    file = write(tmp_path / "a.csv", columns, zip(*columns.values(), strict=False))
    data = read_labelled(file)
    assert data.about["text_columns"] == [expected] and data.about["label_column"] == "label"
    assert data.about["alone"] == (expected.split("+")[-1] if "+" in expected else None)
    assert data.texts[0] == "\n".join(columns[part][0] for part in expected.split("+"))
    assert read_labelled(file, text_column="label", label_column="label").about["alone"] is None


@pytest.mark.parametrize(
    ("encoding", "typed", "told"),
    [
        ("utf-8", None, "utf-8"),
        ("utf-8-sig", None, "utf-8"),
        ("cp1252", None, "cp1252"),
        ("utf-16", None, "utf-16"),
        ("latin2", "latin2", "latin2"),
    ],
)
def test_the_encoding_that_was_read_is_told(tmp_path, encoding, typed, told):
    rows = [*zip(TEXTS, LABELS, strict=True), ("größe", "red")]  # beyond ASCII in the last row alone
    data = read_labelled(write(tmp_path / "a.csv", ("text", "label"), rows, encoding), encoding=typed)
    assert data.about["encoding"] == told and data.texts[-1] == "größe"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"a": TEXTS, "b": LABELS}, ("a", "b")),
        ({"id": list(map(str, range(12))), "b": LABELS, "a": TEXTS}, ("a", "b")),
        ({"title": TITLES, "body": TEXTS, "score": ["1.5", "2"] * 6, "topic": LABELS}, ("body", "topic")),
        ({"when": [f"2024-01-{d:02}" for d in range(1, 13)], "x": TEXTS, "group": ["1", "0"] * 6}, ("x", "group")),
        ({"sentence": TEXTS, "label": [0, 1, 1] * 4}, ("sentence", "label")),
        ({"rating": ["5", "1"] * 6, "tag": LABELS, "text": TEXTS, "label": LABELS}, ("text", "label")),
        ({"url": [f"https://example.org/pages/of/some/{n}" for n in range(12)], "a": TEXTS, "b": LABELS}, ("a", "b")),
        ({"a": ["good day", "not so good"] * 6, "label": [text * 2 for text in TEXTS]}, ("a", "label")),
        ({"a": TEXTS, "team": LABELS, "lang": ["en"] * 12}, ("a", "team")),
        ({"a": TEXTS, "team": LABELS, "split": ["train", "test"] * 6, "year": [2024, 2025] * 6}, ("a", "team")),
        ({"a": TEXTS, "b": LABELS, "on": [date(2024, 1, 1), date(2024, 1, 2)] * 6}, ("a", "b")),
        ({"a": TEXTS, "b": LABELS, "days": [[date(2024, 1, 1)]] * 12}, ("a", "b")),
        ({"a": [404, *TEXTS[1:]], "b": LABELS}, ("a", "b")),
        ({"a": TEXTS, "same": ["en"] * 12}, ("a", "same")),
        ({"a": TEXTS, "Priority": LABELS, "done": ["yes", "no"] * 6}, ("a", "Priority")),
        ({"a": TEXTS, "b": TAGS}, ("a", "b")),
        ({"a": TEXTS, "b": [tags.rstrip(",").split(", ") for tags in TAGS]}, ("a", "b")),
        ({"a": TEXTS, "tags": TAGS, "done": ["yes", "no"] * 6}, ("a", "tags")),
        ({"a": TEXTS, "b": LABELS, "words": TAGS}, ("a", "b")),
        ({"a": TEXTS, "rating": ["5", "1"] * 6, "tags": TAGS}, ("a", "rating")),
        ({"a": TEXTS, "same": ["en"] * 12, "authors": TAGS}, ("a", "same")),
        ({"status": LABELS, "a": TEXTS, "spam": ["yes", "no"] * 6}, ("a", "spam")),
        ({"topics": TEXTS, "b": LABELS}, ("topics", "b")),
        ({"a": TEXTS, "place": [f"{'xy'[n % 2]}, {'pqr'[n % 3]}" for n in range(12)], "b": TAGS}, ("a", "b")),
        ({"text": TEXTS, "label": LABELS, "comment": SPARSE}, ("text", "label")),
        ({"passage": TEXTS, "label": LABELS, "comment": SPARSE}, ("passage", "label")),
        ({"author": [f"Jo {word}" for word in "abcdefghijkl"], "text": SPARSE, "label": LABELS}, ("text", "label")),
        ({"subject": ["maths", "physics"] * 6, "comment": SPARSE, "label": LABELS}, ("comment", "label")),
        ({"post": [f"{10001 + n}" for n in range(12)], "passage": TEXTS, "label": LABELS}, ("passage", "label")),
        ({"document": [f"d{n}" for n in range(12)], "passage": TEXTS, "label": LABELS}, ("passage", "label")),
        ({"document": [f"d{n}" for n in range(12)], "label": LABELS}, ("document", "label")),
        ({"title": ["Head of Sales", "Buyer"] * 6, "answer": TEXTS, "label": LABELS}, ("answer", "label")),
        ({"link": [f"https://example.org/{n}" for n in range(12)], "a": list("abcdefghijkl"), "b": LABELS}, ("a", "b")),
        ({"text": TEXTS, "intent": list("abcdef") * 2, "split": ["train", "test"] * 6}, ("text", "intent")),
        ({"author": [f"Li Wei {n}" for n in range(12)], "内容": CHINESE, "b": LABELS}, ("内容", "b")),
        ({"a": TEXTS, "b": ["电子产品及数码配件", "图书音像及电子出版物", "食品饮料及保健品"] * 4}, ("a", "b")),
    ],
)
def test_names_count_first_then_contents(columns, expected):
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    assert guess_columns(list(columns), rows, None, None, "f.csv")[:2] == expected


def test_a_letter_with_an_accent_is_one_however_it_is_written(tmp_path):
    apart = [unicodedata.normalize("NFD", name) for name in ("Überschrift", "Catégorie", "Café")]
    assert apart[0] != "Überschrift"
    rows = zip(TEXTS, [apart[2], "Café", "Bar"] * 4, strict=True)
    file = write(tmp_path / "a.csv", apart[:2], rows)
    guessed, named = read_labelled(file), read_labelled(file, "Überschrift", "Catégorie")
    assert guessed.about["label_column"] == apart[1] and named.texts == TEXTS
    assert guessed.rows_of_label() == named.rows_of_label() == {"Café": 8, "Bar": 4}
    dataset = Csv(train=file, text_column="Überschrift", label_column="Catégorie")
    assert [row["label"] for row in dataset.rows({})["train"]][:2] == [apart[2], "Café"]  # one class once it is checked
    table = open_table(file).with_labels("Catégorie", "a hint")
    assert next(table.rows)[1] == {apart[0]: TEXTS[0], apart[1]: apart[2], "Catégorie": apart[2]}


def test_a_column_that_is_named_is_taken(tmp_path):
    file = write(tmp_path / "a.csv", ("text", "label", "other"), zip(TEXTS, LABELS, LABELS[::-1], strict=True))
    assert read_labelled(file, label_column="other").labels == LABELS[::-1]
    with pytest.raises(InputError, match="label_column: found 'missing'; allowed in .*'text', 'label', 'other'"):
        read_labelled(file, label_column="missing")


def test_columns_are_joined_and_empty_parts_left_out(tmp_path):
    file = tmp_path / "mails.csv"
    lines = [f'"subject {n}",body {n},{"ab"[n % 2]}' for n in range(11)]
    file.write_text("\n".join(["title,body,kind", *lines, ",alone,a", " ,,b"]))
    data = read_labelled(str(file), text_column="title+body")
    assert data.texts[0] == "subject 0\nbody 0" and data.texts[-1] == "alone" and len(data.texts) == 12
    assert data.about["text_columns"] == ["title+body"] and data.about["label_column"] == "kind"
    with pytest.raises(InputError, match=r"text_column: found 'title\+text'; allowed in"):
        read_labelled(str(file), text_column="title+text")


def test_other_columns_that_could_hold_labels_are_said_and_one_class_names_its_column(tmp_path):
    rows = zip(TEXTS, LABELS, LABELS[::-1], ["same"] * 12, strict=True)
    file = write(tmp_path / "a.csv", ("text", "team", "place", "same"), rows)
    data = read_labelled(file)
    assert data.about["label_column"] == "place"
    assert data.notes == ["labels may also stand in 'team': label_column=NAME"]
    with pytest.raises(InputError, match="one class only in column 'same', 'same'; allowed"):
        read_labelled(file, label_column="same").checked()


def test_other_columns_that_are_called_as_texts_or_labels_are_said_too(tmp_path):
    columns = {"text": TEXTS, "category": LABELS, "comment": SPARSE, "sentiment": LABELS[::-1], "topic": ["one"] * 12}
    data = read_labelled(write(tmp_path / "a.csv", columns, zip(*columns.values(), strict=True)))
    assert (data.about["text_columns"], data.about["label_column"]) == (["text"], "category")
    assert data.notes == [
        "texts may also stand in 'comment': text_column=NAME", "labels may also stand in 'sentiment': label_column=NAME"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "number"),
    [("two words", 2), ("große Wörter", 2), ("你好 世界", 4), ("新しい iPhoneケース", 7), ("ภาษา", 4), ("", 0)],
)
def test_characters_of_scripts_without_spaces_are_words(text, number):
    assert words_in(text) == number


def test_how_much_of_texts_is_read_follows_rows_spread_over_the_file(monkeypatch):
    assert max_length_for(["字" * 500] * 3) == 256 and max_length_for(["a few words"] * 3) == 128
    texts = ["word " * 100, *["short"] * 4] * 2
    assert max_length_for(texts) == 128
    monkeypatch.setattr("tasks.auto.reading.rows.MOST_ROWS", 2)
    assert max_length_for(texts) == 256  # the first of each half


def test_texts_are_compared_only_as_far_as_the_answer_needs(monkeypatch):
    compared = []
    monkeypatch.setattr("tasks.auto.reading.labelled.folded", lambda text: compared.append(text) or text)
    data = Labelled("a.csv", TEXTS, LABELS, list(range(2, 14)))
    data.leave_out_labelled()
    assert data.checked() is data and compared == TEXTS[:5]


@pytest.mark.parametrize(
    ("labels", "looks_merged"),
    [
        (["red", "", "", "green", "", "", "blue", "red", "", "", "", ""], True),
        (["red", "green", "blue", "red", *8 * [""]], False),  # labelled so far
        (["red", "", "", "red", "", "", "blue", "", "", "", "", ""], False),  # one label twice in a row
        (["", "red", "", "", "green", "", "", "blue", "", "", "", ""], False),
    ],
)
def test_labels_of_merged_cells_are_told_from_rows_without_one(tmp_path, labels, looks_merged):
    book = openpyxl.Workbook()
    for row in [("text", "label"), *zip(TEXTS, labels, strict=True)]:
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    said = [note for note in read_labelled(str(tmp_path / "a.xlsx")).notes if "looks merged" in note]
    assert len(said) == looks_merged
    as_csv = read_labelled(write(tmp_path / "a.csv", ("text", "label"), zip(TEXTS, labels, strict=True)))
    assert not any("merged" in note for note in as_csv.notes)


def test_formulas_without_values_are_refused_where_they_may_be_texts_or_labels(tmp_path):
    def read(name, **columns):
        book = openpyxl.Workbook()
        for row in [("text", name, "kind"), *((text, "=1+1", place % 2) for place, text in enumerate(TEXTS))]:
            book.active.append(row)
        book.save(tmp_path / "a.xlsx")
        return read_labelled(str(tmp_path / "a.xlsx"), **columns)

    assert read("words").labels == read("topic", label_column="kind").labels == ["0", "1"] * 6
    for columns in ({}, {"label_column": "topic"}):
        with pytest.raises(InputError, match="a.xlsx: column 'topic' holds formulas without values; allowed: values"):
            read("topic", **columns)


def test_objects_that_lack_keys_and_numbers_that_have_become_fractions(tmp_path):
    file = tmp_path / "a.jsonl"
    rows = [{"text": text, "label": float(place % 2)} for place, text in enumerate(TEXTS)]
    rows += [{"label": 1}, {"text": 404, "label": 1}, {"text": "a"}, {"text": "b", "label": float("nan")}]
    file.write_text("\n".join(map(json.dumps, rows)))
    data = read_labelled(str(file))
    assert data.labels == ["0", "1"] * 6 and data.unlabelled == ["a", "b"]
    assert [note.split(" are ")[0] for note in data.notes[:2]] == [
        "1 rows without a text", "1 rows whose text is a number or the like"]  # fmt: skip
    as_pandas = write(tmp_path / "a.csv", ("text", "label"), zip(TEXTS, ["1.0", "0.0", ""] * 4, strict=True))
    assert read_labelled(as_pandas).labels == ["1", "0"] * 4


def test_what_pandas_writes_where_a_text_or_a_list_is_missing_is_no_value(tmp_path):
    file, nan = tmp_path / "a.jsonl", float("nan")
    labels = [["red"], ["red", "green"], nan, ["green"]] * 3
    texts = [nan if place % 6 == 3 else text for place, text in enumerate(TEXTS)]
    file.write_text("\n".join(json.dumps({"text": t, "label": c}) for t, c in zip(texts, labels, strict=True)))
    data = read_labelled(str(file))
    assert data.about["label_separator"] == LISTS and len(data.labels) == 7 and len(data.unlabelled) == 3
    assert data.notes[0] == "2 rows without a text are left out"


def test_columns_of_0_and_1_may_be_labels_of_which_a_text_has_several(tmp_path):
    rows = [(text, place % 2, place // 2 % 2, place % 5) for place, text in enumerate(TEXTS)]
    learned = "label_column=threat+rude learns several labels a text"
    data = read_labelled(write(tmp_path / "a.csv", ("text", "threat", "rude", "stars_"), rows))
    assert f"columns 'threat', 'rude' of 0 and 1 may each be a label; {learned}" in data.notes and not data.several
    assert not read_labelled(write(tmp_path / "b.csv", ("text", "threat", "label", "age"), rows)).notes
    rows = [(*row[:3], 0) for row in rows]  # a label that no row of the beginning has
    notes = read_labelled(write(tmp_path / "c.csv", ("text", "threat", "rude", "rare"), rows)).notes
    assert any("label_column=threat+rude+rare" in note for note in notes)
    rows += [(f"late {number}", 0, 0, 0) for number in range(LOOKED_AT)] + [("last", 0, 0, 5)]
    notes = read_labelled(write(tmp_path / "d.csv", ("text", "threat", "rude", "rare"), rows)).notes
    assert any("label_column=threat+rude learns" in note for note in notes)


def test_columns_of_0_and_1_that_are_named_are_labels(tmp_path):
    flags = [("1", "0", "0"), ("true", "1.0", "0"), ("0", "FALSE", "0"), ("", "", "")] * 3
    rows = [(text, *cells) for text, cells in zip(TEXTS, flags, strict=True)]
    file = write(tmp_path / "a.csv", ("text", "threat", "rude", "rare"), rows)
    data = read_labelled(file, label_column="threat+rude+rare")
    assert data.labels[:3] == [("threat",), ("threat", "rude"), ()] and len(data.unlabelled) == 3
    assert "no labelled row of 'rare': never predicted" in data.notes
    assert why_no_more_labels(data) == "it reads several labels in one column, as a|b, not as columns of 0 and 1"
    dataset = Csv(train=file, label_column="threat+rude+rare", empty_label="unlabelled")
    labels = [row["label"] for row in dataset.rows({})["train"]]
    assert labels[:4] == [["threat"], ["threat", "rude"], [], None]
    (tmp_path / "plus.jsonl").write_text('{"text": "one", "a+b": []}\n')  # a column of that name
    plus = Csv(train=str(tmp_path / "plus.jsonl"), label_column="a+b", empty_label="unlabelled")
    assert [row["label"] for row in plus.rows({})["train"]] == [None]
    with pytest.raises(InputError, match="label_column: found 'threat.rood'; allowed in"):
        read_labelled(file, label_column="threat+rood")
    with pytest.raises(InputError, match=r"label_separator: found '\|' beside a label_column of several"):
        read_labelled(file, label_column="threat+rude", separator="|")
    for cell, shown in (("2", "'2'"), ("", "''")):
        rows[1] = (TEXTS[1], "1", cell, "0")
        with pytest.raises(InputError, match=f"b.csv:3: found {shown} in column 'rude'; allowed: 0 and 1, or false"):
            read_labelled(write(tmp_path / "b.csv", ("text", "threat", "rude", "rare"), rows), "text", "threat+rude")


def test_words_for_no_value_are_said_and_read_as_such_where_they_are_named(tmp_path):
    rows = [*zip(TEXTS, LABELS, strict=True), *((f"more {n}", label) for n, label in enumerate(["NA", "null", "NA"]))]
    file = write(tmp_path / "a.csv", ("text", "label"), [*rows, ("NA", "red"), ("-1", "-1")])
    data = read_labelled(file)
    typed = "\"missing=[NA,'null']\" reads it as empty"
    assert f"label 'NA' (2 rows) counts as a class; {typed}" in data.notes and len(data.rows_of_label()) == 6
    assert f"text 'NA' (1 row) counts as a text; {typed}" in data.notes
    data = read_labelled(file, missing=["NA", None, -1, "XX"])
    assert data.rows_of_label() == {"red": 4, "green": 4, "blue": 4} and len(data.unlabelled) == 3
    assert {"3 cells of 'NA' are read as empty", "missing: no cell is 'XX'"} < set(data.notes)
    assert not any("counts as" in note for note in data.notes)
    assert why_no_more_labels(data).startswith("it reads 'NA', 'NULL', '-1', 'XX' as labels")
    dataset = Csv(train=file)
    _read_alike(dataset, data.about)
    assert dataset.learned_missing == ["NA", "NULL", "-1", "XX"]
    notes = read_labelled(file, missing=["NA", "na"]).notes
    assert "3 cells of 'NA' are read as empty" in notes and not any("no cell" in note for note in notes)
    both = [*rows, ("more", "na"), ("again", "Na")]
    notes = read_labelled(write(tmp_path / "b.csv", ("text", "label"), both)).notes
    assert sum("\"missing=[NA,'null']\"" in note for note in notes) == 4
    tags = [*zip(TEXTS, ["a|b", "a|NA", "b"] * 4, strict=True), ("one more", "null")]
    notes = read_labelled(write(tmp_path / "tags.csv", ("text", "tags"), tags)).notes
    assert [note for note in notes if "counts as" in note] == [
        "label 'null' (1 row) counts as a class; \"missing=['null']\" reads it as empty"
    ]
    flags = [(text, *(("1", "0") if n % 2 else ("-1", "-1"))) for n, text in enumerate(TEXTS)]
    data = read_labelled(write(tmp_path / "f.csv", ("text", "a", "b"), flags), label_column="a+b", missing=[-1])
    assert data.labels == [("a",)] * 6 and len(data.unlabelled) == 6


def test_a_json_file_of_whole_columns_is_told_how_rows_are_written(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"text": dict(enumerate(TEXTS)), "label": dict(enumerate(LABELS))}))
    with pytest.raises(InputError, match="a.json: found one object of 'text', 'label'; allowed: an object for each"):
        read_labelled(str(tmp_path / "a.json"))
    (tmp_path / "a.json").write_text(json.dumps([*zip(TEXTS, LABELS, strict=True)]))
    with pytest.raises(InputError, match="a.json: entry 1: found a list, allowed: objects, as"):
        read_labelled(str(tmp_path / "a.json"))


def test_columns_of_objects_are_told_to_be_flattened(tmp_path):
    rows = [{"text": text, "meta": {"label": label}} for text, label in zip(TEXTS, LABELS, strict=True)]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    for options in ({}, {"label_column": "meta"}, {"text_column": "meta"}):
        with pytest.raises(InputError, match="a.json: column 'meta' holds objects, as {'label': 'red'}; allowed"):
            read_labelled(str(tmp_path / "a.json"), **options)


def test_a_second_file_of_texts(tmp_path):
    file = write(tmp_path / "more.csv", ("text", "label"), [("<b>one</b>", "x"), ("", ""), ("two", "")])
    assert read_texts(file, "text", markup="strip") == ["one", "two"]
    for column, message in (("body", r"more.csv:1: no column 'body' \(the text column of the labelled rows\)"),):
        with pytest.raises(InputError, match=message):
            read_texts(file, column)
    with pytest.raises(InputError, match=r"unlabelled=.*: no texts in column 'text'"):
        read_texts(write(tmp_path / "none.csv", ("text",), [(" ",)]), "text")


def test_a_second_file_is_not_asked_for_what_its_format_lacks(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"column_1": ["one"]}), tmp_path / "more.parquet")
    (tmp_path / "more.jsonl").write_bytes('{"column_1": "größe"}'.encode("cp1252"))
    options = {"encoding": "cp1252", "header": False, "delimiter": ";"}
    assert read_texts(str(tmp_path / "more.parquet"), "column_1", **options) == ["one"]
    assert read_texts(str(tmp_path / "more.jsonl"), "column_1", **options) == ["größe"]
    (tmp_path / "more.jsonl").write_text('{"column_1": "größe"}')
    assert read_texts(str(tmp_path / "more.jsonl"), "column_1", **options) == ["größe"]


def test_a_name_may_begin_with_a_tilde(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write(Path("~$a.csv"), ("text", "label"), zip(TEXTS, LABELS, strict=True))
    assert read_labelled(file).texts == read_texts(file, "text") == TEXTS
    dataset = Csv(train=file, unlabelled=file)
    assert [len(list(rows)) for rows in (dataset.rows({})["train"], dataset.unlabelled_rows())] == [12, 12]
    with pytest.raises(InputError, match="^input=~b.csv: no such file"):
        read_labelled("~b.csv")


def read_by(*words):
    return _read(OmegaConf.create(dict(compose_run(words).config)), list(words), Clock(1))


def test_what_labels_mean_is_read_with_the_file(tmp_path, store):
    codes = [f"C0{number % 3}" for number in range(12)]
    file, names = write(tmp_path / "a.csv", ("text", "label"), zip(TEXTS, codes, strict=True)), tmp_path / "names.yaml"
    words = "task=auto", f"input={file}", f"class_descriptions={names}", *store
    names.write_text("C00: the sea\nC01: the hills\n")
    with pytest.raises(InputError, match="^class_descriptions=.*: no description of 'C02'; allowed: one of each label"):
        read_by(*words)
    names.write_text("C00: the sea\nC01: the hills\nC02: the sky\n")
    data = read_by(*words)
    assert data.descriptions == {"C00": "the sea", "C01": "the hills", "C02": "the sky"}
    assert data.notes == ["the labels are described, as 'C00' by 'the sea'"]
    with pytest.raises(InputError, match="class_descriptions: has no effect with dataset=csv; allowed with input=FILE"):
        read_by("task=auto", "dataset=csv", f"dataset.train={file}", *words[2:])


def test_a_data_set_of_files_hands_on_how_they_are_read(tmp_path, store):
    texts = [f"<i>{text}</i>" for text in TEXTS]
    file = write(tmp_path / "a.csv", ("body", "kind"), zip(texts, LABELS, strict=True), "cp1252", ";")
    columns = ["dataset.text_column=body", "dataset.label_column=kind", "dataset.markup=strip"]
    words = [f"dataset.train={file}", *columns, "dataset.encoding=cp1252", "dataset.delimiter=';'", *store]
    data = read_by("task=auto", "dataset=csv", *words)
    assert data.markup == "strip" and data.texts == TEXTS and data.descriptions == {}
    budget = [*words, f"dataset.test={file}", "dataset.labels=10", "seed=3"]
    kept = read_by("task=auto", "dataset=csv", *budget)
    fitted = plan_of([*budget, "dataset=csv", "method=prototypes", "protocol=fixed"])
    assert kept.texts == fitted.datamodule(fitted.corpus()).texts("train")  # the same as of task=fit
    assert predict_line(tmp_path, data.about).endswith(' encoding=cp1252 delimiter="\';\'" text_column=body')
    assert data.about["label_column"] == "kind"
    plain = write(tmp_path / "b.csv", ("text", "label"), zip(TEXTS, LABELS, strict=True))
    data = read_by("task=auto", "dataset=csv", f"dataset.train={plain}", *store)
    assert predict_line(tmp_path, data.about).endswith(" input=NEW.csv output=predictions.csv")


def test_the_test_rows_that_a_data_set_ships_stay_unread(tmp_path, store, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hub_cache")
    hub, rcv1 = tmp_path / "hub", tmp_path / "rcv1"
    for split in ("train", "val", "test"):
        rows = [{"text": f"{split} {text}", "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]
        for folder, file, parts in (
            (hub, f"{split}.jsonl", [json.dumps(row) for row in rows]),
            (rcv1, f"text_{split}", [row["text"] for row in rows]),
            (rcv1, f"label_{split}", [row["label"] for row in rows]),
        ):
            folder.mkdir(exist_ok=True)
            (folder / file).write_text("\n".join(parts) + "\n")
    for words in (["dataset=rcv1", f"dataset.folder={rcv1}"], ["dataset=hub", f"dataset.path={hub}"]):
        data = read_by("task=auto", *words, *store)
        assert len(data.texts) == 12 and "its test rows are not read" in data.notes
    data = read_by("task=auto", "dataset=hub", f"dataset.path={hub}", "dataset.test_split=null", *store)
    assert len(data.texts) == 12 and "its test rows are not read" not in data.notes


def test_a_data_set_says_what_its_codes_mean(tmp_path, store):
    stars = [f"{number % 3 + 1}" for number in range(12)]
    rows = zip(TEXTS, stars, TITLES, ["en"] * 12, strict=True)
    file = write(tmp_path / "a.csv", ("review_body", "stars", "review_title", "language"), rows)
    data = read_by("task=auto", "dataset=amazon_reviews", f"dataset.train={file}", *store)
    assert list(data.descriptions) == ["1", "2", "3"] and data.descriptions["3"].startswith("three stars")


def test_rows_without_text_or_label_are_set_aside_and_said(tmp_path):
    rows = [*zip(TEXTS, LABELS, strict=True), ("\u200b", "red"), ("<p>unknown</p>", "")]
    data = read_labelled(write(tmp_path / "a.csv", ("text", "label"), rows))
    assert data.unlabelled == ["<p>unknown</p>"] and len(data.labels) == 12
    assert data.notes == ["1 rows without a text are left out", "1 rows without a label", MARKED]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["red"] * 12, "one class only in column 'label', 'red'; allowed: at least 2 classes$"),
        (["yes", ""] * 6, "'yes'; allowed: at least 2 classes; the 6 rows of an empty cell are texts without a label$"),
        (["red", "green"], "2 labelled rows of 2 classes are too few"),
        (["red", *["green"] * 11], "12 labelled rows of 2 classes are too few"),
        ([f"label {number}" for number in range(12)], "12 labelled rows of 12 classes are too few"),
        ([f"{number % 8}" for number in range(12)], "'label' has 8 different values in 12 rows, too many"),
        ([""] * 12, "no row has a label in column 'label'; topics of the texts: python run.py task=cluster"),
    ],
)
def test_labels_that_no_choice_can_be_made_of(tmp_path, labels, message):
    file = write(tmp_path / "a.csv", ("text", "label"), zip(TEXTS, labels, strict=False))
    with pytest.raises(InputError, match=message):
        read_labelled(file).checked()


def test_files_without_what_is_needed(tmp_path):
    with pytest.raises(InputError, match="a folder; allowed: a file"):
        read_labelled(str(tmp_path))
    with pytest.raises(InputError, match="no column looks like labels .*topics of the texts: .*text_column=body"):
        read_labelled(write(tmp_path / "a.csv", ("id", "body"), enumerate(TEXTS)))
    with pytest.raises(InputError, match="no column looks like texts; allowed: text_column=NAME of 'link', 'label'"):
        links = [f"https://example.org/{number}" for number in range(12)]
        read_labelled(write(tmp_path / "l.csv", ("link", "label"), zip(links, LABELS, strict=True)))
    with pytest.raises(InputError, match="1 different texts in 12 rows"):
        read_labelled(write(tmp_path / "b.csv", ("text", "label"), [("same", label) for label in LABELS])).checked()
    with pytest.raises(InputError, match="no rows"):
        read_labelled(write(tmp_path / "c.csv", ("text", "label"), []))
    lines = [f'{{"text": "a b {number}", "label": "x"}}' for number in range(3)]
    (tmp_path / "d.jsonl").write_text("\n".join([*lines, '{"text": "a b", "label": ["x", "y"]}']))
    with pytest.raises(InputError, match="d.jsonl:4: a list of labels; allowed: one label a text, or label_separator="):
        read_labelled(str(tmp_path / "d.jsonl"), label_column="label")


def test_the_same_rows_on_other_lines_or_of_another_file_are_another_question(tmp_path, store):
    rows = [*zip(TEXTS, LABELS, strict=True)]
    files = [write(tmp_path / "a.csv", ("text", "label"), rows), write(tmp_path / "b.csv", ("text", "label"), rows)]
    (tmp_path / "x").mkdir()
    files += [write(tmp_path / "x" / "a.csv", ("text", "label"), [*rows[:1], (), *rows[1:]])]  # a blank line more
    config = OmegaConf.create(dict(compose_run(("task=auto", "input=a.csv", *store)).config))
    names = [_name_of(config, read_labelled(file), []) for file in [*files, files[0]]]
    assert len(set(names)) == 3 and names[0] == names[3]
    other_wishes = OmegaConf.merge(config, {"prefer": "speed", "precision": 0.9})  # of the same candidates
    assert _name_of(other_wishes, read_labelled(files[0]), []) == names[0]


def test_entries_of_an_array_are_no_lines(tmp_path):
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    (tmp_path / "b.json").write_text("\n".join(map(json.dumps, rows)))
    assert [read_labelled(str(tmp_path / name)).about["entries"] for name in ("a.json", "b.json")] == [True, False]


def test_rows_without_a_text_must_go_before_a_line_that_refuses_them(tmp_path):
    rows = [*zip(TEXTS[:2], LABELS, strict=False), ("", "red"), ("more", "")]
    first = "once the rows without a text are deleted: python run.py"
    for some, said in ((rows, f"; to label more, {first}"), ([*rows[:2], rows[3]], "; to label more: python run.py")):
        with pytest.raises(InputError, match="are too few") as error:
            read_labelled(write(tmp_path / "a.csv", ("text", "label"), some), "text", "label").checked()
        assert said in str(error.value)
        assert str(error.value).endswith(" active.budget=42"), "no bracket is pasted"
    with pytest.raises(InputError, match=f"no row has a label in column 'label'; topics of the texts, {first}"):
        read_labelled(write(tmp_path / "b.csv", ("text", "label"), [("one", ""), ("", "red")]), "text", "label")
    with pytest.raises(InputError, match=f"no column looks like labels .*; topics of the texts, {first}"):
        read_labelled(write(tmp_path / "c.csv", ("id", "body"), enumerate([*TEXTS, ""])), "body")


def test_what_to_type_next_tells_of_rows_without_a_text_and_labels_nothing_where_labels_are_left(tmp_path):
    rows = [*zip(TEXTS, LABELS, strict=True), ("", "red"), ("more", "")]
    data, folder = read_labelled(write(tmp_path / "a.csv", ("text", "label"), rows)), RunFolder(tmp_path / "auto-a")
    folder.write_json("data.json", {"sampled_from": None})
    first, line = next_lines(folder, data)[-2:]
    assert first == "to label more, once the rows without a text are deleted:" and "active.oracle" in line
    folder.write_json("data.json", {"sampled_from": 12})
    assert not any("active.oracle" in line for line in next_lines(folder, data))
    data.about["label_separator"] = LISTS
    folder.write_json("data.json", {"sampled_from": None})
    assert next_lines(folder, data)[-1].endswith(", as a|b, not as lists")


def test_the_line_for_topics_composes(tmp_path):
    with pytest.raises(InputError) as error:
        read_labelled(write(tmp_path / "a b.csv", ("id", "the text"), enumerate(TEXTS), delimiter="|"), delimiter="|")
    words = shlex.split(str(error.value).split("topics of the texts: ")[1])[2:]
    run = compose_run(tuple(words))
    assert not run.problem and run.config["method"]["name"] == "sbert_words"
    assert run.config["dataset"]["train"] == str(tmp_path / "a b.csv")
    assert run.config["dataset"]["text_column"] == "the text" and run.config["dataset"]["delimiter"] == "|"


def test_a_table_without_a_header_is_offered_the_option_that_reads_it(tmp_path):
    file = write(tmp_path / "headless.csv", ("a first text", "red"), zip(TEXTS, [*LABELS[1:], ""], strict=True))
    refused = "headless.csv:1: found 'red', which is a label of other rows too, .* or header=false"
    with pytest.raises(InputError, match=refused):
        read_labelled(file)
    spaced = write(tmp_path / "b.csv", ("a first text", "so so"), zip(TEXTS, ["so so", "good"] * 6, strict=True))
    with pytest.raises(InputError, match=r"\(label_column=\"'so so'\" says that it is one\)"):
        read_labelled(spaced)
    data = read_labelled(file, header=False)
    assert data.texts == ["a first text", *TEXTS[:-1]] and data.labels == ["red", *LABELS[1:]]
    assert data.lines == list(range(1, 13)) and data.unlabelled == TEXTS[-1:]
    assert data.about["text_columns"] == ["column_1"]
    assert why_no_more_labels(data) is None and " dataset.header=false " in label_more_line(data)
    assert predict_line(tmp_path, data.about).endswith(" header=false text_column=column_1")
    assert read_texts(file, "column_1", header=False) == ["a first text", *TEXTS]


def test_names_of_columns_that_are_values_are_refused_and_those_that_may_be_are_said(tmp_path):
    rows = [(number, text, label) for number, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True), 2)]
    file = write(tmp_path / "a.csv", ("1", "a first text of some words.", "black"), rows)
    with pytest.raises(InputError, match="a.csv:1: found 'a first text of some words.' and '1' in the place of .*"):
        read_labelled(file)
    note = "the first row names the columns, '{}', 'a first text of some words.', 'black'; header=false reads"
    assert f"{note.format('1')} it as a row" in read_labelled(file, label_column="black").notes
    yearly = write(tmp_path / "y.csv", ("2023", "a first text of some words.", "black"), rows)
    assert f"{note.format('2023')} it as a row" in read_labelled(yearly).notes
    coded = write(tmp_path / "b.csv", ("No", "a first text of some words.", "black"), rows)
    assert f"{note.format('No')} it as a row" in read_labelled(coded).notes
    survey = write(tmp_path / "c.csv", ("1", "What do you think of it?", "Segment"), rows)
    assert read_labelled(survey).about["text_columns"] == ["What do you think of it?"]
    plain = read_labelled(write(tmp_path / "d.csv", ("1", "text", "y"), rows))
    assert not any("header=" in said for said in plain.notes)


def test_a_delimiter_is_named_and_handed_on(tmp_path):
    rows = [(f"{text}; so", label, "a;b") for text, label in zip(TEXTS, [*LABELS[1:], ""], strict=True)]
    file = write(tmp_path / "a.csv", ("text", "label", "x;y"), rows, delimiter="|")
    data = read_labelled(file, delimiter="|")
    assert data.texts[0] == f"{TEXTS[0]}; so" and data.about["delimiter"] == "|" and len(data.unlabelled) == 1
    assert predict_line(tmp_path, data.about).endswith(""" delimiter="'|'\"""")
    assert why_no_more_labels(data) is None and """ dataset.delimiter="'|'" """ in label_more_line(data)
    assert read_texts(file, "text", delimiter="|")[0] == data.texts[0]
    (tmp_path / "b.tsv").write_text("text\tlabel\n" + "".join(f'"{text}\t{label}\n' for text, label, _ in rows[:-1]))
    bare = read_labelled(str(tmp_path / "b.tsv"), delimiter="bare_tab")
    assert bare.texts[0] == f'"{TEXTS[0]}; so' and predict_line(tmp_path, bare.about).endswith(" delimiter=bare_tab")
    (tmp_path / "a.jsonl").write_text('{"text": "red"}')
    with pytest.raises(InputError, match="a.jsonl: delimiter='|' has no effect"):
        read_labelled(str(tmp_path / "a.jsonl"), delimiter="|")
    with pytest.raises(InputError, match="topics of the texts: .* dataset.delimiter=\"'|'\" method.num_clusters=auto"):
        read_labelled(write(tmp_path / "c.csv", ("id", "text"), enumerate(TEXTS), delimiter="|"), delimiter="|")


def test_a_sheet_is_named_and_handed_on(tmp_path):
    file, book = str(tmp_path / "a.xlsx"), openpyxl.Workbook()
    book.active.append(("no", "table"))
    sheet = book.create_sheet("My answers")
    for row in (("text", "label"), *zip(TEXTS, LABELS, strict=True)):
        sheet.append(row)
    book.save(file)
    data = read_labelled(file, sheet="My answers")
    assert data.texts == TEXTS and data.about["sheet"] == "My answers"
    line = predict_line(tmp_path, data.about)
    assert " input=NEW.xlsx " in line and line.endswith(""" sheet="'My answers'\"""")
    assert read_texts(file, "text", sheet="My answers") == TEXTS
    more = write(tmp_path / "more.csv", ("text",), [("red",)])
    assert read_texts(more, "text", sheet="My answers") == ["red"], "a table without sheets beside the book"
    with pytest.raises(InputError, match="more.csv: sheet='My answers' has no effect, allowed with XLSX"):
        read_labelled(more, sheet="My answers")


@pytest.mark.slow
def test_the_line_for_topics_runs_as_printed_whatever_the_names_hold(tmp_path, store):
    (folder := tmp_path / "Ann's $HOME \"new\" rows!2").mkdir()
    texts = [f"{subject} {number}" for number in range(6) for subject in ("goals of the match", "shares on a market")]
    file = write(folder / "my texts.csv", ("id", "the `text`"), enumerate(texts))
    with pytest.raises(InputError, match="no column looks like labels") as error:
        read_labelled(file)
    line = str(error.value).partition("python run.py ")[2].replace("sbert_words", "tfidf_kmeans")  # needs no encoder
    pasted = f"HISTFILE=; set -o history -H\nprintf '%s\\0' {line}\n"  # as an interactive shell reads it
    typed = subprocess.run(["bash"], input=pasted, capture_output=True, text=True, check=True)
    words = [word for word in typed.stdout.split("\0") if word]
    assert {f"dataset.train={quoted(file)}", "dataset.text_column='the `text`'"} < set(words)
    result = command([*words, *store, "logger=csv"])
    assert result.code == 0, result.err


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["red", "green", "red|green", ""], "|"),
        (["red; large", "green; large", "red; small", "small"], ";"),
        (["red,large", "large,green", "green,red"], ","),
        (['["red"]', '["red", "green"]', "[]"], LISTS),
        ([["red"], ["red", "green"], None], LISTS),
        (["['red', 'green']", "['red']", "[]"], LISTS),  # as Python writes them
        (['["red", "green"]', "red", "green"], LISTS),  # of which the others are refused
        (["['red' 'green']", "['red'\n 'large']", "[]"], LISTS),  # as NumPy writes them
        (["[red, green]", "[large]", "[]"], LISTS),  # as Spark does
        (["[red]", "[green]"], None),  # of which none has several
        (["[red, green]", "[large", "red"], None),
        (["[0, 10]", "[10, 20]", "more"], None),  # of numbers
        (["[0 - 10]", "[10 - 20]"], None),
        (["Sci/Tech", "Food, Drink", "World"], None),  # parts that stand nowhere else
        (["Health, Beauty", "Health, Fitness", "Travel"], None),
        (["a;b", "c"], None),
        ([1, 2.0, True, None], None),
        (["1,0", "1,5", "2,0", "2,5"], None),
        (["1,5,7", "5,7", "1,7", "7"], ","),  # more commas than a number has
        (["1,5", "5,7", "1,7", "7", "5", "1,"], None),
        (["1,000,000", "2,000,000", "1,000"], None),
    ],
)
def test_several_labels_in_a_cell_are_told_from_one_label_with_a_mark_in_it(cells, expected):
    assert guess_separator(cells) == expected


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("['sport' 'world news'\n \"it's\"]", ["sport", "world news", "it's"]),
        ("['a', ' \"b\" ' 'c, d']", ["a", ' "b" ', "c, d"]),  # quotes and commas within
        ("[np.str_('a'), np.str_('b')]", ["a", "b"]),
        ("[1 2]", [1, 2]),
        ("[0, 10]", [0, 10]),
        ("[world news, don't know]", ["world news", "don't know"]),
        ("[]", []),
        ('["a", "b]', None),  # one that was cut is no list of bare names
        ("['a', 'b]", None),
        ("[a] and [b]", None),
        ("sport", None),
    ],
)
def test_a_list_in_a_cell_is_read_as_each_program_writes_it(cell, names):
    assert list_in(cell) == names


def test_several_labels_are_read_and_one_label_where_that_is_said(tmp_path):
    cells = ["red|large", "green", "large | red", "", "red|red"] * 3
    file = write(tmp_path / "a.csv", ("text", "label"), zip([*TEXTS, "x", "y", "z"], cells, strict=True))
    data = read_labelled(file).checked()
    assert data.several and data.labels[:4] == [("red", "large"), ("green",), ("large", "red"), ("red",)]
    assert len(data.unlabelled) == 3 and data.rows_of_label() == {"red": 9, "large": 6, "green": 3}
    single = read_labelled(file, separator=None)
    assert not single.several and single.labels[0] == "red|large"
    rows = zip(TEXTS, ["1,5", "5", "1", "7", "5,7", "1"] * 2, strict=True)
    said = """labels such as '1,5' are read as one number each; "label_separator=','" reads several labels"""
    assert said in read_labelled(file := write(tmp_path / "n.csv", ("text", "label"), rows)).notes
    numbers = read_labelled(file, separator=",")
    assert numbers.labels[0] == ("1", "5") and not any(note.startswith("labels such") for note in numbers.notes)
    rows = zip(TEXTS, ["customer service\nprice", "price", "customer service\r\nspeed"] * 4, strict=True)
    data = read_labelled(write(tmp_path / "l.csv", ("text", "label"), rows), separator=r"\n")
    assert data.labels[:3] == [("customer service", "price"), ("price",), ("customer service", "speed")]
    (tmp_path / "b.jsonl").write_text('{"text": "one text", "label": []}\n{"text": "two texts", "label": null}\n')
    lists = read_labelled(str(tmp_path / "b.jsonl"), separator=LISTS)  # of the second it is not known
    assert lists.labels == [()] and lists.unlabelled == ["two texts"]


def test_several_labels_are_told_from_the_first_cells_that_hold_any(tmp_path):
    blank = [(f"text {n}", "") for n in range(LOOKED_AT + 3)]
    labelled = [(f"more {n}", cell) for n, cell in enumerate(["red|large", "large", "red", "large|red"] * 3)]
    data = read_labelled(write(tmp_path / "a.csv", ("text", "label"), [*blank, *labelled]), label_column="label")
    assert data.several and data.labels[0] == ("red", "large") and len(data.unlabelled) == len(blank)


def test_several_labels_are_told_from_cells_far_down_too(tmp_path):
    cells = [*["red", "large"] * (LOOKED_AT // 2 + 100), *["red|large"] * 12]
    rows = [(f"text {n}", cell) for n, cell in enumerate(cells)]
    data = read_labelled(write(tmp_path / "a.csv", ("text", "label"), rows))
    assert data.several and data.rows_of_label().keys() == {"red", "large"}
    assert data.about["label_separator"] == "|" and data.lines == list(range(2, len(rows) + 2))


def test_a_plain_label_among_lists_is_refused_with_its_line(tmp_path):
    rows = zip(TEXTS, ['["red", "green"]', "red", '["green"]'] * 4, strict=True)
    with pytest.raises(InputError, match="a.csv:3: found 'red' where other cells hold lists; allowed: a list, or"):
        read_labelled(write(tmp_path / "a.csv", ("text", "label"), rows))


def test_a_plain_label_beside_lists_of_json_is_a_list_of_one(tmp_path):
    labels = [["red"], "red", ["green"], None] * 3
    objects = [{"text": text, "label": label} for text, label in zip(TEXTS, labels, strict=True)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, objects)))
    with pytest.raises(InputError, match="a.jsonl:1: a list of labels; allowed: .* label_separator=lists for several"):
        read_labelled(str(tmp_path / "a.jsonl"))
    data = read_labelled(str(tmp_path / "a.jsonl"), separator=LISTS)
    assert data.labels[:3] == [("red",), ("red",), ("green",)] and len(data.unlabelled) == 3


def test_no_text_of_a_fold_is_learned_from_as_one_without_a_label():
    data = Labelled("a.csv", ["one text", "two"], ["a", "b"], [2, 3], ["One  Text ", "three"])
    data.leave_out_labelled()
    assert data.unlabelled == ["three"] and data.notes[0].startswith("1 texts without a label stand with one too")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "joined", "objects", "sheet"])
def test_the_line_that_labels_more_goes_on_with_the_labels_there_are(tmp_path, store, small, kind):
    rows = [*zip(TEXTS, LABELS, strict=True), *((f"apple pear {number}", "") for number in range(9))]
    data = read_labelled(write(tmp_path / "a.csv", ("body", "kind"), rows), "body", "kind")
    if kind == "objects":  # with markup, and without the key where there is no label
        objects = [{"body": f"<b>{text}</b>"} | ({"kind": label} if label else {}) for text, label in rows]
        (tmp_path / "o.jsonl").write_text("\n".join(map(json.dumps, objects)))
        data = read_labelled(str(tmp_path / "o.jsonl"), "body", "kind", markup="strip")
        assert data.texts == TEXTS and len(data.unlabelled) == 9
    if kind == "joined":
        table = [(f"{label} title", text, label) for text, label in rows]
        data = read_labelled(write(tmp_path / "j.csv", ("title", "body", "kind"), table), "title+body")
        assert data.texts[0] == f"red title\n{TEXTS[0]}"
    if kind == "sheet":
        pd.DataFrame(rows, columns=["body", "kind"]).to_excel(tmp_path / "s.xlsx", sheet_name="My rows", index=False)
        book = openpyxl.load_workbook(tmp_path / "s.xlsx")
        book.create_sheet("notes", 0).append(("body", "kind"))
        book["notes"].append(("a remark", "black"))
        book.save(tmp_path / "s.xlsx")
        data = read_labelled(str(tmp_path / "s.xlsx"), "body", "kind", sheet="My rows")
    assert why_no_more_labels(data) is None
    words = shlex.split(label_more_line(data, more=2))[2:]
    words[words.index("active.oracle=browser")] = "active.oracle=prompt"
    options = [*store, *small, "active.query_size=2", "trainer.max_epochs=1", "trainer.least_steps=0", "logger=csv"]
    result = command([*words, *options], "12\n")
    assert result.metrics["labels"] == len(LABELS) + 2, result.err
    assert f"{len(LABELS)} of {len(LABELS)} answers are new\n" in result.err


@pytest.mark.slow
def test_where_all_rows_have_a_label_the_line_that_labels_more_takes_texts_of_another_file(tmp_path, store, small):
    data = read_labelled(write(tmp_path / "b.csv", ("text", "label"), zip(TEXTS, LABELS, strict=True)))
    folder = RunFolder(tmp_path / "auto-b")
    folder.write_json("data.json", {"sampled_from": None})
    what, line = next_lines(folder, data)[-2:]
    assert what == "to label more, of texts without a label in a file POOL.csv:" and "unlabelled=POOL.csv " in line
    assert line.endswith(f" active.budget={12 - 3 + 40}")  # of each of three classes one is a test row
    pool = write(tmp_path / "more.csv", ("text",), [(f"apple pear {number}",) for number in range(9)])
    words = shlex.split(line.replace("POOL.csv", pool).replace("=browser", "=prompt"))[2:]
    options = [*store, *small, "active.query_size=2", "trainer.max_epochs=1", "trainer.least_steps=0", "logger=csv"]
    result = command([*words, *options, "active.budget=11"], "12\n")
    assert result.metrics["labels"] == 11 and "test/accuracy" in result.metrics, result.err
    assert "9 of 12 answers are new, 3 are to texts that the pool has not\n" in result.err


def test_lines_to_type_next_carry_the_encoder_and_where_things_lie(tmp_path, store):
    words = ["encoder.path='a b'", *store, "seed=3"]
    data = read_labelled(write(tmp_path / "a.csv", ("text", "label"), zip(TEXTS, LABELS, strict=True)), words=words)
    assert set(words) < set(shlex.split(label_more_line(data)))
    with pytest.raises(InputError) as error:
        read_labelled(write(tmp_path / "b.csv", ("text", "label"), ((text, "") for text in TEXTS)), words=words)
    assert set(words) < set(shlex.split(str(error.value)))


def test_the_line_that_labels_more_keeps_a_class_of_one_row_in_train(tmp_path):
    labels = ["red"] * 8 + ["blue"] * 3 + ["black"]
    data = read_labelled(write(tmp_path / "a.csv", ("text", "label"), zip(TEXTS, labels, strict=True)))
    line = label_more_line(data)
    assert "dataset.singleton_classes=keep_in_train" in line and line.endswith(f"budget={12 - 2 - 1 + 40}")


def test_the_line_that_labels_more_reads_several_labels_of_json(tmp_path):
    cells = ["red|large", "large", "red", None] * 3
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, cells, strict=True)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    run = compose_run(tuple(shlex.split(label_more_line(read_labelled(str(tmp_path / "a.jsonl"))))[2:]))
    assert not run.problem and run.config["dataset"]["label_separator"] == "|"
    options = {"label_separator": "|", "label_names": run.config["dataset"]["label_names"]}
    labels = [row["label"] for row in Csv(train=run.config["dataset"]["train"], **options).rows({})["train"]]
    assert labels[:4] == [["red", "large"], ["large"], ["red"], None]


def test_the_line_that_labels_more_composes_whatever_the_names_are(tmp_path):
    names = ["1", "true", "groß", "don't", 'say "five"', "a, b"]
    rows = [*zip(TEXTS, names * 2, strict=True), ("one more", "")]
    data = read_labelled(write(tmp_path / "größen.csv", ("größe", "2"), rows), "größe", "2", separator=None)
    run = compose_run(tuple(shlex.split(label_more_line(data))[2:]))
    assert not run.problem and run.config["dataset"]["label_names"] == sorted(names)
    assert (run.config["dataset"]["text_column"], run.config["dataset"]["label_column"]) == ("größe", "2")
    assert run.config["dataset"]["train"] == str(tmp_path / "größen.csv")


def test_a_test_file_is_read_as_it_is_evaluated(tmp_path):
    rows = [*zip(TEXTS, ["größe", "farbe"] * 6, strict=True), ("N/A", "farbe"), ("one more", "N/A")]
    file = write(tmp_path / "a.csv", ("text", "label"), rows, "cp1252")
    data = read_labelled(file, encoding="cp1252", missing=["N/A"])
    table = [("new", "größe"), ("N/A", "größe"), ("more", "N/A"), (TEXTS[0].upper(), "farbe"), (TEXTS[1], "strange")]
    assert " dataset.encoding=cp1252 " in label_more_line(data)
    test = read_test(write(tmp_path / "b.csv", ("text", "label"), table), data)
    assert (test.labels, rows_shared(test, data)) == (["größe", "farbe", "strange"], 1)
    assert {"encoding=utf-8", "missing=[N/A]", "header=true"} < set(reading_words_of(test))
    numbers = tmp_path / "c.jsonl"
    numbers.write_text('{"text": "new", "label": "farbe"}\n{"text": 2024, "label": "farbe"}\n')
    with pytest.raises(InputError, match=r"c\.jsonl:2: found a text that is a number or the like, allowed: a string"):
        read_test(str(numbers), data)
    data.about["unlabelled"] = "more.csv"  # which may be in another encoding
    assert why_no_more_labels(data).startswith("it would read more.csv in the typed encoding too")


def test_flags_of_rows_without_a_text_are_not_read(tmp_path):
    table = open_table(write(tmp_path / "a.csv", ("text", "a", "b"), [("", "7", "0"), ("new", "1", "0")]))
    rows = table.with_labels("a+b", "", lambda row: not row["text"]).rows
    assert [row["a+b"] for _, row in rows] == [None, ["a"]]
