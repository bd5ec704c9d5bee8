"""Geometry of embeddings against the golden cases of SCL-HNM and naive loops."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import silhouette_score

from reporting.geometry import alignment, geometry, neighbourhood_purity, silhouette, uniformity

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "scl_hnm.json").read_text())
CASE = next(case for case in GOLDEN["cases"] if case["id"] == "alignment_uniformity")
ROWS, LABELS = np.array(CASE["inputs"]["h"]), np.array(CASE["inputs"]["labels"])


def close(value):
    return pytest.approx(value, rel=0, abs=1e-10)


def test_golden():
    expected = CASE["expected"]
    assert alignment(ROWS, LABELS) == close(expected["alignment_mean_of_class_means"])
    assert uniformity(ROWS) == close(expected["uniformity"])


@pytest.mark.parametrize("size", [40, 1500])  # within one block, over two
def test_purity_and_uniformity_by_loops(size):
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(size, 3)), rng.integers(3, size=size)
    rows[:, 0] += labels
    z = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    pure, kernel = [], []
    for i in range(size):
        distances = np.linalg.norm(z - z[i], axis=1)
        kernel += np.exp(-2 * distances[i + 1 :] ** 2).tolist()
        distances[i] = np.inf
        pure.append(np.mean(labels[np.argsort(distances)[:7]] == labels[i]))
    assert neighbourhood_purity(rows, labels, 7) == close(np.mean(pure))
    assert uniformity(rows) == close(np.log(np.mean(kernel)))
    assert silhouette(rows, labels) == close(silhouette_score(rows, labels, metric="cosine"))


def test_length_does_not_count():
    assert geometry(ROWS * 7.5, LABELS) == {name: close(value) for name, value in geometry(ROWS, LABELS).items()}


def test_one_class_and_single_rows():
    assert "silhouette" not in geometry(ROWS, np.zeros(7, int))
    assert set(geometry(ROWS, np.arange(7))) == {"uniformity", "neighbourhood_purity"}
    assert geometry(ROWS[:1], LABELS[:1]) == {}
    same = geometry(np.ones((4, 2)), np.array([0, 0, 1, 1]))
    assert same["alignment"] == close(0) and same["uniformity"] == close(0)


def test_large_splits_are_sampled_by_seed():
    rng = np.random.default_rng(1)
    rows, labels = rng.normal(size=(300, 3)), rng.integers(2, size=300)
    first = geometry(rows, labels, max_rows=100, seed=0)
    assert first == geometry(rows, labels, max_rows=100, seed=0) != geometry(rows, labels, max_rows=100, seed=1)
