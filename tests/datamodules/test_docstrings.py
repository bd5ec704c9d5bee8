"""The default data set: its rows are fixed by the lock, clean, long-tailed, and neither trivial nor hopeless."""

import hashlib
import re
from collections import Counter
from importlib import metadata
from pathlib import Path

import pytest

from datamodules.builders import docstrings as builder
from datamodules.builders.docstrings import Docstrings, distinct, first_sentence, split
from storage.errors import InputError

LOCK = Path(__file__).parents[2] / "requirements.lock"
ROWS_SHA256 = "dfd04293608223fa40b715fa29a7dae70abb66ba756835fae7e63fe05e79dead"


@pytest.fixture(scope="module")
def rows():
    return {name: list(part) for name, part in Docstrings("docstrings").rows({}).items()}


def texts(rows):
    return [row["text"] for row in rows]


def labels(rows):
    return [row["label"] for row in rows]


def test_reference_versions_are_those_of_the_lock():
    pinned = dict(line.split("==") for line in LOCK.read_text().splitlines() if re.match(r"[\w.-]+==[\w.]+$", line))
    reference = {builder.DISTRIBUTION.get(library, library): version for library, version in builder.REFERENCE.items()}
    assert reference == {name: pinned[name] for name in reference}


@pytest.mark.slow
def test_rows_are_those_of_the_reference(rows):
    if any(builder.installed_version(library) != version for library, version in builder.REFERENCE.items()):
        pytest.skip("other versions installed than the lock's")
    digest = hashlib.sha256()
    for part in ("train", "test"):
        for row in rows[part]:
            digest.update(f"{row['label']}\t{row['text']}\n".encode())
    assert (len(rows["train"]), len(rows["test"])) == (4820, 1206)
    assert digest.hexdigest() == ROWS_SHA256


@pytest.mark.slow
def test_classes_are_many_and_long_tailed_and_split_alike(rows):
    train, test = Counter(labels(rows["train"])), Counter(labels(rows["test"]))
    assert len(train) == 33 and train.keys() == test.keys()
    assert max(train.values()) / min(train.values()) >= 30
    for label, count in test.items():
        assert abs(count - 0.2 * (count + train[label])) <= 0.5


@pytest.mark.slow
def test_no_text_twice_anywhere(rows):
    folded = [text.casefold() for part in rows.values() for text in texts(part)]
    assert len(folded) == len(set(folded))


@pytest.mark.slow
def test_texts_are_clean_and_do_not_name_their_library(rows):
    for row in rows["train"] + rows["test"]:
        text, library = row["text"], row["label"].split(".")[0]
        assert text.isascii() and text.isprintable() and text == " ".join(text.split())
        assert len(re.findall(r"[A-Za-z]{2,}", text)) >= 4
        names = f"{library}|{builder.OTHER_NAMES.get(library, library)}"
        assert not re.search(rf"\b(?i:{names})\b|`|:[a-z]+:|^Args:|---", text)


@pytest.mark.parametrize(
    ("docstring", "sentence"),
    [
        ("Fit the :class:`~a.b.Model` to data. Then more.", "Fit the Model to data"),
        ("Solve ``A x = b``\n    for the vector *x*.\n\nLong.", "Solve A x = b for the vector x"),
        ("See :ref:`the guide <guide>` for many details [1]_.", "See the guide for many details"),
        ("Use [this page](http://x.y) for many details", "Use this page for many details"),
        ("Take values, e.g. numbers, and add them up.", "Take values, e.g. numbers, and add them up"),
        ("Generate one new variable :param curr: the counter", "Generate one new variable"),
        ("Load the file from disk\nArgs:\n    path: the file", "Load the file from disk"),
        ("Args:\n    path: the file that is to be read", None),
        ("Too short.", None),
        ("add(x1, x2, out=None) adds two given numbers", None),
        (r"Compute \alpha of the given four numbers", None),
        ("Größe of the given four numbers", None),
        (".. deprecated:: 1.0 use the other one instead", None),
        ("", None),
    ],
)
def test_first_sentence(docstring, sentence):
    assert first_sentence(docstring) == sentence


def test_distinct_drops_texts_of_two_classes_and_keeps_the_first_of_one():
    rows = [("Return it", "a"), ("One thing", "a"), ("ONE thing", "a"), ("return IT", "b"), ("Other", "b")]
    assert sorted(distinct(iter(rows))) == [("One thing", "a"), ("Other", "b")]


def test_split_does_not_depend_on_the_order_of_the_rows():
    rows = [(f"text {number}", "ab"[number % 2]) for number in range(50)]
    assert split(rows) == split(rows[::-1])
    assert Counter(labels(split(rows)[1])) == {"a": 5, "b": 5}


def test_only_public_definitions_are_read():
    source = '''
class Public:
    """class"""
    def method(self):
        """method"""
    def _private(self):
        """no"""
class _Hidden:
    def method(self):
        """no"""
async def function():
    """function"""
'''
    assert list(builder.docstrings(builder.ast.parse(source).body)) == ["class", "method", "function"]


def test_missing_library_is_named(monkeypatch):
    real = metadata.distribution

    def distribution(name):
        if name == "scikit-learn":
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(builder.metadata, "distribution", distribution)
    with pytest.raises(InputError, match=r"^dataset=docstrings: scikit-learn is not installed, expected .* 1\.\d"):
        Docstrings("docstrings").identity()


def test_other_version_changes_identity_and_is_said(monkeypatch, caplog):
    monkeypatch.setattr(builder, "REFERENCE", {"scipy": "0.1"})
    monkeypatch.setattr(builder, "PARTS", {"scipy": "cluster"})
    dataset = Docstrings("docstrings")
    before = dataset.identity()
    dataset.rows({})
    assert "made with 0.1" in dataset.about()["differences"] and "made with 0.1" in caplog.text
    monkeypatch.setattr(builder, "installed_version", lambda library: "0.2")
    assert dataset.identity() != before


@pytest.mark.slow
def test_words_alone_do_well_but_not_perfectly(rows):
    """TF-IDF with logistic regression: 77.8 % accuracy where the largest class holds 15.9 %."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    words = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(C=10, max_iter=300))
    words.fit(texts(rows["train"]), labels(rows["train"]))
    accuracy = words.score(texts(rows["test"]), labels(rows["test"]))
    majority = Counter(labels(rows["test"])).most_common(1)[0][1] / len(rows["test"])
    print(f"accuracy {accuracy:.4f}, largest class {majority:.4f}")
    assert majority < 0.2 and 0.7 < accuracy < 0.85
