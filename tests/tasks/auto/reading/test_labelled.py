"""Labelled texts: whether methods can be compared on them, and the line that labels more."""

import json
import shlex

import openpyxl
import pandas as pd
import pytest

from datamodules.builders.user_files import Csv
from engine.identify import compose_run
from storage.errors import InputError
from tasks.auto.reading.labelled import Labelled, label_more_line, why_no_more_labels
from tasks.auto.reading.table import read_labelled
from tests.command_lines import command
from tests.tasks.auto.files import LABELS, TEXTS, write


def test_texts_are_compared_only_as_far_as_the_answer_needs(monkeypatch):
    compared = []
    monkeypatch.setattr("tasks.auto.reading.labelled.folded", lambda text: compared.append(text) or text)
    data = Labelled("a.csv", TEXTS, LABELS, list(range(2, 14)))
    data.leave_out_labelled()
    assert data.checked() is data and compared == TEXTS[:5]


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


def test_no_text_of_a_fold_is_learned_from_as_one_without_a_label():
    data = Labelled("a.csv", ["one text", "two"], ["a", "b"], [2, 3], ["One  Text ", "three"])
    data.leave_out_labelled()
    assert data.unlabelled == ["three"] and data.notes[0].startswith("1 texts without a label stand with one too")


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
