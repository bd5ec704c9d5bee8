"""Seconds that candidates are told to take."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from storage.run_store import RunFolder
from tasks.auto.candidates.declarations import by_name, chosen
from tasks.auto.comparison.clock import Clock
from tasks.auto.comparison.durations import solving_seconds
from tasks.auto.comparison.study import Study


def test_with_very_many_classes_what_solves_nothing_comes_first_and_the_solver_of_words_is_not_feared(tmp_path):
    """A fold of TF-IDF took 9 s; where no step is solved, 2 s."""
    labels, texts = np.repeat(np.arange(1000), 3), [f"ten words of a text that is number {n}" for n in range(3000)]
    embeddings: Any = SimpleNamespace(names=None, rows=np.empty((3000, 384)), seconds_per_text=0.01)
    names = [f"class {n}" for n in range(1000)]
    study = Study(RunFolder(tmp_path), Clock(3), [], names, labels, texts, embeddings)
    untrained = [c for c in chosen([], None) if c.kind != "trained"]
    foretold = {c.name: solving_seconds(study, c) for c in sorted(untrained, key=partial(solving_seconds, study))}
    assert list(foretold)[:1] == ["majority"] and list(foretold)[-3:] == ["tfidf_linear", "logistic", "linear_words"]
    assert foretold["prototypes"] == 0 and 5 < foretold["tfidf_linear"] < 20


def test_where_texts_have_several_labels_the_sum_with_words_is_not_feared(tmp_path):
    """On Reuters a fold of it took 2.8 s, of logistic regression 1.5 s and of TF-IDF 2.3 s."""
    embeddings: Any = SimpleNamespace(names=None, rows=np.empty((994, 384)), seconds_per_text=0.01)
    labels, texts = np.zeros((994, 54), int), [f"{n} " + 89 * "word " for n in range(994)]
    study = Study(RunFolder(tmp_path), Clock(2), [], [f"label {n}" for n in range(54)], labels, texts, embeddings)
    several = by_name(several=True)
    foretold = [solving_seconds(study, several[name]) for name in ("linear_words", "logistic", "tfidf_linear")]
    assert np.allclose(foretold, [3.8, 1.5, 2.3], atol=0.3)
