"""Labelling in the terminal: keys, undo, and answers that outlive any end of the process."""

import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

from tasks.active.prompt import PromptOracle, keys_of
from tests.command_lines import RUN_PY, rows

NAMES = ["no", "yes"]
ASK = """
import sys
from pathlib import Path
from tasks.active.prompt import PromptOracle
oracle = PromptOracle(Path(sys.argv[1]), 10, 4)
print("answers", oracle.answers([7, 12, 3], ["seven", "twelve\\x1b[31m", "three"], ["no", "yes"]), flush=True)
"""


@pytest.fixture
def ask(tmp_path):
    """ask(keys) -> answers to three texts."""

    def answers(keys):
        oracle = PromptOracle(tmp_path / "to_label.csv", keys=iter(keys))
        return oracle.answers([7, 12, 3], ["seven", "twelve", "three"], NAMES)

    return answers


def labels(tmp_path):
    return [row["label"] for row in rows(tmp_path / "to_label.csv")]


@pytest.mark.parametrize(
    ("keys", "answers"),
    [
        ("121\n", [0, 1, 0]),
        ("1sa\n", [0, -1, -2]),
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
            assert labels(tmp_path)[number:] == [""] * (3 - number) if number else True
            yield key

    with pytest.raises(KeyboardInterrupt):
        ask(keys())
    assert labels(tmp_path) == ["no", "yes", ""]
    with pytest.raises(ValueError, match="1 of 3 labels are missing; type the same line again"):
        ask("")
    assert ask("u12\n") == [0, 0, 1]  # the last answer of the stopped session


def test_a_file_filled_by_hand_is_gone_on_with_and_a_wrong_label_refused(ask, tmp_path):
    (tmp_path / "to_label.csv").write_text("position,text,label\n3,three,maybe\n7,seven,yes\n12,twelve,\n")
    with pytest.raises(ValueError, match="to_label.csv:2: found 'maybe'; allowed: no, yes, skip, ambiguous"):
        ask("1")
    (tmp_path / "to_label.csv").write_text("position,text,label\n3,three,\n7,seven,yes\n12,twelve,\n")
    assert ask("21\n") == [1, 0, 1]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([f"c{number}" for number in range(80)], "found prompt with 80 classes; allowed: up to 57"),
        (["yes", "skip"], "found a class named 'skip'"),
    ],
)
def test_classes_that_have_no_key(tmp_path, names, message):
    with pytest.raises(ValueError, match=message):
        PromptOracle(tmp_path / "to_label.csv", keys=iter("1")).answers([0], ["a"], names)


@pytest.mark.slow
def test_a_terminal_and_a_kill(tmp_path):
    """In a terminal keys need no Enter; killed between two answers, the next process goes on with the second."""
    file = tmp_path / "to_label.csv"
    first = Terminal(file)
    first.wait_for("[1] no [2] yes [s] skip [a] ambiguous [u] undo [q] quit")
    assert "4 of 10 labels" in first.seen
    first.type("2\x1b[5~")  # Page Up holds a digit
    first.wait_for("1 of 3, 5 of 10 labels")
    assert "\x1b[31m" not in first.seen
    first.process.send_signal(signal.SIGKILL)
    assert first.process.wait() == -signal.SIGKILL
    assert labels(tmp_path) == ["yes", "", ""]
    second = Terminal(file)
    second.wait_for("1 of 3, 5 of 10 labels")
    second.type("1")
    second.wait_for("2 of 3, 6 of 10 labels")
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
