"""Labelling in the terminal: keys, undo, and answers that outlive any end of the process."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

from labelling.answers import NO_LABEL, AnswerBook
from labelling.desk import Suggestion
from storage.errors import InputError, Stopped
from tasks.active.prompt import Prompt, keys_of
from tests.command_lines import RUN_PY

NAMES = ["no", "yes"]
TEXTS = {
    "seven": Suggestion("far from the others", guess="yes", probability=0.75),
    "twelve\x1b[31m": Suggestion("odd"),
    "three": Suggestion("odd"),
}
ASK = """
import sys
from pathlib import Path
from labelling.answers import AnswerBook
from tasks.active.prompt import Prompt
from tests.tasks.active.test_prompt import NAMES, TEXTS, codes
book = AnswerBook(Path(sys.argv[1]))
Prompt(book, NAMES, 10).ask(TEXTS)
print("answers", codes(book), flush=True)
"""


def codes(book):
    """Number of the class of each text, or of the word in its place; None where nothing was said."""
    numbers = NO_LABEL | {name: number for number, name in enumerate(NAMES)} | {None: None}
    return [numbers[book.label(text)] for text in TEXTS]


@pytest.fixture
def ask(tmp_path):
    """ask(keys) -> answers to three texts."""

    def answers(keys):
        with AnswerBook(tmp_path / "answers.jsonl") as book:
            Prompt(book, NAMES, keys=iter(keys)).ask(TEXTS)
            return codes(book)

    return answers


def kept(tmp_path):
    lines = (tmp_path / "answers.jsonl").read_text().splitlines()
    return [json.loads(line)["label"] for line in lines]


@pytest.mark.parametrize(
    ("keys", "answers"),
    [
        ("121\n", [0, 1, 0]),
        ("1sa\n", [0, -1, -2]),
        ("nn1\n", [-3, -3, 0]),
        ("1u2?x12\n", [1, 0, 1]),  # undone at once; keys without a meaning do nothing
        ("uu12\x7f\x7f212\r", [1, 0, 1]),  # nothing to undo at first, twice undone later
        ("1221u1\n", [0, 1, 0]),  # undone before training starts; a fourth answer goes nowhere
        ("122", [0, 1, 1]),
    ],
)
def test_keys(ask, keys, answers):
    assert ask(keys) == answers


def test_every_answer_is_on_disk_at_once(ask, tmp_path):
    def keys():
        for number, key in enumerate("12q"):
            assert len(kept(tmp_path)) == number
            yield key

    with pytest.raises(Stopped, match="answers.jsonl; the same line goes on"):
        ask(keys())
    assert kept(tmp_path) == ["no", "yes"]
    with pytest.raises(InputError, match="1 of 3 labels are missing; type the same line again"):
        ask("")
    assert ask("u12\n") == [0, 0, 1]  # the last answer of the stopped session


def test_the_screen_says_why_and_what_the_model_says(ask, tmp_path, capsys):
    ask("111\n")
    shown = capsys.readouterr().err
    assert "far from the others" in shown and "the model says yes, 75%" in shown
    with AnswerBook(tmp_path / "other.jsonl") as book:
        Prompt(book, NAMES, shows_guess=False, keys=iter("111\n")).ask(TEXTS)
        assert book.answers("seven")[0].guess == "yes"  # hidden, and kept for the agreement
    assert "the model says" not in capsys.readouterr().err


def test_classes_that_have_no_key(tmp_path):
    with AnswerBook(tmp_path / "answers.jsonl") as book:
        with pytest.raises(InputError, match="prompt with 80 classes; allowed: up to 54, or active.oracle=browser"):
            Prompt(book, [f"c{number}" for number in range(80)])
        with pytest.raises(InputError, match="found a class named 'skip'"):
            Prompt(book, ["yes", "skip"])


@pytest.mark.slow
def test_a_terminal_and_a_kill(tmp_path):
    """In a terminal keys need no Enter; killed between two answers, the next process goes on with the second."""
    file = tmp_path / "answers.jsonl"
    first = Terminal(file)
    first.wait_for("[1] no [2] yes [s] skip [a] ambiguous [n] no class fits [u] undo [q] quit")
    assert "0 of 10 labels" in first.seen
    first.type("2\x1b[5~")  # Page Up holds a digit
    first.wait_for("1 of 3, 1 of 10 labels")
    assert "\x1b[31m" not in first.seen
    first.process.send_signal(signal.SIGKILL)
    assert first.process.wait() == -signal.SIGKILL
    assert kept(tmp_path) == ["yes"]
    second = Terminal(file)
    second.wait_for("1 of 3, 1 of 10 labels")
    second.type("1")
    second.wait_for("2 of 3, 2 of 10 labels")
    second.type("a")
    second.wait_for("all answered: [Enter] train, [u] undo")
    second.type("\n")
    second.wait_for("answers [1, 0, -2]")
    assert second.process.wait() == 0


class Terminal:
    """A process whose standard streams are a pseudo-terminal."""

    def __init__(self, file):
        self.end, other = pty.openpty()
        command = [sys.executable, "-c", ASK, str(file)]
        environment = os.environ | {"COLUMNS": "100", "TERM": "dumb"}
        streams = {"stdin": other, "stdout": other, "stderr": other}
        self.process = subprocess.Popen(command, cwd=RUN_PY.parent, env=environment, **streams)
        os.close(other)
        self.seen = ""

    def type(self, keys):
        self.seen = ""
        os.write(self.end, keys.encode())

    def wait_for(self, words):
        limit = time.monotonic() + 30
        while words not in self.seen:
            assert time.monotonic() < limit, self.seen
            if select.select([self.end], [], [], 0.1)[0]:
                self.seen += os.read(self.end, 4096).decode()


def test_characters_of_a_pipe_are_keys(tmp_path):
    (tmp_path / "keys").write_text("1\nx")
    with open(tmp_path / "keys", newline="") as stream:
        assert list(keys_of(stream)) == ["1", "\n", "x"]


def test_keys_choose_several_classes_and_enter_goes_on(tmp_path):
    with AnswerBook(tmp_path / "answers.jsonl", separator="|") as book:
        Prompt(book, NAMES, keys=iter("\n12\n1212u2\n2\nn\n")).ask(TEXTS)  # Enter alone says nothing
        assert [book.label(text) for text in TEXTS] == [("yes",), ("yes",), ()]
