"""Search: every kind of index against all distances, new rows, the row itself, and without faiss."""

import importlib.util

import numpy as np
import pytest

from retrieval import Index, recall
from retrieval import search as module


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(40, 16)) * 4
    return (centres[rng.integers(40, size=2000)] + rng.normal(size=(2000, 16))).astype(np.float32)


@pytest.fixture(params=["faiss", "torch"])
def library(request, monkeypatch):
    if request.param == "torch":
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    return request.param


def test_flat_is_exact(vectors, library):
    distances, positions = Index(vectors).search(vectors[:20], 5)
    every = np.linalg.norm(vectors[:20, None].astype(float) - vectors[None], axis=2)
    assert (positions == np.argsort(every, axis=1)[:, :5]).all()
    assert distances == pytest.approx(np.sort(every, axis=1)[:, :5], abs=2e-2)  # faiss: squares by dot products


def test_the_row_itself_is_left_out(vectors, library):
    twice = np.concatenate([vectors[:50], vectors[:50]])
    distances, positions = Index(twice).search(twice[:50], 3, itself=np.arange(50))
    assert (positions != np.arange(50)[:, None]).all()
    assert (positions[:, 0] == np.arange(50, 100)).all() and distances[:, 0].max() < 2e-2


def test_new_rows_are_found_at_once(vectors, library, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 300)
    index = Index(vectors[:1000])
    index.add(vectors[1000:])
    assert (index.search(vectors[990:1010], 1)[1][:, 0] == np.arange(990, 1010)).all()


@pytest.mark.parametrize("kind", ["ivf", "hnsw", "pq"])
def test_recall_of_approximate_kinds(vectors, kind):
    exact, index = Index(vectors), Index(vectors, kind, probes=16)
    found = recall(index, exact, vectors[:100])
    assert found > (0.5 if kind == "pq" else 0.95)
    assert recall(exact, exact, vectors[:100]) == 1
    if kind == "ivf":
        assert recall(Index(vectors, kind, probes=1), exact, vectors[:100]) < found


def test_without_faiss_only_flat(vectors, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="retrieval.index=ivf: faiss is not installed; allowed without it: flat"):
        Index(vectors, "ivf")
