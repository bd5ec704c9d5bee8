"""Answers in the formats of other programs, there and back."""

import json

import openpyxl
import pytest

from labelling.answers import Answer, all_of_kind
from labelling.formats import COLUMNS, WRITERS, read_answers
from storage.errors import InputError

ANSWERS = [
    Answer("first, with a comma\nand a line", "Sci/Tech", "anna", "sure", "World", 0.5, 12.0),
    Answer("first, with a comma\nand a line", "World", "ben"),
    Answer("second", "skip", "anna"),
    Answer("=third", "World", "anna", "7", "World", 1 / 3, 1764111188.25),
    Answer("fourth", "ambiguous", "anna", 'a "note"\nof two lines', "World", 0.0),
    Answer("fourth", "no class fits", "ben", "", "Sci/Tech", 1.0, 3.0),
]


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_written_is_read_again(name, tmp_path):
    write, file_name = WRITERS[name]
    (tmp_path / file_name).write_text(write(ANSWERS))
    assert read_answers(tmp_path / file_name) == ANSWERS


def test_datasets_loads_what_is_for_argilla(tmp_path):
    from datasets import load_dataset

    (tmp_path / "a.jsonl").write_text(WRITERS["argilla"][0](ANSWERS))
    table = load_dataset("json", data_files=str(tmp_path / "a.jsonl"), split="train", cache_dir=str(tmp_path / "cache"))
    assert table[0]["label.responses"] == ["Sci/Tech", "World"] and table[0]["label.suggestion"] == "World"
    assert table[1]["label.responses.status"] == ["discarded"]


def test_a_table_whose_text_is_joined(tmp_path):
    (tmp_path / "a.csv").write_text("title,body,kind\none,two,x\n,three,y\n")
    read = read_answers(tmp_path / "a.csv", "title+body", "kind")
    assert [(answer.text, answer.label) for answer in read] == [("one\ntwo", "x"), ("three", "y")]
    (tmp_path / "b.csv").write_text("größe;x\nthree; \n", encoding="utf-16")
    reading = {"encoding": "utf-16", "header": False, "delimiter": ";"}
    read = read_answers(tmp_path / "b.csv", "column_1", "column_2", reading=reading)
    assert [(answer.text, answer.label) for answer in read] == [("größe", "x")]  # a blank label is none
    with pytest.raises(InputError, match=r"a.csv:2: found the columns title, body, kind; allowed: head\+lead and kind"):
        read_answers(tmp_path / "a.csv", "head+lead", "kind")


def choice(label, question="tag"):
    return {"from_name": question, "to_name": "text", "type": "choices", "value": {"choices": [label]}}


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        # as the programs export it
        (
            "tasks.json",
            [
                {"id": 1, "data": {"text": "a"}, "annotations": [
                    {"completed_by": 7, "was_cancelled": False, "result": [choice("yes")]},
                    {"completed_by": {"email": "b@c.de"}, "was_cancelled": True, "result": [choice("no")]}]},
                {"id": 2, "data": {"review": "b"}, "annotations": []},
            ],
            [("a", "yes", "7"), ("a", "skip", "b@c.de")],
        ),
        (
            "records.json",
            [{"id": "1", "fields": {"text": "a"}, "responses": {"label": [
                {"value": "yes", "user_id": "u", "status": "submitted"}, {"value": None, "user_id": "v",
                                                                           "status": "discarded"},
                {"value": "no", "user_id": "w", "status": "draft"}]}}],
            [("a", "yes", "u"), ("a", "skip", "v")],
        ),
        ("rows.json", [{"id": "1", "status": "pending", "text": "a", "q.responses": None, "q.suggestion": "no"}], []),
        ("rows.json", [{"text": "a", "label": ["yes"]}, {"text": "b", "label": ""}], [("a", "yes", "")]),
    ],
)  # fmt: skip
def test_what_other_programs_write(name, content, expected, tmp_path):
    (tmp_path / name).write_text(json.dumps(content))
    assert [(a.text, a.label, a.annotator) for a in read_answers(tmp_path / name)] == expected


def several_questions(first, second):
    """Two of a text, answered by one person, and a text of which the second alone was answered; by each program."""
    reply = {"user_id": "u", "status": "submitted"}
    yield [
        {"data": {"text": text}, "annotations": [{"completed_by": "u", "result": [choice(a, q) for q, a in answers]}]}
        for text, answers in (("a", [(second, "sure"), (first, "yes")]), ("b", [(second, "no")]))
    ]
    yield [
        {"fields": {"text": "a"}, "responses": {second: [{"value": [{"start": 1}]} | reply],
                                                first: [{"value": "yes"} | reply]}},
        {"fields": {"text": "b"}, "responses": {second: [{"value": "no"} | reply]}},
    ]  # fmt: skip
    yield [
        {"text": "a", f"{second}.responses": ["sure"], f"{second}.responses.users": ["u"],
         f"{first}.responses": ["yes"], f"{first}.responses.users": ["u"]},
        {"text": "b", f"{second}.responses": ["no"], f"{first}.responses": None},
    ]  # fmt: skip


@pytest.mark.parametrize("program", range(3))
@pytest.mark.parametrize(("name", "column"), [("label", "text"), ("kind", "kind")])
def test_of_several_questions_that_of_the_label_counts(program, name, column, tmp_path):
    file = tmp_path / "asked.json"
    file.write_text(json.dumps(list(several_questions(name, "how"))[program]))
    assert [(a.text, a.label, a.annotator) for a in read_answers(file, label_column=column)] == [("a", "yes", "u")]
    file.write_text(json.dumps(list(several_questions("topic", "how"))[program]))
    with pytest.raises(InputError, match=r"asked.json: found the questions '\w+', '\w+'; allowed: one, or one called"):
        read_answers(file)


def test_tables_of_a_run(tmp_path):
    (tmp_path / "chosen.csv").write_text("round,position,label,score,reason,text\n0,3,yes,0.1,why,a\n0,4,,0.1,why,b\n")
    assert [(a.text, a.label) for a in read_answers(tmp_path / "chosen.csv")] == [("a", "yes")]
    (tmp_path / "mine.csv").write_text("body,topic\na,yes\n")
    assert [a.label for a in read_answers(tmp_path / "mine.csv", "body", "topic")] == ["yes"]


def test_objects_may_lack_a_label_where_others_have_one(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": "b", "kind": "yes"}\n')
    assert [(a.text, a.label) for a in read_answers(tmp_path / "a.jsonl", label_column="kind")] == [("b", "yes")]
    with pytest.raises(InputError, match="a.jsonl:1: found the columns text; allowed: text and topic"):
        read_answers(tmp_path / "a.jsonl", label_column="topic")


def test_labels_of_a_table_are_named_as_training_names_them(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\na,1.0\nb,nan\nc, 2 \n")
    assert [(a.text, a.label) for a in read_answers(tmp_path / "a.csv")] == [("a", "1"), ("c", "2")]
    (tmp_path / "b.jsonl").write_text('{"text": "a", "label": 1.0}\n{"text": "b", "label": NaN}\n')
    assert [(a.text, a.label) for a in read_answers(tmp_path / "b.jsonl")] == [("a", "1")]
    (tmp_path / "c.csv").write_text("text,label\na,1.0|2\nb, \n")
    assert [a.label for a in read_answers(tmp_path / "c.csv", separator="|")] == [("1", "2")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([{"body": "a", "topic": "yes"}], "entry 1: found the columns body, topic; allowed: text and label"),
        ([{"text": "a", "label": ["yes", "no"]}], "allowed: a text and one label"),
        ([{"text": 3, "label": "no"}], "allowed: a text and one label"),
        ([{"data": {"a": "x", "b": "y"}, "annotations": []}], "found 2 texts in a, b"),
        ([{"data": {"text": "a"}, "annotations": {}}], "annotations: found {}; allowed: a list"),
        (
            [{"data": {"text": "a"}, "annotations": [{"result": [{"type": "choices"}]}]}],
            "allowed: tasks of Label Studio as they are exported",
        ),
        (  # as Argilla 1 exports them
            [{"fields": {"text": "a"}, "responses": [{"values": {"label": {"value": "yes"}}, "status": "submitted"}]}],
            "allowed: records of Argilla 2 as they are exported",
        ),
        ([dict.fromkeys(COLUMNS, "a")], "probability: found 'a'; allowed: a number"),
        (
            [{"text": "a", "q.responses": ["yes"], "q.responses.time": ["noon"]}],
            "found 'noon' is no number; allowed: note, guess, probability, time as they are exported",
        ),
    ],
)
def test_what_is_none_of_them_is_one_line(content, message, tmp_path):
    (tmp_path / "odd.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"odd.json: entry 1: ") as error:
        read_answers(tmp_path / "odd.json")
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("name", WRITERS)
def test_several_classes_are_written_and_read_again(name, tmp_path):
    answers = [Answer("one", ("a", "b"), "me", "", ("a",), 0.5, 1.0), Answer("two", ("b",), "me", "note", ("a", "b")),
               Answer("three", "skip", "me", guess=()), Answer("four", "ambiguous", "me")]  # fmt: skip
    write, file = WRITERS[name]
    (tmp_path / file).write_text(write(answers, "|"))
    read = all_of_kind(read_answers(tmp_path / file, separator="|"), True)
    assert read == answers
    if name != "csv":  # where it is a class with a bar in its name
        with pytest.raises(InputError, match=r"found the labels \['a', 'b'\]; allowed: a text and one label"):
            read_answers(tmp_path / file)


def test_formulas_without_values_matter_in_the_columns_that_are_asked_for_alone(tmp_path):
    book = openpyxl.Workbook()
    for row in [("body", "class", "label"), ("a text", "x", "=B2")]:
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    assert [answer.label for answer in read_answers(tmp_path / "a.xlsx", "body", "class")] == ["x"]
    with pytest.raises(InputError, match="column 'label' holds formulas without values"):
        read_answers(tmp_path / "a.xlsx", "body", "topic")
