"""What people said of texts: kept at once, replaced, taken back, and read again after any stop."""

import fcntl
import json

import pytest

from labelling.answers import Answer, AnswerBook, all_of_kind, record_new
from storage.errors import InputError, ReportError

HOSTILE = 'two\nlines, "quotes" and <b>tags</b> \u2028'


@pytest.fixture
def file(tmp_path):
    return tmp_path / "answers" / "pool.jsonl"


def test_what_stands_is_what_was_said_last(file):
    with AnswerBook(file) as book:
        for text, label in (("", "no"), (HOSTILE, "no"), ("b", "yes"), (HOSTILE, "skip"), ("c", "yes")):
            book.record(Answer(text, label, note="n", guess="no", probability=0.25, time=1.5))
        book.withdraw("c")
        book.add_class("maybe")
    with AnswerBook(file) as again:
        assert [(a.text, a.label, a.guess, a.probability, a.time) for a in again.all()] == [
            ("", "no", "no", 0.25, 1.5),
            ("b", "yes", "no", 0.25, 1.5),
            (HOSTILE, "skip", "no", 0.25, 1.5),
        ]
        assert again.label(HOSTILE) == "skip" and again.label("c") is None and again.added_classes == ["maybe"]
        assert again.taken_back == {"c"}


def test_people_who_differ_are_ambiguous_where_two_are_asked(file):
    with AnswerBook(file, annotators=2) as book:
        for name, label in (("anna", "no"), ("ben", "yes")):
            book.record(Answer("a", label, name))
            book.record(Answer("b", "yes", name))
        assert (book.label("a"), book.label("b")) == ("ambiguous", "yes")
    with AnswerBook(file) as alone:
        assert alone.label("a") == "yes"  # the last


def test_a_line_that_was_cut_off_is_dropped_and_a_wrong_one_named(file):
    with AnswerBook(file) as book:
        book.record(Answer("a", "no"))
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"text": "b", "la')
    with AnswerBook(file) as book:
        book.record(Answer("c", "yes"))
    assert file.read_bytes() == whole + b'{"text": "c", "label": "yes", "time": 0.0}\n'
    for wrong in (b"[]", b'{"text": "b"}', b'{"text": 1, "label": "no"}', b'{"text": "b", "label": "no", "time": "x"}'):
        file.write_bytes(whole + wrong + b"\n")
        with pytest.raises(InputError, match=r"pool.jsonl:2: found .*; allowed: \{"):
            AnswerBook(file)


def test_another_process_may_not_write_beside(file):
    with AnswerBook(file), pytest.raises(ReportError, match="another process asks for these labels"):
        AnswerBook(file)
    AnswerBook(file).close()
    assert not file.exists()  # nothing was said


def test_a_file_that_another_process_removes_while_it_is_opened_is_made_again(file, monkeypatch):
    def lock(handle, flags, lock=fcntl.flock):
        monkeypatch.setattr(fcntl, "flock", lock)
        file.unlink()  # as a book without an answer is closed
        lock(handle, flags)

    monkeypatch.setattr(fcntl, "flock", lock)
    with AnswerBook(file) as book:
        book.record(Answer("a", "no"))
        with pytest.raises(ReportError, match="another process"):
            AnswerBook(file)
    assert json.loads(file.read_text())["text"] == "a"


def test_classes_are_checked_against_what_was_said(file):
    with AnswerBook(file) as book:
        book.record(Answer("a", "sport"))
        book.check_classes(["sport", "world"])
        with pytest.raises(InputError, match="found the label 'sport'; allowed: no, yes, skip.*active.answers=FILE"):
            book.check_classes(["no", "yes"])
        with pytest.raises(InputError, match="found a class named 'skip'"):
            book.check_classes(["sport", "skip"])


def test_answers_from_elsewhere_replace_none(file):
    with AnswerBook(file) as book:
        book.record(Answer("a  b", "no"))
        news = [Answer("a b", "yes", "x"), Answer("c d ", "yes", "x"), Answer("c d", "no", "y"), Answer("z", "no")]
        assert record_new(book, news, ["a  b", "c d"]) == (1, 1)
        assert (book.label("a  b"), book.label("c d")) == ("no", "yes")
        assert record_new(book, [Answer("c d", "no", "x"), Answer("z", "no")], ["c d"]) == (0, 1)
    assert [json.loads(line)["text"] for line in file.read_text().splitlines()] == ["a  b", "c d"]


def test_several_classes_a_text(file):
    with AnswerBook(file) as book:
        book.record(Answer("a", "yes"))
        book.record(Answer("b", "no class fits"))
        book.record(Answer("c", "skip"))
    with AnswerBook(file, annotators=2, separator="|") as book:  # what was said while a text had one counts
        assert [book.label(text) for text in "abc"] == [("yes",), (), "skip"]
        book.record(Answer("d", ("no", "yes"), "A"))
        book.record(Answer("d", ("yes",), "B"))
        assert book.label("d") == "ambiguous"
        kept = record_new(book, all_of_kind([Answer("a", ("yes", "no"), "C"), Answer("b", "yes", "C")], True), "ab")
        assert kept == (2, 0) and book.answers("a")[-1].label == ("no", "yes")
        with pytest.raises(InputError, match="found the label 'no'; allowed: yes, skip"):
            book.check_classes(["yes"])
    with pytest.raises(InputError, match=r"jsonl:4: found .*allowed"), AnswerBook(file):
        pass
    with pytest.raises(InputError, match="found the labels no, yes; allowed: one class a text"):
        all_of_kind([Answer("d", ("no", "yes"))], False)
