"""What is said of columns and refused of them: other candidates, flags, merged cells, no header, no values."""

import json

import openpyxl
import pytest

from datamodules.builders.user_files import Csv
from engine.finished import _read_alike
from reporting.auto.commands import predict_line
from storage.errors import InputError
from storage.tables import open_table
from tasks.auto.reading.guesses import LOOKED_AT
from tasks.auto.reading.labelled import label_more_line, why_no_more_labels
from tasks.auto.reading.table import read_labelled, read_texts
from tests.tasks.auto.files import LABELS, SPARSE, TEXTS, write


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


def test_flags_of_rows_without_a_text_are_not_read(tmp_path):
    table = open_table(write(tmp_path / "a.csv", ("text", "a", "b"), [("", "7", "0"), ("new", "1", "0")]))
    rows = table.with_labels("a+b", "", lambda row: not row["text"]).rows
    assert [row["a+b"] for _, row in rows] == [None, ["a"]]


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
