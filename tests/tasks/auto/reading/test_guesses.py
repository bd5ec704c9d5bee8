"""Columns and marks between labels, guessed from names and from what stands there."""

import json
import unicodedata
from datetime import date

import pytest

from datamodules.builders.user_files import Csv
from storage.errors import InputError
from storage.tables import open_table
from tasks.auto.reading.guesses import LISTS, guess_columns, guess_separator, list_in, words_in
from tasks.auto.reading.table import read_labelled
from tests.tasks.auto.files import LABELS, SPARSE, TEXTS, TITLES, write

CHINESE = [f"这部电影非常好看{number}" for number in range(12)]
TAGS = ["p, q", "q", "p, r", "r, q, s", "s, p", "s", "p", "r", "q, p,", "r, s", "p, q, s", "q, r"]  # all different
HEADLINES = [f"{word} is the title" for word in "abcdefghijkl"]


def test_columns_with_german_names_in_another_encoding(tmp_path):
    rows = [(number, text, f"größe {label}") for number, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))]
    file = write(tmp_path / "a.csv", ("Nr", "Nachricht", "Kategorie"), rows, "cp1252", ";")
    data = read_labelled(file).checked()
    assert (data.texts, data.lines) == (TEXTS, list(range(2, 14)))
    assert data.labels[:2] == ["größe red", "größe green"]
    assert data.about["text_columns"] == ["Nachricht"] and data.about["label_column"] == "Kategorie"
    assert data.about["guessed"] == ["text", "label"] and data.about["delimiter"] == ";"


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


@pytest.mark.parametrize(
    ("text", "number"),
    [("two words", 2), ("große Wörter", 2), ("你好 世界", 4), ("新しい iPhoneケース", 7), ("ภาษา", 4), ("", 0)],
)
def test_characters_of_scripts_without_spaces_are_words(text, number):
    assert words_in(text) == number


def test_columns_of_objects_are_told_to_be_flattened(tmp_path):
    rows = [{"text": text, "meta": {"label": label}} for text, label in zip(TEXTS, LABELS, strict=True)]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    for options in ({}, {"label_column": "meta"}, {"text_column": "meta"}):
        with pytest.raises(InputError, match="a.json: column 'meta' holds objects, as {'label': 'red'}; allowed"):
            read_labelled(str(tmp_path / "a.json"), **options)


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
