"""Search: every kind of index against all distances, new rows, the row itself, and without faiss."""

import importlib.util
import io
import subprocess
import sys
from pathlib import Path

import faiss
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
    assert distances == pytest.approx(np.sort(every, axis=1)[:, :5], abs=1e-4)


def test_the_row_itself_is_left_out(vectors, library):
    twice = np.concatenate([vectors[:50], vectors[:50]])
    distances, positions = Index(twice).search(twice[:50], 3, itself=np.arange(50))
    assert (positions != np.arange(50)[:, None]).all()
    assert (positions[:, 0] == np.arange(50, 100)).all() and distances[:, 0].max() < 1e-4


def test_new_rows_are_found_at_once(vectors, library, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 300)
    index = Index(vectors[:1000])
    index.add(vectors[1000:])
    assert (index.search(vectors[990:1010], 1)[1][:, 0] == np.arange(990, 1010)).all()


@pytest.mark.parametrize("kind", ["ivf", "hnsw", "pq"])
def test_recall_of_approximate_kinds(vectors, kind):
    index = Index(vectors, kind, probes=16)
    actual = recall(index, [vectors[:700], vectors[700:]], vectors[:100])
    assert actual > (0.5 if kind == "pq" else 0.95)
    assert recall(Index(vectors), [vectors], vectors[:100]) == 1
    if kind == "ivf":
        assert recall(Index(vectors, kind, probes=1), [vectors], vectors[:100]) < actual


def test_probes_are_chosen_for_the_recall(vectors, monkeypatch):
    few = Index(vectors, "ivf")
    monkeypatch.setattr(module, "RECALL", 1.0)
    all_of_them = Index(vectors, "ivf")
    assert few.probes <= all_of_them.probes
    assert recall(all_of_them, [vectors], vectors[:256]) > 0.99 and recall(few, [vectors], vectors[:256]) > 0.9
    assert Index(vectors, "ivf", probes=7).probes == 7 and Index(vectors).probes is None
    shuffled = np.random.default_rng(0).normal(size=(2000, 16)).astype(np.float32)  # no clusters: more are needed
    assert Index(shuffled, "ivf").probes > few.probes


@pytest.mark.parametrize("kind", ["ivf", "pq"])
def test_equal_rows_are_as_good_as_one_another_and_no_query_is_without_any(vectors, kind):
    copies = np.repeat(vectors[:20], 100, axis=0)
    index = Index(copies, kind, probes=None if kind == "ivf" else 1)
    assert index.probes <= 4 and recall(index, [copies], vectors[:20]) == 1
    few = Index(copies, kind, probes=1)
    assert (few.search(vectors, 5)[1][:, 0] >= 0).all() and few.probes == 1
    assert (few.search(copies, 5, itself=np.arange(2000))[1][:, 0] >= 0).all()


@pytest.mark.parametrize("kind", ["ivf", "hnsw", "pq"])
def test_a_saved_index_takes_the_rows_that_came_later(vectors, kind, tmp_path, monkeypatch):
    with open(tmp_path / "index", "wb") as file:
        Index(vectors[:1500], kind).save(file)
    monkeypatch.setattr(module, "_empty_index", None)  # nothing is trained again
    read = Index(vectors, kind, file=tmp_path / "index")
    assert read.size == 2000
    assert recall(read, [vectors], vectors[1500:]) > (0.5 if kind == "pq" else 0.95)


def test_flat_has_nothing_to_save(vectors):
    with pytest.raises(ValueError, match="flat builds nothing to write"):
        Index(vectors).save(io.BytesIO())


def test_without_faiss_only_flat(vectors, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="retrieval.index=ivf: faiss is not installed; allowed without it: flat"):
        Index(vectors, "ivf")


def test_an_index_goes_to_the_gpu_that_faiss_sees(vectors, monkeypatch):
    """A stand-in for the GPU build: what is asked of it, and that the CPU's index is what is written."""
    asked = []
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1)
    monkeypatch.setattr(faiss, "StandardGpuResources", lambda: "resources", raising=False)
    monkeypatch.setattr(
        faiss, "index_cpu_to_gpu", lambda *inputs: asked.append(inputs[:2]) or inputs[2], raising=False
    )
    assert Index(vectors).search(vectors[:5], 1)[1][:, 0].tolist() == [0, 1, 2, 3, 4]
    Index(vectors, "ivf"), Index(vectors, "hnsw"), Index(vectors, "pq")
    assert asked == [("resources", 0)] * 2  # flat and ivf


CLASH = """
import sys
sys.path.insert(0, {root!r})
import {first}, {second}, numpy, torch
torch.set_num_threads(2)
from retrieval import Index, exact_search
vectors = numpy.random.default_rng(0).normal(size=(4000, 64)).astype("float32")
layer = torch.nn.Linear(64, 64)
index = Index(vectors, "ivf", probes=63)
assert faiss.omp_get_max_threads() == 2
for number in range(20):
    queries = vectors[50 * number :][:50]
    with torch.inference_mode():
        hidden = layer(torch.from_numpy(vectors)) @ torch.ones(64, 8)
    found = index.search(queries, 5)[1]
    assert (found[:, 0] == numpy.arange(50 * number, 50 * number + 50)).all() and hidden.isfinite().all()
    loss = layer(torch.from_numpy(queries)).square().sum()
    loss.backward()
assert (exact_search([vectors], vectors[:20], 5)[1] == index.search(vectors[:20], 5)[1]).mean() > 0.9
print("both work")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [("torch", "faiss"), ("faiss", "torch")])
def test_faiss_and_torch_share_a_process(first, second):
    """In either order of import, threads of both in turn: no abort over a second OpenMP, and nobody waits for ever."""
    root = str(Path(__file__).resolve().parents[2])
    code = CLASH.format(root=root, first=first, second=second)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "both work", done.stderr
