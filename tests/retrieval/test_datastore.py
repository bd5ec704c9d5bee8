"""The datastore: what goes in comes out, another model is refused, damage is seen, a killed process leaves it whole."""

import multiprocessing
import os
import signal

import numpy as np
import pytest

from retrieval import Datastore, Index, datastore

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)
LABELS, TEXTS = [[0], [], [0, 2], [1]], ["a", "b\u2028\n", "ç", "d"]


@pytest.fixture
def store(tmp_path):
    store = Datastore.create(tmp_path / "store", "model-1", {"pooling": "mean"}, 3, ["x", "y", "z"])
    store.add(ROWS, LABELS, TEXTS)
    return store


def test_what_goes_in_comes_out(store):
    found = Datastore.open(store.folder, "model-1")
    assert len(found) == 4 and found.texts() == TEXTS and found.header["config"] == {"pooling": "mean"}
    (vectors,) = found.vectors()
    assert isinstance(vectors, np.memmap) and (vectors == ROWS).all()
    expected = [[[0, 1, 0], [1, 0, 1]], [[0, 0, 0], [0, 0, 0]]]
    assert found.labels(np.array([[3, 2], [1, -1]])).tolist() == expected


def test_new_rows_without_a_rebuild(store):
    before = (store.folder / "segment-00000" / "vectors.npy").stat()
    store.add(ROWS[:1] + 100, [[1, 2]], ["new"])
    found = Datastore.open(store.folder, "model-1")
    after = (store.folder / "segment-00000" / "vectors.npy").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    first, *others = found.vectors()
    index = Index(first)
    for vectors in others:
        index.add(vectors)
    position = index.search(ROWS[:1] + 100, 1)[1]
    assert position.item() == 4 and found.texts()[4] == "new" and found.labels(position)[0, 0].tolist() == [0, 1, 1]


def test_another_model_is_refused(store):
    with pytest.raises(ValueError, match="found a datastore of model model-1, allowed: model-2"):
        Datastore.open(store.folder, "model-2")


@pytest.mark.parametrize("name", ["header.json", "segment-00000/vectors.npy", "segment-00000/labels.npy"])
def test_damage_is_seen(store, name):
    path = store.folder / name
    content = bytearray(path.read_bytes())
    content[-4] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="altered|damaged|cannot be read"):
        Datastore.open(store.folder, "model-1")


def test_bad_rows_are_named(store):
    with pytest.raises(ValueError, match=r"vectors must be \(N, 3\)"):
        store.add(ROWS, LABELS[:3], TEXTS)
    with pytest.raises(ValueError, match="found class 3 to 3, allowed: 0 to 2"):
        store.add(ROWS[:1], [[3]], ["a"])
    assert len(Datastore.open(store.folder, "model-1")) == 4


def add_and_die(folder, replacements):
    """Add a row, and be killed at the given rename."""
    replace, done = os.replace, []

    def dying(source, target):
        if len(done) == replacements:
            os.kill(os.getpid(), signal.SIGKILL)
        done.append(target)
        replace(source, target)

    datastore.os.replace = dying
    Datastore.open(folder, "model-1").add(ROWS[:1], [[1]], ["lost"])


@pytest.mark.parametrize("replacements", [0, 1])
def test_a_killed_process_leaves_it_whole(store, replacements):
    process = multiprocessing.get_context("fork").Process(target=add_and_die, args=(store.folder, replacements))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    found = Datastore.open(store.folder, "model-1")
    assert found.texts() == TEXTS
    found.add(ROWS[:1], [[1]], ["kept"])
    assert Datastore.open(store.folder, "model-1").texts() == [*TEXTS, "kept"]
