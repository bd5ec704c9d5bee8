"""Texts without labels beside rows that have some: kinds of labels, test splits, duplicates."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datamodules.builders.user_files import Csv, Jsonl
from datamodules.corpus import prepare
from datamodules.labels import label_array, without_label
from storage.errors import InputError

ROWS = [(f"text {number}", "ab"[number % 2]) for number in range(20)]


@pytest.fixture
def train(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in ROWS))
    return str(path)


@pytest.fixture
def more(tmp_path):
    path = tmp_path / "more.csv"
    path.write_text("id,text\n1,new\n2,text 3\n3,new\n")
    return str(path)


def texts(corpus, split="train"):
    table = corpus.table(split)
    return [text for text, lacks in zip(table["text"].to_pylist(), without_label(table), strict=True) if lacks]


def test_the_held_out_fifth_is_of_labelled_rows(train, more, tmp_path):
    plain = prepare(Csv(train=train), tmp_path / "data", None)
    corpus = prepare(Csv(train=train, unlabelled=more), tmp_path / "data", None)
    assert corpus.table("test").equals(plain.table("test")) and not texts(corpus, "test")
    assert texts(corpus) == ["new", "text 3", "new"] and corpus.card["splits"]["train"]["unlabelled"] == 3
    assert corpus.label_names == ("a", "b") and corpus.fingerprint != plain.fingerprint


def test_where_no_class_has_two_labelled_rows_nothing_is_held_out(tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("text,label\none,a\ntwo,b\nthree,\nfour,\n")
    options = {"empty_label": "unlabelled", "singleton_classes": "keep_in_train"}
    corpus = prepare(Csv(train=str(path), **options), tmp_path / "data", None)
    assert set(corpus.splits) == {"train"} and texts(corpus) == ["three", "four"]
    path.write_text("text\none\ntwo\n")
    options = {"empty_label": "unlabelled", "label_names": [0, 1]}
    assert prepare(Csv(train=str(path), **options), tmp_path / "data", None).label_names == ("0", "1")


def test_a_label_that_pandas_wrote_as_missing_is_none(tmp_path):
    path = tmp_path / "pandas.csv"
    path.write_text("text,label\none,1.0\ntwo,0.0\nthree,nan\n")
    corpus = prepare(Csv(train=str(path), label_names=[0, 1]), tmp_path / "data", None)
    assert texts(corpus) == ["three"] and corpus.label_names == ("0", "1")


@pytest.mark.parametrize(("labels", "names"), [([0, 1, None], [0, 1]), ([False, True, None], [False, "True"])])
@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_label_that_is_0_or_false_is_no_missing_one(tmp_path, labels, names, kind):
    path = tmp_path / f"train.{kind}"
    rows = [{"text": f"text {number}", "label": label} for number, label in enumerate(labels)]
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert texts(prepare(Csv(train=str(path), label_names=names), tmp_path / "data", None)) == ["text 2"]


def test_all_rows_together_hold_them_behind_the_labelled(train, more, tmp_path):
    corpus = prepare(Csv(train=train, unlabelled=more), tmp_path / "data", None, all_rows=True)
    assert texts(corpus) == ["new", "text 3", "new"] and corpus.table("train")["text"][20:].to_pylist() == texts(corpus)
    partly = tmp_path / "partly.csv"
    partly.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in ROWS) + "other,\n")
    whole = prepare(Csv(train=str(partly), empty_label="unlabelled"), tmp_path / "data", None, all_rows=True)
    assert texts(whole) == ["other"] and len(whole.table("train")) == 21
    with pytest.raises(InputError, match=r"partly\.csv:22: found no label, .*, or dataset.empty_label=unlabelled"):
        prepare(Csv(train=str(partly), unlabelled=more), tmp_path / "data", None, all_rows=True)
    with_names = prepare(Csv(train=str(partly), unlabelled=more, label_names=["a", "b"]), tmp_path / "data", None, True)
    assert texts(with_names) == ["other", "new", "text 3", "new"]


def test_of_two_equal_texts_the_labelled_stays(train, tmp_path):
    first = tmp_path / "first.csv"
    first.write_text("text,label\ntext 3,\n" + "".join(f"{text},{label}\n" for text, label in ROWS))
    options = {"test": train, "deduplicate": "train", "empty_label": "unlabelled"}
    corpus = prepare(Csv(train=str(first), **options), tmp_path / "data", None)
    assert not texts(corpus) and len(corpus.table("train")) == 20


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_of_several_labels_none_known_is_not_none_at_all(tmp_path, more, kind):
    path = tmp_path / f"train.{kind}"
    labels = [None, ["a"], [], ["a", "b"], ["b"]]  # the first row has none
    if kind == "jsonl":
        path.write_text("".join(json.dumps({"text": f"t{n}", "label": value}) + "\n" for n, value in enumerate(labels)))
        reader, unknown = Jsonl, ["t0"]
    else:
        path.write_text("text,label\n" + "".join(f"t{n},{'|'.join(v or ())}\n" for n, v in enumerate(labels)))
        reader, unknown = Csv, ["t0", "t2"]  # an empty field cannot say which
    options = {"label_separator": "|"} if kind == "csv" else {}
    test = tmp_path / f"test.{kind}"
    test.write_text('{"text": "x", "label": ["a"]}\n' if kind == "jsonl" else "text,label\nx,a\n")
    dataset = reader(train=str(path), test=str(test), unlabelled=more, empty_label="unlabelled", **options)
    corpus = prepare(dataset, tmp_path / "data", None)
    assert corpus.multilabel and texts(corpus) == [*unknown, "new", "text 3", "new"]
    assert label_array(corpus.table("train"), 2)[:5].tolist() == [[0, 0], [1, 0], [0, 0], [1, 1], [0, 1]]
    assert corpus.card["splits"]["train"]["without_label"] == (1 if kind == "jsonl" else 0)


def test_an_edited_file_is_another_corpus(train, more, tmp_path):
    before = prepare(Csv(train=train, unlabelled=more), tmp_path / "data", None)
    (tmp_path / "more.csv").write_text("text\nother\n")
    after = prepare(Csv(train=train, unlabelled=more), tmp_path / "data", None)
    assert texts(before) == ["new", "text 3", "new"] and texts(after) == ["other"]


def test_labels_in_none_of_the_rows_are_still_refused(train, tmp_path):
    path = tmp_path / "bare.csv"
    path.write_text("text,label\na,\nb,\n")
    with pytest.raises(InputError, match="no row has a label, allowed: at least 2 classes"):
        prepare(Csv(train=str(path), test=train, empty_label="unlabelled"), tmp_path / "data", None)
