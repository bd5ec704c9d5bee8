"""The card of a data set, counted by hand."""

import json
import xml.etree.ElementTree as ElementTree

import pytest
from matplotlib import image

from datamodules.builders.user_files import Csv
from datamodules.cards import card
from datamodules.corpus import prepare
from tasks.describe import write_corpus_card

TRAIN = """text,label,aug
one two three,a,one too three
one two three,b,
One  two,a,One  two
four,b,five
six seven,a,
four,b,five
eight,a,nine
"""
TEST = """text,label,aug
four,b,
one two,b,
ONE TWO,a,
new,a,
"""


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "train.csv").write_text(TRAIN)
    (tmp_path / "test.csv").write_text(TEST)
    files = {split: str(tmp_path / f"{split}.csv") for split in ("train", "test")}
    return prepare(Csv(**files, aug_column="aug", name="mine"), tmp_path / "data", None)


def test_statistics(corpus):
    assert corpus.card == card(corpus)
    train, test = corpus.card["splits"]["train"], corpus.card["splits"]["test"]
    assert train == {
        "rows": 7,
        "classes": 2,
        "largest": 4,
        "smallest": 3,
        "ir": 1.33,
        "words": {"mean": 1.86, "median": 2.0, "p95": 3.0, "max": 3},
        "duplicates": 2,
        "conflicting_texts": 1,
        "augmented": 5,
        "augmented_changed": 0.8,
        "class_counts": {"a": 4, "b": 3},
    }
    assert test["leaks_exact"] == 1
    assert test["leaks_folded"] == 3
    assert (test["augmented"], test["augmented_changed"]) == (0, 0.0)
    assert corpus.card["classes"] == 2
    assert corpus.card["fingerprint"] == corpus.fingerprint


def test_describe_prints_and_writes(corpus, tmp_path, capsys):
    folder = write_corpus_card(corpus, tmp_path / "card")
    assert folder == tmp_path / "card"
    printed = capsys.readouterr().out
    assert "mine: 2 classes" in printed and "duplicate rows" in printed
    assert json.loads((folder / "card.json").read_text()) == corpus.card
    markdown = (folder / "card.md").read_text()
    assert "| duplicate rows | 2 | 0 |" in markdown
    assert "| rows whose text is in train |  | 1 |" in markdown
    assert "(labels.svg)" in markdown
    assert image.imread(folder / "labels.png").std() > 0.05
    before = (folder / "labels.svg").read_bytes()
    written = " ".join(ElementTree.fromstring(before).itertext())
    assert "mine: 2 classes, ir 1.33" in written
    assert (write_corpus_card(corpus, folder) / "labels.svg").read_bytes() == before


@pytest.mark.slow
def test_picture_of_a_long_tail_is_logarithmic_and_its_smallest_bar_shows(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "".join(f"t{n},c{0 if n < 90 else n}\n" for n in range(99)))
    corpus = prepare(Csv(train=str(path), test=str(path)), tmp_path / "data", None)
    assert corpus.card["splits"]["train"]["ir"] == 90
    folder = write_corpus_card(corpus, tmp_path / "card")
    texts = " ".join(ElementTree.fromstring((folder / "labels.svg").read_bytes()).itertext()).split()
    assert {"1", "10", "c0", "c98"} <= set(texts)
