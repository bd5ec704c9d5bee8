"""What classes are called: the files that come with the data sets, and a user's own."""

import pytest

from datamodules.class_descriptions import (
    KNOWN,
    called_alike,
    is_code,
    known_descriptions,
    names_of,
    nearly_alike,
    read_descriptions,
    spelt_out,
)
from storage.errors import InputError

LABELS = ("a", "b")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("d.yaml", "a: apples\nb: [1]".replace("[1]", "bees")),
        ("d.json", '{"b": "bees", "a": "apples"}'),
        ("d.csv", "label,description\na,apples\nb,bees\n"),
        ("plain.csv", "b,bees\na,apples\n"),
        ("upper.CSV", 'Label,Description\n"a ",apples\nb,"bees"\n,\n\n'),
    ],
)
def test_three_formats_say_the_same(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    assert read_descriptions(tmp_path / name, LABELS) == ("apples", "bees")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "found nothing"),
        ("[1, 2]", "found list"),
        ("a: [", "cannot be read"),
        ("a: apples", "no description of 'b'"),
        ("a: apples\nb: bees\nc: cats", "found label 'c', which the data set has not"),
        ("a: apples\nb: Apples ", "'a' and 'b' are described alike"),
        ("a: apples\nb: ', ,'", "the description of 'b' is empty"),
        ("a: apples\nb: ''", "the description of 'b' is empty"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path, content, message):
    (tmp_path / "d.yaml").write_text(content)
    with pytest.raises(InputError, match=message) as error:
        read_descriptions(tmp_path / "d.yaml", LABELS)
    assert str(tmp_path / "d.yaml") in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content"), [("d.json", ""), ("d.json", "\n {}\n"), ("d.csv", " \n\n"), ("d.csv", "label,description\n")]
)
def test_an_empty_file_of_another_format_is_one_line(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=f"{name}: found nothing; allowed: a description of each label") as error:
        read_descriptions(tmp_path / name, LABELS)
    assert "\n" not in str(error.value)


def test_labels_of_yaml_are_words(tmp_path):
    (tmp_path / "d.yaml").write_text("yes: good\nno: bad\n01: first\nnull: 7\n")
    assert read_descriptions(tmp_path / "d.yaml", ("01", "no", "null", "yes")) == ("first", "bad", "7", "good")
    (tmp_path / "d.csv").write_text('a,apples\n"a ",again\n')
    with pytest.raises(InputError, match="label 'a' twice"):
        read_descriptions(tmp_path / "d.csv", LABELS)


def test_no_such_file(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_descriptions(tmp_path / "missing.yaml", LABELS)


def test_labels_that_say_nothing():
    assert all(map(is_code, ("3", "C01", "1.2", "cs-7", "LABEL_0", "class 1", "B", "IV", "True")))
    assert not any(map(is_code, ("cs.CL", "acq", "world news", "yes")))
    assert spelt_out("sci_techNews") == "sci tech News"
    assert known_descriptions("no such set", ("1", "2")) is None
    assert known_descriptions("no such set", ("1", "2", "other")) is None
    assert known_descriptions("no such set", ("G20", "trade", "money")) == ("G20", "trade", "money")
    assert known_descriptions("no such set", ("one_two", "bee")) == ("one two", "bee")
    assert called_alike(["sport", "world", "Sport "]) == (0, 2) and called_alike(["sport", "world"]) is None


@pytest.mark.parametrize(
    "labels", ["group_1 group_2", "cls0 cls10", "level-3 level-4", "+1 -1", "type.A type.B", "star_5 star_4", "cat3 a"]
)
def test_labels_that_a_number_or_a_letter_tells_apart_are_no_names(labels):
    assert names_of(labels.split()) is None


def test_names_that_look_like_numbered_ones_stay_names():
    assert names_of(["vitamin C", "vitamin D"]) is not None
    for labels in (["cat", "car"], ["sport"], ["iPhone 12", "Pixel 3"], ["男", "女"], ["1st_team", "2nd_team"]):
        assert names_of(labels) == tuple(map(spelt_out, labels))


def test_labels_that_a_letter_tells_apart_may_be_one_mistyped():
    labels = ["positive", "postive", "Negative", "negative ", "nagative", "neutral", "class_1", "class_2", "C01", "D01"]
    assert nearly_alike(labels) == {(0, 1), (2, 3), (2, 4)}
    assert nearly_alike(["class a", "class b", "A", "B", "type 1", "type 2", "1a", "rain", "train s"]) == set()


def test_the_files_that_come_along_are_sound():
    files = sorted(KNOWN.glob("*.yaml"))
    assert len(files) >= 12
    for file in files:
        import yaml

        labels = tuple(map(str, yaml.safe_load(file.read_text())))
        assert len(known_descriptions(file.stem, labels)) == len(labels) > 1
