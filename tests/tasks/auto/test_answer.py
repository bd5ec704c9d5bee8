"""What an answer reads of its texts."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from storage.run_store import RunFolder
from tasks.auto import answer
from tasks.auto.answer import reads_unlabelled
from tasks.auto.comparison.clock import Clock
from tasks.auto.reading.labelled import Labelled
from tasks.auto.reading.rows import notes_of_length, texts_cut


def test_texts_without_a_label_are_read_where_a_candidate_learns_from_them():
    few, many = (Labelled("a.csv", ["x"] * 4, list("abab"), [2] * 4, ["u"] * number) for number in (3, 40))
    assert reads_unlabelled(many, None) and not reads_unlabelled(few, None)
    assert not reads_unlabelled(many, ["logistic"]) and reads_unlabelled(few, ["kontrast"])


def test_what_is_cut_is_said_and_stands_twice_by_its_whole_text_alone(tmp_path, monkeypatch):
    texts = ["word " * 300, "word " * 256, "short"]
    assert [texts_cut(texts, limit) for limit in (128, 256)] == [2, 1]
    assert notes_of_length(2, 3, 128) == ["2 of 3 texts have more than 128 tokens: their first 128 are read"]
    assert notes_of_length(0, 3, 128) == []
    rows: Any = SimpleNamespace(names=None, rows=np.ones((3, 4), np.float32), is_cut=np.array([True, True, False]))
    monkeypatch.setattr(answer, "encoded", lambda *_: rows)
    answer._embeddings(None, ["a"], 3, 1e-3, RunFolder(tmp_path), Clock(1))
    assert np.load(tmp_path / "embeddings.npy").any(axis=1).tolist() == [False, False, True]
