"""What `retrieval=knn` tries and chooses, and its index over a datastore that grows."""

import numpy as np
import pytest

from retrieval import Datastore, NearestNeighbours, knn

RNG = np.random.default_rng(0)
CENTRES = 6 * RNG.normal(size=(3, 8))
CLASSES = RNG.integers(3, size=600)
VECTORS = (CENTRES[CLASSES] + RNG.normal(size=(600, 8))).astype(np.float32)


@pytest.fixture
def store(tmp_path):
    labels, texts = [[number] for number in CLASSES[:400]], [str(number) for number in range(400)]
    return Datastore.create(tmp_path / "store", "model", {}, ["a", "b", "c"], VECTORS[:400], labels, texts)


@pytest.mark.parametrize(
    ("options", "finding"),
    [
        ({"num_neighbours": [0]}, r"retrieval.num_neighbours: found \[0\]; allowed: a list of whole numbers >= 1"),
        ({"num_neighbours": []}, r"found \[\]"),
        ({"temperature": [1, 0]}, "retrieval.temperature"),
        ({"lam": ["half"]}, "retrieval.lam"),
        ({"lam": [0.5, 1.5]}, "allowed: a list of numbers from 0 to 1"),
    ],
)
def test_bad_options_are_named(options, finding):
    with pytest.raises(ValueError, match=finding):
        NearestNeighbours(**options)


def test_a_model_that_knows_nothing_leaves_it_to_the_neighbours(store):
    retrieval = NearestNeighbours()
    distances, positions = retrieval.open_index(store).search(VECTORS[400:], max(retrieval.ks))
    by_model, classes = np.full((200, 3), 1 / 3), CLASSES[400:]
    vote = retrieval.choose(
        distances, store.labels(positions), by_model, lambda scores: (scores.argmax(axis=1) == classes).mean()
    )
    assert vote.lam > 0
    mixed = vote.mixed(vote.scores(store, distances, positions), by_model)
    assert (mixed.argmax(axis=1) == classes).mean() > 0.95 and mixed.sum(axis=1) == pytest.approx(1)
    assert vote.weights(distances).shape == (200, vote.num_neighbours)
    by_model = np.eye(3)[classes]  # one that knows all is left alone
    vote = retrieval.choose(
        distances, store.labels(positions), by_model, lambda scores: (scores.argmax(axis=1) == classes).mean()
    )
    assert vote.lam == 0


def test_pieces_change_nothing(store, monkeypatch):
    distances, positions = NearestNeighbours().open_index(store).search(VECTORS[400:], 5)
    vote = knn.Vote(5, 1.0, 0.5)
    whole = vote.scores(store, distances, positions)
    monkeypatch.setattr(knn, "PIECE", 7)
    assert (vote.scores(store, distances, positions) == whole).all()


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_the_index_is_built_once_and_grows(store, kind, monkeypatch):
    retrieval = NearestNeighbours(index=kind)
    retrieval.open_index(store)
    store.add(VECTORS[400:], [[number] for number in CLASSES[400:]], ["new"] * 200)
    monkeypatch.setattr(knn.Index, "save", None)
    monkeypatch.setattr("retrieval.search._empty_index", None)  # neither built nor written again
    actual = Datastore.open(store.folder, "model")
    positions = retrieval.open_index(actual).search(VECTORS[400:], 1)[1][:, 0]
    assert (positions == np.arange(400, 600)).mean() > 0.95


def test_auto_is_exact_while_the_datastore_is_small(store, monkeypatch):
    assert NearestNeighbours().open_index(store).kind == "flat"
    monkeypatch.setattr(knn, "EXACT_ROWS", 399)
    assert NearestNeighbours().open_index(store).kind == "ivf"
