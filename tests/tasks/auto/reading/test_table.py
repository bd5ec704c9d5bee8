"""What people have in their files: encodings, delimiters, sheets, cells without a value, several labels in one."""

import json
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datamodules.builders.user_files import Csv
from reporting.auto.commands import predict_line
from storage.errors import InputError
from tasks.auto.reading.guesses import LISTS, LOOKED_AT
from tasks.auto.reading.labelled import label_more_line, why_no_more_labels
from tasks.auto.reading.table import read_labelled, read_texts
from tests.tasks.auto.files import LABELS, TEXTS, write

MARKED = "1 rows hold markup, such as '<p>', which stays (markup=strip takes it out)"


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


def test_columns_are_joined_and_empty_parts_left_out(tmp_path):
    file = tmp_path / "mails.csv"
    lines = [f'"subject {n}",body {n},{"ab"[n % 2]}' for n in range(11)]
    file.write_text("\n".join(["title,body,kind", *lines, ",alone,a", " ,,b"]))
    data = read_labelled(str(file), text_column="title+body")
    assert data.texts[0] == "subject 0\nbody 0" and data.texts[-1] == "alone" and len(data.texts) == 12
    assert data.about["text_columns"] == ["title+body"] and data.about["label_column"] == "kind"
    with pytest.raises(InputError, match=r"text_column: found 'title\+text'; allowed in"):
        read_labelled(str(file), text_column="title+text")


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


def test_a_second_file_of_texts(tmp_path):
    file = write(tmp_path / "more.csv", ("text", "label"), [("<b>one</b>", "x"), ("", ""), ("two", "")])
    assert read_texts(file, "text", markup="strip") == ["one", "two"]
    for column, message in (("body", r"more.csv:1: no column 'body' \(the text column of the labelled rows\)"),):
        with pytest.raises(InputError, match=message):
            read_texts(file, column)
    with pytest.raises(InputError, match=r"unlabelled=.*: no texts in column 'text'"):
        read_texts(write(tmp_path / "none.csv", ("text",), [(" ",)]), "text")


def test_a_second_file_is_not_asked_for_what_its_format_lacks(tmp_path):
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


def test_rows_without_text_or_label_are_set_aside_and_said(tmp_path):
    rows = [*zip(TEXTS, LABELS, strict=True), ("\u200b", "red"), ("<p>unknown</p>", "")]
    data = read_labelled(write(tmp_path / "a.csv", ("text", "label"), rows))
    assert data.unlabelled == ["<p>unknown</p>"] and len(data.labels) == 12
    assert data.notes == ["1 rows without a text are left out", "1 rows without a label", MARKED]


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


def test_entries_of_an_array_are_no_lines(tmp_path):
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    (tmp_path / "b.json").write_text("\n".join(map(json.dumps, rows)))
    assert [read_labelled(str(tmp_path / name)).about["entries"] for name in ("a.json", "b.json")] == [True, False]


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
