"""Which text is asked of whom: none twice, none lost, and what the labelling has come to."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from labelling import desk as desk_module
from labelling.answers import Answer, AnswerBook
from labelling.desk import Desk, Suggestion, agreement_with_guesses, kappa_of_two, labels_a_minute
from storage.errors import InputError

NAMES = ["no", "yes"]


@pytest.fixture
def make(tmp_path):
    """make(texts, **options) -> a desk over so many texts."""
    books = []

    def build(texts=20, annotators=1, **options):
        for book in books:
            book.close()
        books.append(AnswerBook(tmp_path / "answers.jsonl", annotators))
        texts_by_position = {10 * number: f"text {number}" for number in range(texts)}
        options = {"budget": texts, "rng": np.random.default_rng(0), **options}
        return Desk(texts_by_position, books[-1], NAMES, **options)

    yield build
    for book in books:
        book.close()


def test_many_browsers_at_once_are_asked_each_text_once(make):
    desk = make(200)
    asked = []

    def work(seat):
        while "wait" not in (question := desk.question(seat, "")):
            assert desk.question(seat, "") == question  # a reload shows it again
            asked.append(question["position"])
            desk.answer(seat, "", question["position"], "yes")
        return question["wait"]

    with ThreadPoolExecutor(8) as pool:
        reasons = set(pool.map(work, map(str, range(8))))
    assert sorted(asked) == list(desk.texts) and reasons <= {"every text is answered", "open elsewhere"}


def test_suggestions_come_first_and_the_training_hears_of_the_answers(make):
    desk = make()
    shown = Suggestion("far from all", 0.5, "yes", 0.75, (("text 2", "no", 0.9),))
    desk.suggest({70: shown, 30: Suggestion("odd")}, has_model=True)
    heard = []
    training = threading.Thread(target=lambda: heard.extend(desk.wait(2, frozenset({0}))))
    training.start()
    question = desk.question("a", "")
    assert (question["position"], question["reason"], question["guess"], question["probability"]) == (
        70, "far from all", "yes", 0.75)  # fmt: skip
    assert question["neighbours"] == [{"text": "text 2", "label": "no", "similarity": 0.9}]
    desk.answer("a", "", 70, "no")
    assert desk.question("a", "")["position"] == 30
    desk.answer("a", "", 30, "skip")
    random = desk.question("a", "")
    assert random["reason"] == desk_module.IN_THE_MEANTIME and random["guess"] is None
    desk.answer("a", "", random["position"], "yes")
    training.join(10)
    assert heard == [70, 30, random["position"]]
    assert desk.state("a")["guesses"] == {"same": 0, "of": 1} and desk.state("a")["labelled"] == 2


def test_a_hidden_guess_is_not_sent(make):
    desk = make(shows_guess=False)
    desk.suggest({70: Suggestion("far", 0.5, "yes", 0.75)}, has_model=True)
    assert "guess" not in desk.question("a", "")


def test_undo_reopens_the_last_answer_and_a_change_replaces_it(make):
    desk = make()
    first = desk.question("a", "")["position"]
    desk.answer("a", "", first, "yes", "sure")
    second = desk.question("a", "")["position"]
    again = desk.undo("a", "")
    assert (again["position"], again["label"], again["note"]) == (first, "yes", "sure")
    assert desk.answered() == [] and desk.question("a", "")["position"] == first
    desk.answer("a", "", first, "no")
    assert desk.question("b", "")["position"] is not None
    assert desk.open("", first)["label"] == "no"
    desk.answer("a", "", first, "yes")
    assert desk.label_of(first) == "yes" and second != first
    assert desk.undo("c", "")["label"] is None  # another browser's answer is not taken back


def test_the_budget_counts_labels_and_what_is_open(make):
    desk = make(budget=2)
    one, two = desk.question("a", "")["position"], desk.question("b", "")["position"]
    assert desk.question("c", "") == {"wait": "open elsewhere"}
    desk.answer("a", "", one, "ambiguous")  # no label
    three = desk.question("c", "")["position"]
    desk.answer("b", "", two, "yes")
    desk.answer("c", "", three, "yes")
    assert desk.question("a", "") == {"wait": "the budget is spent"}
    state = desk.state("a")
    assert (state["labelled"], state["left_out"]) == (2, 1)


def test_a_browser_that_went_away_leaves_its_text_to_others(make, monkeypatch):
    desk = make(1)
    assert desk.question("a", "")["position"] == 0 and desk.question("b", "") == {"wait": "open elsewhere"}
    desk.leave("a")
    assert desk.question("b", "")["position"] == 0
    monkeypatch.setattr(desk_module, "LEASE", 0.0)  # or says nothing for so long
    assert desk.question("c", "")["position"] == 0


def test_two_people_are_asked_for_each_text(make):
    desk = make(4, annotators=2)
    with pytest.raises(InputError, match="name: found none"):
        desk.question("x", "")
    said = {"anna": iter(["yes", "yes", "no", "no"]), "ben": iter(["yes", "no", "no", "no"])}
    order = []
    for name in ("anna", "anna", "ben", "ben", "ben", "anna", "anna", "ben"):
        position = desk.question(name, name)["position"]
        order.append(position)
        desk.answer(name, name, position, next(said[name]))
    assert order[2:4] == order[:2]  # what another has answered comes first
    assert sorted(order) == sorted([*desk.texts] * 2)
    assert desk.label_of(order[1]) == "ambiguous" and desk.label_of(order[0]) == "yes"
    kappa = desk.state("anna")["kappa"]
    assert kappa == {"value": pytest.approx((3 / 4 - 1 / 2) / (1 - 1 / 2)), "texts": 4, "same": 3}
    with pytest.raises(InputError, match="name: found 'carl'; allowed: anna, ben"):
        desk.answer("z", "carl", 0, "yes")
    spent = make(5, annotators=2, budget=3)
    assert spent.question("anna", "anna") == {"wait": "the budget is spent"}  # and not for the other's answers


def test_two_people_go_on_where_answers_have_other_names_or_none(make):
    make(4).answer("x", "", 0, "yes")
    desk = make(4, annotators=2)
    desk.take_over([Answer("text 1", "no", "7")])
    desk = make(4, annotators=2)
    for name in ("anna", "7", "anna", "7", "anna"):
        while "wait" not in (shown := desk.question(name, name)):
            desk.answer(name, name, shown["position"], "yes" if shown["position"] else "no")
    assert len(desk.answered()) == 4 and desk.label_of(0) == desk.label_of(10) == "ambiguous"
    kappa = desk.state("anna")["kappa"]
    assert (kappa["texts"], kappa["same"]) == (3, 2)  # what has no name is nobody's
    other = [Answer("text 9", "no", "carl"), Answer("text 9", "yes", "dora")]
    assert kappa_of_two([*desk.answers(), *other]) == kappa


def test_a_class_more(make):
    fixed = make()
    with pytest.raises(InputError, match=r"are fixed; allowed with dataset\.label_names=\[…\]"):
        fixed.add_class("maybe")
    desk = make(can_add_classes=True)
    desk.add_class("1.0")
    for wrong in ("", "  ", "\u200b", "nan", "yes", "skip", "1", "x" * 101):
        with pytest.raises(InputError, match="class: found"):
            desk.add_class(wrong)
    desk.add_class(" may  be ")
    desk.add_class("True")
    desk.answer("a", "", 0, "may be")
    assert desk.classes == make(can_add_classes=True).classes == ["no", "yes", "1", "may be", "TRUE"]
    with pytest.raises(InputError, match="class: found 'rain', which describes another; allowed: a new name"):
        make(can_add_classes=True, descriptions=["sun", "rain"]).add_class("rain")
    with pytest.raises(InputError, match="label: found 'other'; allowed: no, yes, skip"):
        fixed.answer("a", "", 0, "other")


def test_answers_are_searched_and_brought_in(make):
    desk = make()
    assert desk.take_over([Answer("text  3", "yes", note="from the archive"), Answer("elsewhere", "no")]) == (1, 1)
    assert [match["position"] for match in desk.find("ARCHIVE yes")] == [30] and desk.find("archive no") == []
    with pytest.raises(InputError, match="found the label 'other'"):
        desk.take_over([Answer("text 4", "yes"), Answer("text 5", "other")])
    assert desk.label_of(30) == "yes" and desk.answered() == [30]


def test_finishing_ends_the_wait_and_the_questions(make):
    desk = make()
    desk.answer("a", "", 0, "yes")
    desk.finish()
    assert desk.wait(10, frozenset()) == [0] and desk.question("a", "") == {"wait": "finished"}


def test_a_budget_that_a_text_of_an_earlier_round_fills_ends_the_wait(make):
    desk = make(budget=2)
    desk.answer("a", "", 0, "skip")  # of an earlier round
    heard = []
    training = threading.Thread(target=lambda: heard.append(desk.wait(2, frozenset({0}))), daemon=True)
    training.start()
    desk.answer("a", "", 10, "yes")
    desk.answer("a", "", 0, "yes")
    training.join(10)
    assert heard == [[10]] and desk.question("a", "") == {"wait": "the budget is spent"}


def test_figures_of_the_labelling():
    times = [0.0, 10.0, 16.0, 22.0, 1000.0, 1006.0]  # the first is not known; a pause is no work
    assert labels_a_minute(times) == pytest.approx(10)
    assert labels_a_minute([5.0]) is None
    guessed = [Answer("a", "x", guess="x"), Answer("b", "x", guess="y"), Answer("c", "skip", guess="x")]
    assert agreement_with_guesses([*guessed, Answer("d", "x")]) == {"same": 1, "of": 2}
    same = [Answer(text, "x", name) for text in "ab" for name in ("anna", "ben")]
    assert kappa_of_two(same) == {"value": None, "texts": 2, "same": 2}


def test_a_text_may_have_several_classes(tmp_path):
    with AnswerBook(tmp_path / "answers.jsonl", separator="|") as book:
        desk = Desk({n: f"text {n}" for n in range(4)}, book, NAMES, budget=4, rng=np.random.default_rng(0))
        for position, label in enumerate([("yes", "no"), ("no",), (), "ambiguous"]):
            desk.answer("A", "", position, label)
        with pytest.raises(InputError, match="label: found 'other'; allowed: no, yes, skip"):
            desk.answer("A", "", 0, ("yes", "other"))
        state = desk.state("A")
        assert state["several"] and {entry["name"]: entry["count"] for entry in state["classes"]} == {"no": 2, "yes": 1}
        assert (state["labelled"], state["left_out"]) == (3, 1) and desk.label_of(0) == ("no", "yes")
        found = {answer["position"]: (answer["label"], answer["counts"]) for answer in desk.find("")}
        assert found[0] == ("no, yes",) * 2 and found[2] == ("no class fits",) * 2
        assert desk.open("", 2)["label"] == ()
        more = Desk({0: "text 0"}, book, NAMES, budget=4, rng=np.random.default_rng(0), can_add_classes=True)
        with pytest.raises(InputError, match=r"class: found 'no\|maybe' where '\|' stands between classes"):
            more.add_class("no|maybe")


def test_kappa_of_sets_is_that_of_each_text_and_class():
    said = {"a": [("x", "y"), ("x",)], "b": [(), ()], "c": [("y",), ("y",)], "d": [(), "skip"]}
    answers = [Answer(text, label, who) for text, pair in said.items() for who, label in zip("AB", pair, strict=True)]
    expected = cohen_kappa_score([1, 1, 0, 0, 0, 1, 0, 0], [1, 0, 0, 0, 0, 1, 2, 2])  # skipped is not "no"
    assert kappa_of_two(answers) == {"value": pytest.approx(expected), "texts": 4, "same": 2}
