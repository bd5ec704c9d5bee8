"""A prepared data set: built once, checked at each start, whole or not there at all."""

import errno
import json
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from datamodules import corpus as corpus_module
from datamodules.builders.base import TextDataset
from datamodules.builders.user_files import Csv
from datamodules.corpus import Corpus, prepare
from storage.errors import InputError

ROOT = Path(__file__).resolve().parents[2]


class Rows(TextDataset):
    """Rows given by hand; counts how often they are read."""

    def __init__(self, train, test=None, val=None, **options) -> None:
        super().__init__("given", **options)
        self.inputs = {"train": train, "test": test, "val": val}
        self.reads = 0

    def rows(self, files):
        self.reads += 1
        return {
            split: ({"text": text, "label": label} for text, label in rows)
            for split, rows in self.inputs.items()
            if rows
        }


TRAIN = [("red apple", "fruit"), ("grey iron", "metal"), ("green pear", "fruit"), ("red apple", "fruit")]
TEST = [("old zinc", "metal"), ("green pear", "fruit")]


def folders(path: Path) -> list[Path]:
    return [child for child in path.iterdir() if child.is_dir() and child.name != "sources"]


def texts(corpus: Corpus, split: str) -> list[str]:
    return corpus.table(split)["text"].to_pylist()


def test_columns_types_order_and_reuse(tmp_path):
    dataset = Rows(TRAIN, TEST)
    corpus = prepare(dataset, tmp_path, None)
    assert (corpus.name, corpus.splits, corpus.label_names) == ("given", ("train", "test"), ("fruit", "metal"))
    assert corpus.table("train").schema == pa.schema({"text": pa.string(), "label": pa.int32()})
    assert texts(corpus, "train") == [text for text, _ in TRAIN]
    assert corpus.table("train")["label"].to_pylist() == [0, 1, 0, 0]
    again = prepare(dataset, tmp_path, None)
    assert dataset.reads == 1
    assert (again.folder, again.fingerprint, again.card) == (corpus.folder, corpus.fingerprint, corpus.card)
    assert folders(tmp_path) == [corpus.folder]
    with pytest.raises(InputError, match="given: no split 'val'; there are train, test"):
        corpus.table("val")


def test_the_fingerprint_is_of_the_rows_in_order_whatever_the_chunks(tmp_path, monkeypatch):
    fingerprint = prepare(Rows(TRAIN, TEST), tmp_path / "a", None).fingerprint
    assert prepare(Rows([*TRAIN[1:], TRAIN[0]], TEST), tmp_path / "b", None).fingerprint != fingerprint
    assert prepare(Rows(TRAIN, TEST, val=TEST), tmp_path / "c", None).fingerprint != fingerprint
    monkeypatch.setattr(corpus_module, "CHUNK_ROWS", 3)
    chunked = prepare(Rows(TRAIN, TEST), tmp_path / "d", None)
    assert chunked.table("train")["text"].num_chunks == 2
    assert chunked.fingerprint == fingerprint
    monkeypatch.setattr(corpus_module, "CHUNK_CHARACTERS", 12)
    shorter = prepare(Rows(TRAIN, TEST), tmp_path / "e", None)
    assert [len(chunk) for chunk in shorter.table("train")["text"].chunks] == [2, 2]


@pytest.mark.parametrize(
    ("mode", "kept", "removed"),
    [
        ("none", "abcda", {"duplicates": 0, "leaks": 0}),
        ("train", "abcd", {"duplicates": 1, "leaks": 0}),
        ("leaks", "ada", {"duplicates": 0, "leaks": 2}),
        ("all", "ad", {"duplicates": 1, "leaks": 2}),
    ],
)
def test_deduplicate(mode, kept, removed, tmp_path):
    train = [("a", "x"), ("b", "x"), ("c", "y"), ("d", "y"), ("a", "y")]
    corpus = prepare(Rows(train, test=[("b", "x"), ("e", "y")], val=[("c", "x")], deduplicate=mode), tmp_path, None)
    assert "".join(texts(corpus, "train")) == kept
    assert corpus.card["removed"] == removed
    assert texts(corpus, "test") == ["b", "e"]


def test_a_class_that_deduplication_removes_is_refused(tmp_path):
    with pytest.raises(InputError, match="label 'y' does not occur in train"):
        train = [("a", "x"), ("b", "y"), ("c", "z")]
        prepare(Rows(train, test=[("b", "y")], deduplicate="leaks"), tmp_path, None)
    assert folders(tmp_path) == []


def damage_truncate(folder: Path) -> None:
    path = folder / "train.arrow"
    path.write_bytes(path.read_bytes()[:-20])


def damage_alter(folder: Path) -> None:
    path = folder / "train.arrow"
    stat = path.stat()
    path.write_bytes(path.read_bytes().replace(b"red apple", b"bad apple"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def damage_remove(folder: Path) -> None:
    (folder / "test.arrow").unlink()


def damage_meta(folder: Path) -> None:
    path = folder / "meta.json"
    path.write_text(path.read_text()[:-10])


def damage_meta_value(folder: Path) -> None:
    path = folder / "meta.json"
    path.write_text(path.read_text().replace('"metal"', '"wood"', 1))


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (damage_truncate, r"train\.arrow has \d+ of \d+ bytes"),
        (damage_alter, r"train\.arrow is altered"),
        (damage_remove, r"test\.arrow is missing"),
        (damage_meta, r"meta\.json is damaged"),
        (damage_meta_value, r"meta\.json is altered"),
    ],
)
def test_damage_is_seen_and_repaired(damage, line, tmp_path, caplog):
    dataset = Rows(TRAIN, TEST)
    before = prepare(dataset, tmp_path, None)
    damage(before.folder)
    with pytest.raises(InputError, match=line):
        Corpus.open(before.folder)
    with caplog.at_level(logging.WARNING):
        after = prepare(dataset, tmp_path, None)
    assert "building it again" in caplog.text
    assert (after.folder, after.fingerprint) == (before.folder, before.fingerprint)
    assert texts(after, "train") == [text for text, _ in TRAIN]


def test_large_files_are_hashed_only_when_touched(tmp_path, monkeypatch):
    dataset = Rows(TRAIN, TEST)
    monkeypatch.setattr(corpus_module, "SMALL", 0)
    corpus = prepare(dataset, tmp_path, None)
    hashed = []
    monkeypatch.setattr(corpus_module, "file_sha256", lambda path: hashed.append(path.name) or "other")
    prepare(dataset, tmp_path, None)
    assert hashed == []
    os.utime(corpus.folder / "train.arrow")
    with pytest.raises(InputError, match=r"train\.arrow is altered"):
        Corpus.open(corpus.folder)
    assert hashed == ["train.arrow"]


def test_an_edited_user_file_or_another_option_is_another_corpus(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label,kind\na,x,1\nb,y,2\n")
    data = tmp_path / "data"
    first = prepare(Csv(train=str(path), test=str(path)), data, None)
    other = prepare(Csv(train=str(path), test=str(path), label_column="kind"), data, None)
    assert other.label_names == ("1", "2")
    path.write_text("text,label,kind\na,x,1\nc,y,2\n")
    edited = prepare(Csv(train=str(path), test=str(path)), data, None)
    assert len({first.folder, other.folder, edited.folder}) == 3
    assert texts(edited, "train") == ["a", "c"]
    longer = prepare(Csv(train=str(path), test=str(path), max_length=9), data, None)
    assert longer.folder == edited.folder


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(corpus_module, "_write", full)
    with pytest.raises(InputError) as error:
        prepare(Rows(TRAIN, TEST), tmp_path, None)
    assert str(error.value) == (f"{tmp_path}: the disk is full; free some space or choose another folder (paths.data)")
    assert folders(tmp_path) == []


def prepare_slowly(path: str, csv: str, queue) -> None:
    corpus = prepare(Csv(train=csv, test=csv), Path(path), None)
    queue.put((str(corpus.folder), corpus.fingerprint))


@pytest.mark.slow
def test_two_processes_at_once_both_end_well(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "".join(f"text {number},{number % 7}\n" for number in range(50_000)))
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    arguments = (str(tmp_path / "data"), str(path), queue)
    processes = [context.Process(target=prepare_slowly, args=arguments) for _ in range(3)]
    for process in processes:
        process.start()
    results = {queue.get(timeout=60) for _ in processes}
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert len(results) == 1
    assert [str(folder) for folder in folders(tmp_path / "data")] == [next(iter(results))[0]]


def test_a_killed_preparation_leaves_nothing_under_the_final_name(tmp_path):
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from datamodules import corpus\n"
        "from datamodules.builders.user_files import Csv\n"
        "corpus._write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "corpus.prepare(Csv(train=sys.argv[1], test=sys.argv[1]), Path(sys.argv[2]), None)\n"
    )
    path, data = tmp_path / "a.csv", tmp_path / "data"
    path.write_text("text,label\na,x\nb,y\n")
    killed = subprocess.run([sys.executable, "-c", code, path, data], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    (stale,) = folders(data)
    assert stale.name.startswith(".user-")
    corpus = prepare(Csv(train=str(path), test=str(path)), data, None)
    assert folders(data) == [corpus.folder]
    assert texts(corpus, "train") == ["a", "b"]


def test_opening_is_light_and_quick(tmp_path):
    corpus = prepare(Rows(TRAIN, TEST), tmp_path, None)
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from datamodules.corpus import Corpus\n"
        "assert Corpus.open(Path(sys.argv[1])).table('train').num_rows == 4\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}))\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", code, corpus.folder], cwd=ROOT, check=True, capture_output=True, text=True
    )
    loaded = set(json.loads(output.stdout.replace("'", '"')))
    assert not loaded & {"torch", "pandas", "matplotlib", "sklearn", "datasets", "pooch", "rich", "filelock"}
