"""What a user sees before the libraries are loaded: the help, and a line of what is going on."""

import re
import subprocess
import sys
import time

import pytest

from engine import command_line
from engine.help import CONF, config_groups, show_help, task_names
from storage.errors import InputError
from tests.test_imports import HEAVY, ROOT


def alone(code: str, *arguments: str) -> str:
    """Standard output of Python code in an interpreter of its own."""
    command = [sys.executable, "-c", f"import sys\n{code}", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_the_help_fits_a_screen_and_loads_no_library():
    shown = "from engine.help import show_help\nshow_help(sys.argv[1:])"
    text, loaded = alone(f"{shown}\nprint('loaded', *sys.modules)", "--help").rsplit("loaded ", 1)
    assert not HEAVY & set(loaded.split())
    lines = text.splitlines()
    assert len(lines) <= 42 and max(map(len, lines)) <= 120
    groups = {name for name, _ in config_groups(CONF) if "/" not in name and not name.startswith(("method_", "all_"))}
    assert groups - {"paths"} <= set(re.findall(r"\w+", text)) and set(task_names()) - {"chat_export"} <= set(
        re.findall(r"\w+", text)
    )


@pytest.mark.parametrize("group", ["method", "encoder/lora", "dataset", "active", "loss"])
def test_the_help_of_a_group_says_what_every_choice_is(group, capsys):
    show_help(["--help", group])
    text = capsys.readouterr().out
    for file in (CONF / group).glob("*.yaml"):
        assert re.search(rf"^  {file.stem}  +\S", text, re.M), file


def test_the_help_of_a_task_a_line_and_of_nothing(capsys):
    show_help(["--help", "auto"])
    text = capsys.readouterr().out
    assert re.search(r"^  minutes=20.0 +how long it may take$", text, re.M) and "host=" not in text
    assert {"seed=0", "force=false", "dataset=NAME", "encoder=NAME"} < set(re.findall(r"^  (\S+)", text, re.M))
    assert re.search(r"^  input=null +a file with texts and labels$", text, re.M) and "encoder.path=FOLDER" in text
    assert text.count("\n") <= 42
    show_help(["task=auto", "--help"])
    assert capsys.readouterr().out == text
    show_help(["task=chat", "--help"])
    assert capsys.readouterr().out.startswith("task=chat")  # and not the group of that name
    show_help(["method=ce", "-h"])
    assert "\n  name: ce\n" in capsys.readouterr().out
    with pytest.raises(InputError, match="--help 'metod': allowed: a task .*'predict'.* or a group"):
        show_help(["--help", "metod"])


def test_the_help_of_a_task_shows_what_it_does_or_all_its_keys(capsys):
    for task in task_names():
        show_help(["--help", task])
        shown = capsys.readouterr().out
        assert re.match(rf"task={task}: \w.* .*\.\n|(task={task}, its keys|{task}=NAME, one of)\n  ", shown)
    show_help(["--help", "cluster", "serve"])
    shown = re.findall(r"^  (\S+)", capsys.readouterr().out, re.M)
    of_cluster = ["seed=0", "force=false", "cluster.names=null", "cluster.level=null"]
    assert shown == [*of_cluster, "run=null", "host=127.0.0.1", "port=8000", "sure=null"]


def test_a_stdout_that_takes_nothing_is_named():
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "run.py", "--help"], cwd=ROOT, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (2, b"error: stdout: No space left on device\n")


def test_the_minutes_of_a_command_hold_its_start_and_those_of_a_later_job_do_not():
    with command_line.counted_from(time.monotonic() - 30):
        assert 30 <= command_line.seconds_so_far() < 60 and command_line.seconds_so_far() == 0
    with command_line.counted_from(time.monotonic() - 30):
        pass
    assert command_line.seconds_so_far() == 0


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
    begins = "import tasks.dispatch\nfrom engine.command_line import announce\n"
    said = begins + f"announce({config!r})\nprint('loaded', *sys.modules)"
    before, loaded = alone(said).split("loaded ")
    assert before == line and not HEAVY & set(loaded.split())
