"""Texts of several labels: rows, splits, cards and batches, with none, doubled and unseen labels among them."""

import json
import logging
from types import SimpleNamespace

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from matplotlib import image

from datamodules.builders.hub import Hub
from datamodules.builders.user_files import Csv, Jsonl
from datamodules.cards import cooccurrence
from datamodules.collation import FeatureBatches
from datamodules.corpus import prepare
from datamodules.imbalance import Counts, Exponential, Listed
from datamodules.labels import class_counts, label_array
from datamodules.samplers import ClassBalanced, Shuffle
from datamodules.splits import multilabel_split, stratified_split
from datamodules.texts.datamodule import TextDataModule
from storage.errors import InputError
from storage.tables import label_name, open_table
from tasks.auto.reading.table import read_labelled
from tasks.datastore import _labels, _one_name, labels_in, with_reader_of_labels
from tasks.describe import write_corpus_card
from tests.datamodules.fake_corpus import wordpiece
from tests.datamodules.test_corpus import Rows

TRAIN = [
    ("one", ["b", "a"]),
    ("two", []),
    ("three", ["c", "c", "b"]),
    ("one", ["a", "b"]),
    ("two", ["c"]),
    ("four", ["a"]),
]
TEST = [("five", ["b"]), ("two", ["d", "a"])]


def test_lists_of_labels_are_stored_as_ascending_sets(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        corpus = prepare(Rows(TRAIN, TEST), tmp_path, None)
    assert corpus.multilabel and corpus.label_names == ("a", "b", "c", "d")
    assert corpus.table("train").schema.field("label").type == pa.list_(pa.int32())
    assert corpus.table("train")["label"].to_pylist() == [[0, 1], [], [1, 2], [0, 1], [2], [0]]
    assert corpus.table("test")["label"].to_pylist() == [[1], [0, 3]]
    assert "no train row has the label d; it counts in the figures" in caplog.text
    table = label_array(corpus.table("train"), 4)
    assert table.tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]]
    assert class_counts(table, 4).tolist() == [3, 3, 2, 0]
    other = prepare(Rows([("one", ["a"]), *TRAIN[1:]], TEST, deduplicate="none"), tmp_path / "other", None)
    assert other.fingerprint != corpus.fingerprint


@pytest.mark.parametrize(
    ("train", "test", "finding"),
    [
        ([("x", ["a"]), ("y", "b")], TEST, "given train row 2: found one label, allowed: a list of labels"),
        ([("x", "a"), ("y", ["b"])], TEST, "given train row 2: found a list of labels, allowed: one label"),
        ([("x", ["a"]), ("y", ["b", " "])], TEST, "given train row 2: found label ' ', allowed: a name or a number"),
        (TRAIN, [("x", "a")], "given test: found one label a text, allowed: lists of labels, as in train"),
        ([("x", []), ("y", [])], TEST, "given train: no row has a label"),
    ],
)
def test_what_does_not_go_together_is_named(train, test, finding, tmp_path):
    with pytest.raises(InputError, match=finding.replace("(", r"\(")):
        prepare(Rows(train, test), tmp_path, None)


def test_files_with_lists(tmp_path):
    table, lines = tmp_path / "a.csv", tmp_path / "a.jsonl"
    table.write_text("text,label\n" + "".join(f'{text},"{" ; ".join(labels)}"\n' for text, labels in TRAIN))
    lines.write_text("".join(json.dumps({"text": text, "label": labels}) + "\n" for text, labels in TRAIN))
    from_table = prepare(Csv(str(table), label_separator=";", test=str(table)), tmp_path / "data", None)
    from_lines = prepare(Jsonl(str(lines), test=str(lines)), tmp_path / "data", None)
    assert from_table.multilabel and from_table.fingerprint == from_lines.fingerprint
    with pytest.raises(InputError, match="dataset.label_separator: found ''"):
        Csv(str(table), label_separator="")
    with pytest.raises(InputError, match=r"a.csv:2: found label ' ', allowed"):
        table.write_text('text,label\none," ;"\n')
        prepare(Csv(str(table), label_separator=";", test=str(table)), tmp_path / "data", None)


def test_blank_parts_beside_labels_are_none(tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("text,label\n" + 6 * "one,a; b;\ntwo,;b\nthree,a; ;\nfour,\n")
    learned = Csv(str(table), label_separator=";").read(table, frozenset())
    trained = [[label.strip() for label in row["label"]] for row in learned]
    rows, reading = with_reader_of_labels(open_table(table).rows, *_run_of_several(";"), several=True)
    added = [labels_in(where, row, "label", reading) for where, row in rows]
    auto = read_labelled(str(table))
    assert auto.several and [list(labels) for labels in auto.labels[:3]] == trained[:3] == added[:3]
    assert trained[:4] == [["a", "b"], ["b"], ["a"], []]
    (lines := tmp_path / "a.jsonl").write_text('{"label": ["a", "b"]}\n{"label": "c"}\n')
    rows, reading = with_reader_of_labels(open_table(lines).rows, *_run_of_several("lists"), several=True)
    assert [labels_in(where, row, "label", reading) for where, row in rows] == [["a", "b"], ["c"]]


def _run_of_several(separator):
    """Config and plan, as far as labels of new rows go by them."""
    dataset = SimpleNamespace(label_separator=separator)
    return SimpleNamespace(label_separator=None, label_column="label"), SimpleNamespace(dataset=dataset)


def test_lists_of_the_hub_become_names(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    names = datasets.ClassLabel(names=["sad", "glad"])
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.Sequence(names)})
    rows = {"text": ["x", "y", "z"], "label": [[0, 1], [], [1]]}
    for split in ("train", "test"):
        datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "set" / f"{split}.parquet")
    corpus = prepare(Hub(str(tmp_path / "set")), tmp_path / "data", None)
    assert corpus.label_names == ("glad", "sad")
    assert corpus.table("train")["label"].to_pylist() == [[0, 1], [], [0]]


def skewed(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.random((rows, 6)) < [0.5, 0.3, 0.1, 0.05, 0.02, 0.01]).astype(np.uint8)


@pytest.mark.parametrize("fraction", [0.1, 0.3])
def test_each_label_has_its_share_of_validation(fraction):
    labels = skewed()
    train, val = stratified_split(labels, fraction, np.random.default_rng(0))
    assert np.array_equal(np.sort(np.concatenate([train, val])), np.arange(len(labels)))
    assert len(val) == pytest.approx(fraction * len(labels), abs=3)
    assert np.abs(labels[val].sum(0) - fraction * labels.sum(0)).max() <= 2
    assert (labels[val].sum(1) == 0).sum() == pytest.approx(fraction * (labels.sum(1) == 0).sum(), abs=3)
    assert np.array_equal(val, stratified_split(labels, fraction, np.random.default_rng(0))[1])
    assert not np.array_equal(val, stratified_split(labels, fraction, np.random.default_rng(1))[1])


def test_every_label_keeps_a_train_row():
    for seed in range(20):
        labels = np.zeros((12, 7), np.uint8)
        labels[np.arange(6), np.arange(6)] = 1  # six labels of one row each
        labels[:, 6] = 1
        train, val = multilabel_split(labels, 0.4, np.random.default_rng(seed))
        assert labels[train].any(0).all() and len(val)


def test_degenerate_label_sets():
    rng = np.random.default_rng(0)
    same = np.ones((10, 3), np.uint8)
    assert [len(part) for part in multilabel_split(same, 0.2, rng)] == [8, 2]
    none = np.zeros((10, 3), np.uint8)
    assert [len(part) for part in multilabel_split(none, 0.2, rng)] == [8, 2]
    with pytest.raises(InputError, match="every train row has a label of its own"):
        multilabel_split(np.eye(5, dtype=np.uint8), 0.2, rng)
    with pytest.raises(InputError, match="found 2 train rows"):
        multilabel_split(same[:2], 0.2, rng)


@pytest.mark.slow
def test_card(tmp_path, capsys):
    corpus = prepare(Rows(TRAIN, TEST), tmp_path, None)
    train, test = corpus.card["splits"]["train"], corpus.card["splits"]["test"]
    assert train["class_counts"] == {"a": 3, "b": 3, "c": 2, "d": 0}
    assert (train["cardinality"], train["density"], train["label_sets"], train["without_label"]) == (
        1.333,
        0.33333,
        5,
        1,
    )
    assert train["conflicting_texts"] == 1  # `two`; both rows of `one` have the same labels
    assert (train["classes"], train["ir"], train["duplicates"]) == (3, 1.5, 2)
    assert test["leaks_exact"] == 1 and test["cardinality"] == 1.5
    folder = write_corpus_card(corpus, tmp_path / "card")
    assert "labels a row (cardinality)" in capsys.readouterr().out
    markdown = (folder / "card.md").read_text()
    assert "| rows without a label | 1 | 0 |" in markdown and "(cooccurrence.svg)" in markdown
    assert image.imread(folder / "cooccurrence.png").std() > 0.05
    before = (folder / "cooccurrence.svg").read_bytes()
    write_corpus_card(corpus, folder)
    assert (folder / "cooccurrence.svg").read_bytes() == before


def test_cooccurrence_against_a_slow_reference():
    labels = np.hstack([skewed(50), np.zeros((50, 1), np.uint8)])
    actual = cooccurrence(labels)
    for i in range(labels.shape[1]):
        rows = [row for row in labels if row[i]]
        for j in range(labels.shape[1]):
            assert actual[i, j] == (pytest.approx(np.mean([row[j] for row in rows])) if rows else 0)


def module(corpus, tmp_path, imbalance=None, sampler=None):
    clean = {"name": "clean", "val_fraction": 0.2, "monitor": "val/macro_f1"}
    built = TextDataModule(corpus, wordpiece(tmp_path), None, imbalance or Exponential(), sampler or Shuffle(4), clean,
                          1, 0, max_length=16, cache_dir=tmp_path / "cache")  # fmt: skip
    built.setup()
    return built


@pytest.fixture
def corpus(tmp_path):
    rows = [(f"w{number}", [name for name in "abc" if (number >> "abc".index(name)) & 1]) for number in range(24)]
    return prepare(Rows(rows, TEST[:1]), tmp_path, None)


def test_batches_carry_rows_of_0_and_1(corpus, tmp_path):
    data = module(corpus, tmp_path)
    assert data.multilabel and data.labels["train"].shape == (len(data.indices["train"]), 3)
    assert data.class_counts.tolist() == data.labels["train"].sum(0).tolist()
    assert (data.class_counts > 0).all() and len(data.indices["val"]) >= 4
    table = label_array(corpus.table("train"), 3)
    for batch in data.train_dataloader():
        assert batch["labels"].dtype.is_floating_point
        rows = data.indices["train"][batch["indices"].numpy()]
        assert np.array_equal(batch["labels"].numpy(), table[rows])
    features = FeatureBatches(np.zeros((1, 3, 2), np.float32), np.array([[1, 0], [0, 0], [1, 1]], np.uint8), 2)
    assert features[np.array([2, 1])]["labels"].tolist() == [[1, 1], [0, 0]]


def test_rows_by_position_and_thinning_by_class(corpus, tmp_path):
    listed = module(corpus, tmp_path, Listed([0, 3, 5, 6]))
    assert sorted([*listed.indices["train"], *listed.indices["val"]]) == [0, 3, 5, 6]
    with pytest.raises(InputError, match="imbalance: found Exponential, which thins classes; .*imbalance.ir=null"):
        module(corpus, tmp_path, Exponential(2))
    with pytest.raises(InputError, match="imbalance: found Counts"):
        module(corpus, tmp_path, Counts({"a": 2}))
    assert ClassBalanced.multilabel is False and Shuffle.multilabel is None


@pytest.mark.parametrize("label", [1, 1.0, "1", " 1 ", "\ufeff1\u00a0\u200b "])
def test_a_label_is_the_same_in_training_and_in_the_datastore(label):
    assert label_name(label, "a.csv:2") == "1"
    assert _labels("a.csv:2", {"label": label}, "label", {"0": 0, "1": 1}, _one_name) == [1]


def test_a_truth_value_is_the_same_label_in_every_format(tmp_path):
    labels = pd.DataFrame({"text": ["a", "b", "c"], "label": [True, False, True]})
    labels.to_csv(tmp_path / "a.csv", index=False)
    labels.to_excel(tmp_path / "a.xlsx", index=False)
    labels.to_parquet(tmp_path / "a.parquet")
    labels.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    for name in ("a.csv", "a.xlsx", "a.parquet", "a.jsonl"):
        corpus = prepare(Csv(str(tmp_path / name), test=str(tmp_path / "a.csv")), tmp_path / "data", None)
        assert corpus.label_names == ("FALSE", "TRUE"), name


@pytest.mark.parametrize("label", [None, "", " ", "\u200b", "NaN", float("nan"), {"a": 1}])
def test_what_is_no_label_is_refused_by_both(label):
    for read in (label_name, lambda value, where: _labels(where, {"label": value}, "label", {"1": 0}, _one_name)):
        with pytest.raises(InputError, match="^a.csv:2: found .*, allowed: a name or a number$"):
            read(label, "a.csv:2")
