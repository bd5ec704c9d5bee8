"""Rows of a large file that were not compared."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_matrix

from storage.run_store import RunFolder
from tasks.auto.candidates.declarations import by_name
from tasks.auto.candidates.embeddings import Embeddings
from tasks.auto.comparison.clock import Clock
from tasks.auto.comparison.study import Study
from tasks.auto.model import further_rows
from tasks.auto.reading.labelled import Labelled
from tasks.auto.reading.rows import sampled


@pytest.mark.parametrize(
    ("name", "several", "seconds", "rows"),
    [
        ("logistic", False, 7.13, 100),  # 4 s to write it; of a row 0.01 s to encode and 0.02 to solve, a fifth more
        ("logistic", False, 90, 200),
        ("logistic", True, 90, 200),
        ("logistic", False, 5, 40),  # so few more are not worth while
        ("tfidf_linear", False, 6.41, 100),
        ("nearest_name", False, 90, 40),
        ("neighbours", False, 90, 40),  # which would take four times as long for twice the rows
        ("ce_half", False, 90, 40),
    ],
)
def test_what_trains_no_encoder_learns_from_rows_that_were_not_compared(
    tmp_path, monkeypatch, name, several, seconds, rows
):
    labels = [(("a", "b")[row % 2],) if several else ("a", "b")[row % 2] for row in range(200)]
    data = Labelled("f.csv", [f"text {row}" for row in range(200)], labels, list(range(2, 202)), several=several)
    drawn = sampled(data, 40, seed=3)
    codes = np.array([label in ("b", ("b",)) for label in drawn.labels], int)
    codes = np.eye(2, dtype=int)[codes] if several else codes
    clock = Clock(seconds / 60, now=lambda: 0.0)
    candidate = by_name(several)[name]
    further_rows.keep_time(clock, [candidate], drawn, data)
    is_kept = name not in ("nearest_name", "neighbours", "ce_half")
    assert clock.left_with_fit == pytest.approx((0.85 if is_kept else 1) * seconds - clock.report)
    clock.report = 0.0
    nothing = csr_matrix((40, 3))
    rows_drawn = np.ones((40, 2)), nothing, np.zeros(40, bool)
    of_drawn = Embeddings(*rows_drawn, np.empty((0, 2)), nothing[:0], None, 0.01, 1.0, "tiny", 2)
    study = Study(RunFolder(tmp_path), clock, ["dataset.train=rows"], ["a", "b"], codes, drawn.texts, of_drawn)
    outcome: Any = SimpleNamespace(seconds_fit=0.02 * 32, run_id="")
    study.keep(name, 0, 0, outcome)
    encoded = []

    def encoded_texts(plan, texts, vocabulary_size):
        encoded.extend(texts)
        return np.ones((len(texts), 2)), csr_matrix((len(texts), vocabulary_size)), np.zeros(len(texts), bool)

    monkeypatch.setattr(further_rows, "plan_of", lambda words: None)
    monkeypatch.setattr(further_rows, "encoded_texts", encoded_texts)
    whole = further_rows.with_further_rows(study, candidate, drawn, data, seed=3)
    label_of = dict(zip(data.texts, data.labels, strict=True))
    classes = [("a", "b")[row.argmax() if several else row] for row in whole.labels]
    assert len(set(whole.texts)) == len(whole.texts) == rows and classes == [label_of[text][0] for text in whole.texts]
    if name == "tfidf_linear":
        table = pq.read_table(tmp_path / "all_rows.parquet")
        assert table["text"].to_pylist() == whole.texts.tolist() and not encoded
        assert whole.words == [f"dataset.train='{tmp_path / 'all_rows.parquet'}'"]
    else:
        assert [*drawn.texts, *encoded] == whole.texts.tolist() and len(whole.embeddings.rows) == rows
