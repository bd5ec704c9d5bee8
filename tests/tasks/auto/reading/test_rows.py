"""Rows of a study: drawn where they are too many, and what is said of them."""

import numpy as np

from tasks.auto.reading.labelled import Labelled
from tasks.auto.reading.rows import facts, max_length_for, regimes_of, sampled


def test_how_much_of_texts_is_read_follows_rows_spread_over_the_file(monkeypatch):
    assert max_length_for(["字" * 500] * 3) == 256 and max_length_for(["a few words"] * 3) == 128
    texts = ["word " * 100, *["short"] * 4] * 2
    assert max_length_for(texts) == 128
    monkeypatch.setattr("tasks.auto.reading.rows.MOST_ROWS", 2)
    assert max_length_for(texts) == 256  # the first of each half


def test_a_label_that_is_mistyped_once_makes_no_classes_imbalanced():
    assert regimes_of(np.array([100, 1, 100, 100]), 301) == ["few rows"]
    assert regimes_of(np.array([100, 2, 100, 100]), 302) == ["few rows", "imbalanced"]
    assert regimes_of(np.array([3, 1, 1]), 5) == ["few rows"]


def test_labels_that_are_called_alike_are_said_with_their_rows():
    labels = ["positive"] * 6 + ["postive"] + ["negative"] * 4 + ["Negative"] * 2
    data = Labelled("a.csv", [f"text {n}" for n in range(13)], labels, list(range(13)))
    names, codes = np.unique(labels, return_inverse=True)
    about = facts(data, names.tolist(), codes, None)
    assert [entry.get("alike") for entry in about["classes"]] == [["negative"], ["Negative"], ["postive"], ["positive"]]
    alike = "are classes of their own, though they are called alike"
    assert about["notes"][1:] == [f"'positive' (6 rows) and 'postive' (1 row) {alike}",
                         f"'Negative' (2 rows) and 'negative' (4 rows) {alike}",
                         "one spelling in the file makes one class of those that are called alike"]  # fmt: skip


def test_sampling_keeps_small_classes_and_the_order_of_the_file(monkeypatch):
    labels = ["a"] * 900 + ["b"] * 90 + ["c"] * 4
    data = Labelled("f.csv", [str(n) for n in range(994)], labels, list(range(994)))
    part = sampled(data, 100, seed=0)
    assert [part.labels.count(name) for name in "abc"] == [91, 10, 4] and part.lines == sorted(part.lines)
    read = "105 of 994 rows, drawn at random, are compared, and what fine-tunes learns from them alone"
    assert part.notes[0] == f"{read}, as many as fit into the minutes; with more minutes force=true draws anew"
    assert [note.split(":")[0] for note in part.notes[1:]] == ["of 'c' they hold more than their share"]
    assert sampled(data, 994, seed=0) is data
    monkeypatch.setattr("tasks.auto.reading.rows.MOST_ROWS", 100)
    assert sampled(data, 500, seed=0).notes[0] == read


def test_sampling_keeps_rare_labels_where_texts_have_several():
    labels = [("a", "b")] * 900 + [("a",)] * 90 + [("c",), ("a", "c")] * 3
    data = Labelled("f.csv", [str(n) for n in range(996)], labels, list(range(996)), several=True)
    part = sampled(data, 100, seed=0)
    assert part.rows_of_label()["c"] == 6 and 100 <= len(part.labels) <= 116 and part.lines == sorted(part.lines)


def test_facts_of_a_sample_know_how_many_rows_of_each_class_the_file_has():
    labels = ["spam"] * 40 + ["Spam"] * 30 + ["ham"] * 300
    whole = Labelled("f.csv", [str(n) for n in range(370)], labels, list(range(370)))
    part = sampled(whole, 100, seed=0)
    names, codes = np.unique(part.labels, return_inverse=True)
    about = facts(part, names.tolist(), codes, whole)
    assert about["sampled_from"] == 370
    assert [entry["rows_in_file"] for entry in about["classes"]] == [30, 300, 40]
    assert any("'Spam' (30 rows) and 'spam' (40 rows) are" in note for note in about["notes"])
    assert "rows_in_file" not in facts(part, names.tolist(), codes, None)["classes"][0]
