"""What the README and the docs tell people to type exists: every `make` target, and every config composes."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra.errors import HydraException
from omegaconf import OmegaConf

from engine.allowed_targets import CONF
from engine.identify import compose_config
from engine.validation import ConfigError, validate

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
FENCED = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
FROM_THE_WALK_THROUGH = "label_smoothing"  # a method that docs/add_a_method.md adds; its own test runs it


SPANS = [span for text in TEXTS.values() for span in re.findall(r"`([^`\n]+)`", text)]
BLOCKS = [block for text in TEXTS.values() for block in FENCED.findall(text)]


def typed(pattern: str, code: list[str]) -> list[str]:
    """All distinct matches of a pattern in pieces of code."""
    matches = {match.strip() for piece in code for match in re.findall(pattern, piece, re.MULTILINE)}
    return sorted(match for match in matches if FROM_THE_WALK_THROUGH not in match and "…" not in match)


RUN_LINES = typed(r"python run\.py (?!--help)[^|#\n]*", BLOCKS + SPANS)
MAKE_LINES = typed(r"^make [^#\n]*", BLOCKS + SPANS)
REPORT_LINES = typed(r"^python -m reporting\.(?:compare|cluster_table) [^#\n]*", BLOCKS)
SETTINGS = typed(r"(?<![\w./])[a-z][\w./]*=[\w./-]+", [s for s in SPANS if not s.startswith(("python", "make"))])


def jobs(line: str) -> list[list[str]]:
    """The overrides of each job of a line: one, or for a sweep the first and the last of each list of values."""
    arguments = [argument for argument in shlex.split(line)[2:] if not argument.startswith("-")]
    if "-m" not in line.split():
        return [arguments]
    return [[re.sub(r"=.*", f"={values(a)[end]}", a) for a in arguments] for end in (0, -1)]


def values(argument: str) -> list[str]:
    """What `key=a,b,[c,d]` sweeps over: a, b and [c,d]."""
    return re.findall(r"\[[^]]*\]|[^,\[]+|^$", argument.partition("=")[2])


def test_there_are_lines_to_check():
    assert len(RUN_LINES) > 10 and len(MAKE_LINES) > 3


@pytest.mark.parametrize("line", RUN_LINES)
def test_a_run_line_composes(line):
    for overrides in jobs(line):
        config = compose_config(overrides)
        chosen = dict(override.split("=", 1) for override in overrides)
        if "method" in chosen:
            assert config.method.name == chosen["method"]


def one_of_each_key(settings: list[str]) -> list[str]:
    """The first value that the pages give a key; choices of a group, which are files, aside."""
    values = [s for s in settings if not (CONF / f"{s.replace('=', '/')}.yaml").is_file()]
    return list({setting.split("=")[0]: setting for setting in reversed(values)}.values())


def files_with(pattern: str, group: str) -> list[Path]:
    """Choices of a group whose files have a line like this."""
    files = sorted((CONF / group).glob("[!_]*.yaml"))
    return [file for file in files if re.search(pattern, file.read_text("utf-8"), re.MULTILINE)]


def choices_with(key: str) -> Iterator[str]:
    """The words that may bring a key into the config: choices of its group, for a loss the methods that have it."""
    group, _, name = key.partition(".")
    for file in files_with(rf"^ *{name}:", group) or files_with("", group):
        if group == "loss":
            yield from (f"method={method.stem}" for method in files_with(f"override /loss: {file.stem}$", "method"))
        else:
            yield f"{group}={file.stem}"


@pytest.mark.parametrize("setting", one_of_each_key(SETTINGS))
def test_a_setting_is_accepted(setting):
    setting = setting.replace("__", ".")  # a keyword of Python
    choices = choices_with(setting.partition("=")[0])
    assert is_accepted(setting) or any(is_accepted(choice, setting) for choice in choices)


def is_accepted(*words: str) -> bool:
    try:
        validate(OmegaConf.to_container(compose_config(words), resolve=True))
    except (HydraException, ConfigError):
        return False
    return True


@pytest.mark.parametrize("line", REPORT_LINES)
def test_a_comparison_still_prints_what_its_page_shows(line):
    """On the records that are kept; of clusterings the pages set several tables side by side."""
    words = [word for word in shlex.split(line)[1:] if not word.startswith(("figure=", "also="))]
    printed = subprocess.run([sys.executable, *words], cwd=ROOT, text=True, capture_output=True, check=True).stdout
    rows = [row for row in printed.splitlines() if row.startswith("| ")]
    assert len(rows) > 1
    if "compare" in words[1]:
        for page, text in TEXTS.items():  # the README shows the picture alone
            assert page == README or line not in text or all(row in text for row in rows)


def test_the_main_table_stands_in_the_report():
    section = TEXTS[ROOT / "docs/results.md"].split("## All methods, on Ohsumed")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    report = (ROOT / "reports/cpu/tables.md").read_text(encoding="utf-8")
    assert len(rows) > 15 and [row for row in rows if row not in report] == []


def test_files_that_pages_name_exist():
    """Places in the code, as `room/file.py`; the walk through a new method names files that it adds."""
    named = {
        (page.name, span)
        for page, text in TEXTS.items()
        for span in re.findall(r"`([a-z_]+/[a-z0-9_/]+\.(?:py|yaml|md))`", text)
        if FROM_THE_WALK_THROUGH not in span
    }
    assert len(named) > 30
    assert [(page, span) for page, span in sorted(named) if not (ROOT / span).is_file()] == []


def test_the_readme_is_short_and_says_where_to_begin():
    text = TEXTS[README]
    assert len(text.splitlines()) <= 150
    assert {"make setup", "make run", "make test"} <= set(re.findall(r"make [a-z]+", text))
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)
    assert (ROOT / picture).is_file()


@pytest.mark.parametrize("line", MAKE_LINES)
def test_a_make_target_exists(line):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^make ([a-z-]+)", line)) <= targets


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXTS[page]):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_help_lists_every_target():
    makefile = (ROOT / "Makefile").read_text()
    listed = subprocess.run(["make", "help"], cwd=ROOT, text=True, capture_output=True, check=True).stdout
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE).group(1).split()
    assert re.findall(r"^make (\S+)", listed, re.MULTILINE) == phony
