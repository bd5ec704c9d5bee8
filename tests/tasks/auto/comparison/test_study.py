"""What a study keeps of its candidates and folds, and what more rows would bring."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

from storage.run_store import RunFolder
from tasks.auto.candidates.declarations import CANDIDATES, by_name
from tasks.auto.candidates.folds import FoldOutcome
from tasks.auto.comparison import learning_curve
from tasks.auto.comparison.clock import Clock
from tasks.auto.comparison.study import Study, enough_folds


def test_a_datastore_of_neighbours_counts_as_part_of_the_model(tmp_path):
    embeddings: Any = SimpleNamespace(rows=np.empty((1000, 2**10)), counts=None, seconds_per_text=0.01, size_mib=50.0)
    labels = np.zeros((1000, 24), int)
    study = Study(RunFolder(tmp_path), Clock(3), [], list(map(str, range(24))), labels, ["a"] * 1000, embeddings)
    sizes = [study._size(by_name(several=True)[name]) for name in ("bce", "knn_mltc", "neighbours")]
    assert sizes == pytest.approx([50 + 4 * 24 / 2**10, 54, 54])


def test_what_is_calibrated_on_other_folds_needs_two():
    brief, half = (c for c in CANDIDATES if c.name in ("setfit_brief", "ce_half"))
    assert [enough_folds(c, 3, 9000) for c in (brief, half)] == [2, 1]
    sizes = ((5, 300), (3, 300), (5, 2000), (5, 150), (3, 90))
    assert [enough_folds(half, *size) for size in sizes] == [3, 2, 3, 4, 3]


@pytest.mark.parametrize(("run_id", "is_known"), [("pairs_words-a-1", True), ("setfit_pairs-a-1", False)])
def test_a_fold_of_a_version_that_learned_it_otherwise_is_learned_again(tmp_path, run_id, is_known):
    labels, scores = np.arange(100) % 2, np.eye(2)[np.zeros(50, int)]
    study = Study(RunFolder(tmp_path), Clock(1), [], ["a", "b"], labels, list(map(str, labels)), None)
    outcome = FoldOutcome(np.arange(50), scores, np.nan, 1.0, 1.0, run_id=run_id, logits=scores)
    study.save("setfit_brief", 0, 0, outcome)
    assert (study.known("setfit_brief", 0, 0) is not None) == is_known


def test_a_class_of_one_row_is_not_what_more_labels_would_bring():
    labels = np.array([0, 0, 1, 1, 2, 2, 3])
    study: Any = SimpleNamespace(labels=labels, several=False, num_classes=4, class_counts=np.bincount(labels))
    answers = np.array([0, 0, 1, 0, 2, 2, 0])
    expected = f1_score(labels, answers, average=None)[:3].mean()
    assert learning_curve._figures(study, np.arange(7), answers) == pytest.approx((expected, 5 / 7))
    bits = np.eye(4, dtype=int)
    study = SimpleNamespace(labels=bits[labels], several=True, num_classes=4, class_counts=np.bincount(labels))
    assert learning_curve._figures(study, np.arange(7), bits[answers])[0] == pytest.approx(expected)
