"""The datastore: what goes in comes out, another model is refused, damage is seen, a killed process leaves it whole."""

import multiprocessing
import os
import signal

import numpy as np
import pytest

from retrieval import Datastore, Index, datastore

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)
LABELS, TEXTS = [[0], [], [0, 2], [1]], ["a", "b\u2028\n", "ç", "d"]
NAMES = ["x", "y", "z"]
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def store(tmp_path):
    return Datastore.create(tmp_path / "store", "model-1", {"pooling": "mean"}, NAMES, ROWS, LABELS, TEXTS)


def first_segment(store):
    return store.folder / store.header["segments"][0]["name"]


def test_what_goes_in_comes_out(store):
    actual = Datastore.open(store.folder, "model-1")
    assert len(actual) == 4 and actual.texts() == TEXTS and actual.header["config"] == {"pooling": "mean"}
    (vectors,) = actual.vectors()
    assert isinstance(vectors, np.memmap) and (vectors == ROWS).all()
    expected = [[[0, 1, 0], [1, 0, 1]], [[0, 0, 0], [0, 0, 0]]]
    assert actual.labels(np.array([[3, 2], [1, -1]])).tolist() == expected


def test_new_rows_without_a_rebuild(store):
    before = (first_segment(store) / "vectors.npy").stat()
    assert store.add(ROWS[:1] + 100, [[1, 2]], ["new"]) == 1
    actual = Datastore.open(store.folder, "model-1")
    after = (first_segment(actual) / "vectors.npy").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    first, *others = actual.vectors()
    index = Index(first)
    for vectors in others:
        index.add(vectors)
    position = index.search(ROWS[:1] + 100, 1)[1]
    assert position.item() == 4 and actual.texts()[4] == "new" and actual.labels(position)[0, 0].tolist() == [0, 1, 1]
    assert store.labels(np.array([4, 0])).tolist() == [[0, 1, 1], [1, 0, 0]]  # what was read before is read anew


def test_the_same_rows_are_added_once(store):
    assert store.add(ROWS[:2] + 1, [[1], [2]], ["p", "q"]) == 2
    assert store.add(ROWS[:2] + 1, [[1], [2]], ["p", "q"]) == 0
    assert store.add(ROWS[:2] + 1, [[1], [1]], ["p", "q"]) == 2
    assert len(Datastore.open(store.folder, "model-1")) == 8


def test_another_model_is_refused(store):
    with pytest.raises(ValueError, match="found a datastore of model model-1, allowed: model-2"):
        Datastore.open(store.folder, "model-2")


@pytest.mark.parametrize("name", ["header.json", "segment-*/vectors.npy", "segment-*/labels.npy"])
def test_damage_is_seen(store, name):
    (path,) = store.folder.glob(name)
    content = bytearray(path.read_bytes())
    content[-4] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="altered|damaged|cannot be read"):
        Datastore.open(store.folder, "model-1")


def test_bad_rows_are_named(store, tmp_path):
    with pytest.raises(ValueError, match=r"vectors must be \(N, 3\)"):
        store.add(ROWS, LABELS[:3], TEXTS)
    with pytest.raises(ValueError, match="found class 3 to 3, allowed: 0 to 2"):
        store.add(ROWS[:1], [[3]], ["a"])
    with pytest.raises(ValueError, match="found no rows"):
        Datastore.create(tmp_path / "none", "model-1", {}, NAMES, ROWS[:0], [], [])
    assert len(Datastore.open(store.folder, "model-1")) == 4
    assert not (tmp_path / "none").exists()


def dying_at(rename, function, *arguments):
    """Call a function, and be killed at its given rename."""
    replace, done = os.replace, []

    def dying(source, target):
        if len(done) == rename:
            os.kill(os.getpid(), signal.SIGKILL)
        done.append(target)
        replace(source, target)

    datastore.os.replace = dying
    function(*arguments)


def killed(rename, function, *arguments):
    process = FORK.Process(target=dying_at, args=(rename, function, *arguments))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def add(folder, text="lost"):
    Datastore.open(folder, "model-1").add(ROWS[:1] + ord(text[0]), [[1]], [text])


def build_again(folder):
    Datastore.create(folder, "model-2", {}, NAMES, ROWS + 1, LABELS, TEXTS[::-1])


@pytest.mark.parametrize("rename", [0, 1])
@pytest.mark.parametrize("function", [add, build_again])
def test_a_killed_process_leaves_it_whole(store, function, rename):
    killed(rename, function, store.folder)
    actual = Datastore.open(store.folder, "model-1")
    assert actual.texts() == TEXTS
    actual.add(ROWS[:1], [[1]], ["kept"])
    assert Datastore.open(store.folder, "model-1").texts() == [*TEXTS, "kept"]
    assert len(list(store.folder.glob("segment-*"))) == 2 and not list(store.folder.glob(".tmp-*"))
    build_again(store.folder)
    assert Datastore.open(store.folder, "model-2").texts() == TEXTS[::-1]
    assert len(list(store.folder.glob("segment-*"))) == 1


def test_writers_wait_for_each_other(store):
    """All open the datastore as it was; none loses the rows of another."""
    texts = ["k", "l", "m", "n"]
    processes = [FORK.Process(target=store.add, args=(ROWS[:1] + ord(text), [[0]], [text])) for text in texts]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert sorted(Datastore.open(store.folder, "model-1").texts()[4:]) == texts


def test_who_opened_the_old_one_does_not_add_to_the_new(store):
    build_again(store.folder)
    with pytest.raises(ValueError, match="built again by another model"):
        store.add(ROWS[:1], [[0]], ["late"])


def test_a_kept_file_goes_with_its_datastore(store):
    store.keep("index-a", lambda file: file.write(b"built"))
    actual = Datastore.open(store.folder, "model-1")
    assert actual.stored_file("index-a").read_bytes() == b"built" and actual.stored_file("index-b") is None
    actual.add(ROWS[:1] + 50, [[0]], ["more"])
    assert Datastore.open(store.folder, "model-1").stored_file("index-a") is not None
    (store.folder / "index-a").write_bytes(b"cut")
    assert actual.stored_file("index-a") is None
    build_again(store.folder)
    assert not (store.folder / "index-a").exists()
