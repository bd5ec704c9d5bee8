"""What a user sees before the libraries are loaded: the help, and a line of what is going on."""

import subprocess
import sys

import pytest

from engine.help import CONF
from tests.test_imports import HEAVY, ROOT


def alone(code: str, *arguments: str) -> str:
    """Standard output of Python code in an interpreter of its own."""
    command = [sys.executable, "-c", f"import sys\n{code}", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_the_help_lists_every_choice_and_loads_no_library():
    shown = "from engine.help import show_help\nshow_help(sys.argv[1:])"
    text, loaded = alone(f"{shown}\nprint('loaded', *sys.modules)", "--help", "method=ce").rsplit("loaded ", 1)
    assert not HEAVY & set(loaded.split())
    lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    for group in ("method", "encoder/lora", "dataset"):
        assert lines[group].split(", ") == sorted(file.stem for file in (CONF / group).glob("*.yaml"))
    assert "hydra/launcher" not in lines and "\n  name: ce\n" in text and "$" not in text.split("Config as")[0]


def test_a_stdout_that_takes_nothing_is_named():
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "run.py", "--help"], cwd=ROOT, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (2, b"error: stdout: No space left on device\n")


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"task": "fit", "method": {"name": "ce"}, "seed": 3}, "fit · ce · seed 3: loading PyTorch\n"),
        ({"task": "predict", "run": "ce-1", "output": "out.csv"}, "predict · run ce-1: loading PyTorch\n"),
        ({"task": "predict", "run": "ce-1", "output": "-"}, ""),
    ],
    ids=["fit", "predict", "predictions on stdout"],
)
def test_the_first_line_comes_before_the_libraries(config, line):
    said = f"from engine.command_line import announce\nannounce({config!r})\nprint('loaded', *sys.modules)"
    before, loaded = alone(said).split("loaded ")
    assert before == line and not HEAVY & set(loaded.split())
