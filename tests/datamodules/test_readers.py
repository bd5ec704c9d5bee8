"""The user's own files and hub data sets: what is read, and the one line that bad input gives."""

import csv
import gzip
import json
import logging
import lzma
import re
from pathlib import Path

import pytest

from datamodules.builders.hub import Hub
from datamodules.builders.user_files import Csv, Jsonl
from datamodules.corpus import Corpus, prepare
from storage.errors import InputError
from tasks.describe import write_corpus_card

GOOD = "text,label\nred apple,fruit\ngreen pear,fruit\ngrey iron,metal\nold zinc,metal\n"
OR_EMPTY = "allowed: a name or a number, or dataset.empty_label=unlabelled"


def write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def rows(corpus: Corpus, split: str) -> list[tuple]:
    table = corpus.table(split).to_pylist()
    return [(row["text"], corpus.label_names[row["label"]], *([row["aug"]] if "aug" in row else [])) for row in table]


def refusal(dataset, tmp_path: Path) -> str:
    """The message of the refusal; it is one line and leaves nothing behind."""
    with pytest.raises(InputError) as error:
        prepare(dataset, tmp_path / "prepared", None)
    assert "\n" not in str(error.value)
    left = [path for path in (tmp_path / "prepared").iterdir() if path.is_dir() and path.name != "sources"]
    assert left == []
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("plain.csv", GOOD, {}),
        ("bom.csv", b"\xef\xbb\xbf" + GOOD.encode(), {}),
        ("windows.csv", GOOD.replace("\n", "\r\n"), {}),
        ("blank_lines.csv", GOOD.replace("\n", "\n\n"), {}),
        ("no_end.csv", GOOD.rstrip("\n"), {}),
        ("tabs.tsv", GOOD.replace(",", "\t"), {}),
        ("packed.csv.gz", gzip.compress(GOOD.encode(), mtime=0), {}),
        ("packed.tsv.gz", gzip.compress(GOOD.replace(",", "\t").encode(), mtime=0), {}),
        ("semicolons.csv", GOOD.replace(",", ";"), {"delimiter": ";"}),
        ("names.csv", GOOD.replace("text,label", "sentence,topic"),
         {"text_column": "sentence", "label_column": "topic"}),
    ],
)  # fmt: skip
def test_csv_in_its_forms(name, content, options, tmp_path):
    path = write(tmp_path / name, content)
    corpus = prepare(Csv(train=path, test=path, name="mine", **options), tmp_path / "prepared", None)
    expected = [("red apple", "fruit"), ("green pear", "fruit"), ("grey iron", "metal"), ("old zinc", "metal")]
    assert rows(corpus, "train") == rows(corpus, "test") == expected
    assert corpus.label_names == ("fruit", "metal")


def test_csv_keeps_quoted_line_ends_commas_and_other_columns_apart(tmp_path):
    path = write(tmp_path / "a.csv", 'id,label,text,aug\n1,x,"a, ""b""\nc",other\n2,y,d,\n')
    corpus = prepare(Csv(train=path, test=path, aug_column="aug"), tmp_path / "prepared", None)
    assert rows(corpus, "train") == [('a, "b"\nc', "x", "other"), ("d", "y", None)]
    assert corpus.card["splits"]["train"]["augmented"] == 1


def test_jsonl_labels_may_be_strings_or_numbers(tmp_path):
    entries = [
        {"text": "a", "label": 10},
        {"text": "b", "label": 9.0},
        {"text": "c é", "label": "-1"},
        {"text": "d", "label": 2.5},
    ]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, entries)) + "\n\n")
    corpus = prepare(Jsonl(train=path, test=path), tmp_path / "prepared", None)
    assert corpus.label_names == ("-1", "2.5", "9", "10")
    assert rows(corpus, "train") == [("a", "10"), ("b", "9"), ("c é", "-1"), ("d", "2.5")]


def test_val_file_and_long_documents(tmp_path):
    train = write(tmp_path / "train.csv", GOOD + "word " * 50_000 + ",fruit\n")
    val = write(tmp_path / "val.csv", GOOD)
    corpus = prepare(Csv(train=train, val=val, test=val), tmp_path / "prepared", None)
    assert corpus.splits == ("train", "val", "test")
    assert len(rows(corpus, "train")[-1][0]) == 250_000


def test_labels_that_may_be_one_are_said(tmp_path, caplog):
    path = write(tmp_path / "a.csv", "text,label\n" + "a,Sport\nb,sport\nc,SPORT\nd,fruit\n" * 2)
    prepare(Csv(train=path, test=path, name="mine"), tmp_path / "prepared", None)
    assert "mine: labels 'SPORT' and 'Sport' are called alike (of 2 such pairs); one spelling" in caplog.text


def test_without_test_a_stratified_fifth_of_train_and_it_says_so(tmp_path, caplog):
    lines = [f"{name} {number},{name}" for number in range(50) for name in ("fruit", "metal")]
    path = write(tmp_path / "a.csv", "\n".join(["text,label", *lines]))
    with caplog.at_level(logging.WARNING):
        corpus = prepare(Csv(train=path, name="mine", split_seed=3), tmp_path / "prepared", None)
    assert "mine ships no test split: 20% stratified test split of the train rows by seed 3" in caplog.text
    assert "by seed 3" in corpus.card["split_rule"]
    counts = {split: list(facts["class_counts"].values()) for split, facts in corpus.card["splits"].items()}
    assert counts == {"train": [40, 40], "test": [10, 10]}
    together = {text for split in ("train", "test") for text, _ in rows(corpus, split)}
    assert len(together) == 100
    other = prepare(Csv(train=path, name="mine", split_seed=4), tmp_path / "prepared", None)
    assert rows(other, "test") != rows(corpus, "test")


def test_singletons_under_a_split(tmp_path):
    path = write(tmp_path / "a.csv", GOOD + "lone wolf,animal\n")
    message = refusal(Csv(train=path), tmp_path)
    assert "class 'animal' has one" in message and "singleton_classes" in message
    corpus = prepare(Csv(train=path, singleton_classes="keep_in_train"), tmp_path / "prepared", None)
    assert ("lone wolf", "animal") in rows(corpus, "train")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "FILE: the file is empty, allowed: a header line and rows"),
        ("text,label\n", "FILE: no rows, allowed: at least one row for each of at least 2 classes"),
        ("sentence,label\na,x\n", "FILE:1: no column 'text' (dataset.text_column), allowed with delimiter ',': one of "
                                  "'sentence', 'label'"),
        ("text,topic\na,x\n", "FILE:1: no column 'label' (dataset.label_column), allowed with delimiter ',': one of "
                              "'text', 'topic'"),
        (GOOD + ",fruit\n", "FILE:6: found an empty text, allowed: a string with at least one visible character"),
        (GOOD + " \t,fruit\n", "FILE:6: found an empty text, allowed: a string with at least one visible character"),
        (GOOD + "a,\n", f"FILE:6: found an empty label, {OR_EMPTY}"),
        (GOOD + "a,NaN\n", f"FILE:6: found label 'NaN', which counts as empty, {OR_EMPTY}"),
        (GOOD + '"two\nlines",fruit\na\n', "FILE:8: 1 fields, allowed: 2 as in the first line; a field that holds ',' "
                                           "must stand in double quotes"),
        (GOOD + "a, b,fruit\n", "FILE:6: 3 fields, allowed: 2 as in the first line; a field that holds ',' must "
                                "stand in double quotes"),
        (GOOD + '"open,fruit\na,fruit\n', "FILE:6: not CSV (unexpected end of data), allowed: fields with balanced "
                                          "double quotes"),
        (GOOD.encode() + b"p\xc3\xa8re,fruit\ncaf\xe9,fruit\n",
         "FILE:7: byte 0xe9 at position 4 is not UTF-8, allowed: UTF-8 text, or encoding=NAME"),
        ("text,label\na,x\nb,x\n", "user train: one class only (x), allowed: at least 2 classes"),
    ],
)  # fmt: skip
def test_bad_csv(content, message, tmp_path):
    path = write(tmp_path / "a.csv", content)
    good = write(tmp_path / "good.csv", GOOD)
    assert refusal(Csv(train=path, test=good), tmp_path) == message.replace("FILE", path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a", "label": ', "FILE:3: not JSON (Expecting value at column 23), allowed: one object a line, "
                                       "or an array of objects"),
        ('["a", "x"]', "FILE:3: found a list, allowed: one object a line, or an array of objects"),
        ('{"sentence": "a", "label": "x"}', "FILE:3: no key 'text' (dataset.text_column), allowed: one of "
                                            "'sentence', 'label'"),
        ('{"text": 7, "label": "x"}', "FILE:3: found 7, allowed: a string with at least one visible character"),
        ('{"text": null, "label": "x"}', "FILE:3: found an empty text, allowed: a string with at least one visible "
                                         "character"),
        ('{"text": "a", "label": null}', f"FILE:3: found an empty label, {OR_EMPTY}"),
        ('{"text": "a", "label": NaN}', f"FILE:3: found label 'nan', which counts as empty, {OR_EMPTY}"),
        ('{"text": "a", "label": {"x": 1}}', "FILE:3: found label \"{'x': 1}\", allowed: a name or a number"),
        ('{"text": "a", "label": ["x"]}', "FILE:3: found a list of labels, allowed: one label, as in the rows before"),
        ('{"text": "a", "label": "x", "aug": 7}', "FILE:3: found augmented text 7, allowed: a string or nothing"),
        ('{"text": "\\ud800", "label": "x"}', "FILE:3: text holds half a surrogate pair, allowed: Unicode text"),
    ],
)  # fmt: skip
def test_bad_jsonl(line, message, tmp_path):
    good = '{"text": "a", "label": "x"}\n{"text": "b", "label": "y"}\n'
    path = write(tmp_path / "a.jsonl", f"{good}{line}\n")
    assert refusal(Jsonl(train=path, test=path, aug_column="aug"), tmp_path) == message.replace("FILE", path)


@pytest.mark.parametrize("split", ["test", "val"])
def test_a_label_that_train_has_not(split, tmp_path):
    train = write(tmp_path / "train.csv", GOOD)
    other = write(tmp_path / "other.csv", GOOD + "red fox,animal\n")
    files = {"test": train} | {split: other}
    message = refusal(Csv(train=train, **files), tmp_path)
    assert message == f"{other}:6: label 'animal' does not occur in train; allowed: fruit, metal"


def test_missing_and_damaged_files(tmp_path):
    good = write(tmp_path / "good.csv", GOOD)
    missing = tmp_path / "no.csv"
    assert refusal(Csv(train=str(missing)), tmp_path).startswith(f"dataset.train={missing}: no such file")
    assert refusal(Csv(train=good, test=str(missing)), tmp_path).startswith(f"dataset.test={missing}: no such file")
    for kind, suffix in ((gzip, "gz"), (lzma, "xz")):
        packed = kind.compress(GOOD.encode() * 100)
        for content in (packed[: len(packed) // 2], b"plain text"):
            path = write(tmp_path / f"a.csv.{suffix}", content)
            assert refusal(Csv(train=path, test=good), tmp_path).startswith(f"{path}: not a whole {kind.__name__} file")
    path = write(tmp_path / "a.csv.bz2", b"plain text")
    assert refusal(Csv(train=path, test=good), tmp_path).startswith(f"{path}: cannot be read (Invalid data stream)")
    with pytest.raises(InputError, match=re.escape("dataset.delimiter: found '::', allowed: one character")):
        Csv(train=good, delimiter="::")


def test_a_delimiter_or_a_sheet_that_no_file_has_is_refused(tmp_path):
    lines = "".join(json.dumps(row) + "\n" for row in csv.DictReader(GOOD.splitlines()))
    path = write(tmp_path / "rows.jsonl", lines)
    idle = refusal(Csv(train=path, test=path, delimiter=";"), tmp_path)
    assert idle == f"{path}: dataset.delimiter=';' has no effect, allowed with CSV and TSV"
    sheet = refusal(Csv(train=path, test=path, sheet="Data"), tmp_path)
    assert sheet == f"{path}: dataset.sheet='Data' has no effect, allowed with XLSX"
    semicolons = write(tmp_path / "semicolons.csv", GOOD.replace(",", ";"))
    prepare(Csv(train=path, test=semicolons, delimiter=";"), tmp_path / "prepared", None)


@pytest.fixture
def hub_folder(tmp_path, monkeypatch) -> str:
    """A local folder in the hub's format, and a cache of the test's own."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hub_cache")
    folder = tmp_path / "flowers"
    folder.mkdir()
    entries = [{"sentence": row.split(",")[0], "topic": row.split(",")[1]} for row in GOOD.splitlines()[1:]]
    for split in ("train", "test"):
        (folder / f"{split}.jsonl").write_text("\n".join(map(json.dumps, entries)))
    return str(folder)


def test_hub_reads_a_data_set_by_path_and_columns(hub_folder, tmp_path):
    options = {"text_column": "sentence", "label_column": "topic"}
    corpus = prepare(Hub(hub_folder, **options), tmp_path / "prepared", None)
    expected = [("red apple", "fruit"), ("green pear", "fruit"), ("grey iron", "metal"), ("old zinc", "metal")]
    assert rows(corpus, "train") == rows(corpus, "test") == expected
    assert Hub(hub_folder, **options).describe_classes(corpus.label_names) == ("fruit", "metal")
    held_out = prepare(Hub(hub_folder, test_split=None, **options), tmp_path / "prepared", None)
    assert len(rows(held_out, "train")) + len(rows(held_out, "test")) == 4


def test_hub_class_labels_become_names(hub_folder, tmp_path):
    from datasets import ClassLabel, Dataset, DatasetDict

    folder = tmp_path / "parquet"
    features = {"text": ["a", "b"], "label": [1, 0]}
    table = Dataset.from_dict(features).cast_column("label", ClassLabel(names=["no", "yes"]))
    DatasetDict(train=table, test=table)["train"].to_parquet(folder / "train.parquet")
    table.to_parquet(folder / "test.parquet")
    corpus = prepare(Hub(str(folder)), tmp_path / "prepared", None)
    assert rows(corpus, "train") == [("a", "yes"), ("b", "no")]


@pytest.mark.parametrize("nothing", [-1, None])
def test_hub_rows_without_a_class_have_no_label(hub_folder, tmp_path, nothing):
    from datasets import ClassLabel, Dataset, Features, Value

    features = Features({"text": Value("string"), "label": ClassLabel(names=["no", "yes"])})
    folder = tmp_path / "parquet"
    for split, labels in {"train": [1, 0, nothing], "test": [1, 0, 0]}.items():
        table = Dataset.from_dict({"text": ["a", "b", "c"], "label": labels}, features)
        table.to_parquet(folder / f"{split}.parquet")
    message = refusal(Hub(str(folder)), tmp_path)
    assert message == f"{folder} train row 3: found an empty label, {OR_EMPTY}"
    corpus = prepare(Hub(str(folder), empty_label="unlabelled"), tmp_path / "prepared", None)
    assert corpus.label_names == ("no", "yes")
    assert corpus.table("train")["label"].to_pylist() == [1, 0, -1]


def test_hub_refusals(hub_folder, tmp_path, monkeypatch):
    message = refusal(Hub(hub_folder), tmp_path)
    assert message == f"dataset.text_column=text: {hub_folder} has no such column, there are: 'sentence', 'topic'"
    options = {"text_column": "sentence", "label_column": "topic"}
    message = refusal(Hub(hub_folder, test_split="validation", **options), tmp_path)
    assert "dataset.test_split=validation" in message and "train" in message
    message = refusal(Hub(str(tmp_path / "nowhere"), **options), tmp_path)
    assert message.startswith(f"dataset.path={tmp_path / 'nowhere'}: ")


def test_hub_out_of_reach(tmp_path, monkeypatch):
    import datasets

    def load_dataset(*args, **kwargs):
        raise ConnectionError("Couldn't reach\n the hub")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert refusal(Hub("owner/flowers"), tmp_path) == (
        "dataset.path=owner/flowers: the hub is out of reach and the data set is not in its cache "
        "(Couldn't reach the hub); allowed: a network, or a local folder"
    )


def test_train_rows_may_lack_labels_where_the_classes_are_given(tmp_path):
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    train.write_text("text,label\na,\nb,yes\nc,  \n")
    test.write_text("text,label\nd,no\n")
    options = {"train": str(train), "label_names": ["yes", "no", "never"]}
    corpus = prepare(Csv(test=str(test), **options), tmp_path / "data", None)
    assert corpus.label_names == ("yes", "no", "never")
    assert corpus.table("train")["label"].to_pylist() == [-1, 0, -1]
    assert corpus.table("test")["label"].to_pylist() == [1]
    assert corpus.card["splits"]["train"]["unlabelled"] == 2 and corpus.card["splits"]["train"]["classes"] == 1
    assert prepare(Csv(**options), tmp_path / "data", None).splits == ("train",)
    write_corpus_card(corpus, tmp_path / "card")
    assert "| without a label | 2 | 0 |" in (tmp_path / "card" / "card.md").read_text()


def test_lines_of_jsonl_may_lack_labels_too(tmp_path):
    train = write(tmp_path / "train.jsonl", '{"text": "a"}\n{"text": "b", "label": 2}\n{"text": "c", "label": null}\n')
    corpus = prepare(Jsonl(train, label_names=["1", "2"]), tmp_path / "data", None)
    assert corpus.table("train")["label"].to_pylist() == [-1, 1, -1] and corpus.splits == ("train",)
    test = write(tmp_path / "test.jsonl", '{"text": "d"}\n')
    with pytest.raises(InputError, match="test.jsonl:1: no key 'label'"):
        prepare(Jsonl(train, test=test, label_names=["1", "2"]), tmp_path / "data", None)


@pytest.mark.parametrize(
    ("names", "test_label", "message"),
    [
        (["yes"], "yes", "dataset.label_names: found \\['yes'\\], allowed: at least 2 different names"),
        (["yes", "no"], "perhaps", "test.csv:2: label 'perhaps' is not among dataset.label_names; allowed: yes, no"),
        (["yes", "no"], "", "test.csv:2: found an empty label"),
        (["on", "off"], "on", "train.csv:2: label 'yes' is not among dataset.label_names; allowed: on, off"),
    ],
)
def test_labels_outside_the_given_classes_are_refused(tmp_path, names, test_label, message):
    for split, label in (("train", "yes"), ("test", test_label)):
        (tmp_path / f"{split}.csv").write_text(f"text,label\na,{label}\n")
    files = {split: str(tmp_path / f"{split}.csv") for split in ("train", "test")}
    with pytest.raises(InputError, match=message):
        prepare(Csv(label_names=names, **files), tmp_path / "data", None)


@pytest.mark.parametrize("reader", [Csv, Jsonl])
def test_a_whole_set_may_be_without_labels(reader, tmp_path):
    lines = ["red apple", "grey iron", "old zinc"]
    content = "text\n" + "\n".join(lines) if reader is Csv else "\n".join(json.dumps({"text": t}) for t in lines)
    corpus = prepare(reader(write(tmp_path / "texts", content)), tmp_path / "prepared", None, all_rows=True)
    table = corpus.table("train")
    assert (corpus.splits, corpus.label_names) == (("train",), ())
    assert table["text"].to_pylist() == lines and table["label"].to_pylist() == [-1, -1, -1]
    assert corpus.card["splits"]["train"]["rows"] == 3
    again = prepare(reader(write(tmp_path / "texts", content)), tmp_path / "prepared", None, all_rows=True)
    assert again.folder == corpus.folder


def test_a_whole_set_joins_the_files_and_keeps_labels(tmp_path):
    files = [write(tmp_path / name, content) for name, content in (("a.csv", GOOD), ("b.csv", "text,label\nhat,wear"))]
    corpus = prepare(Csv(files[0], test=files[1]), tmp_path / "prepared", None, all_rows=True)
    assert corpus.label_names == ("fruit", "metal", "wear")
    assert [row[1] for row in rows(corpus, "train")] == ["fruit", "fruit", "metal", "metal", "wear"]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("text,label\nred,a\ngreen,\n", {}, "a.csv:3: found no label, allowed: a label in every row or in none"),
        ("text,label\n", {}, "a.csv: no rows, allowed: at least one row"),
        ("text\nred\n", {"label_column": "topic"}, "no column 'topic' (dataset.label_column)"),
        ("label\nred\n", {}, "no column 'text'"),
    ],
)
def test_what_a_whole_set_may_not_be(content, options, message, tmp_path):
    with pytest.raises(InputError, match=re.escape(message)):
        prepare(Csv(write(tmp_path / "a.csv", content), **options), tmp_path / "prepared", None, all_rows=True)


def test_texts_whose_labels_nobody_knows_are_that_in_folds_too(tmp_path):
    (tmp_path / "a.csv").write_text("text,label,more\n<b>a</b>,x|y,<i>c</i>\nb,,d\n")
    options = {"empty_label": "unlabelled", "aug_column": "more", "markup": "strip"}
    data = Csv(str(tmp_path / "a.csv"), label_separator="|", **options)
    kept = [(row["text"], row["label"], row["aug"]) for row in data.all_rows({})]
    assert kept == [("a", ["x", "y"], "c"), ("b", None, "d")]
