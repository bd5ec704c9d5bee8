"""What the README and the docs tell people to type exists: every `make` target, and every config composes."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from engine.validation import validate

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCED = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
FROM_THE_WALK_THROUGH = "label_smoothing"  # a method that docs/add_a_method.md adds; its own test runs it


def typed(pattern: str) -> list[str]:
    """All distinct matches of a pattern in the fenced blocks of all pages."""
    blocks = (block for page in PAGES for block in FENCED.findall(page.read_text(encoding="utf-8")))
    return sorted({match.strip() for block in blocks for match in re.findall(pattern, block, re.MULTILINE)})


RUN_LINES = [line for line in typed(r"python run\.py[^|#\n]*") if FROM_THE_WALK_THROUGH not in line]
MAKE_LINES = typed(r"^make [^#\n]*")
REPORT_LINES = typed(r"^python -m reporting\.(?:compare|cluster_table) [^#\n]*")


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
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        for overrides in jobs(line):
            config = compose("config", overrides=overrides)
            chosen = dict(override.split("=", 1) for override in overrides)
            if "method" in chosen:
                assert config.method.name == chosen["method"]


def settings() -> list[str]:
    """All `key=value` in the code spans of all pages, the first of several choices."""
    spans = (span for page in PAGES for span in re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8")))
    found = {match for span in spans for match in re.findall(r"(?<![\w./])[a-z][\w./]*=[\w./-]+", span)}
    return sorted(setting for setting in found if FROM_THE_WALK_THROUGH not in setting)


@pytest.mark.parametrize("setting", settings())
def test_a_setting_is_accepted(setting):
    base = ["method=sharprecl", "dataset=hub"] if setting.startswith("dataset.path") else ["method=sharprecl"]
    base += ["dataset=csv"] if setting.startswith("dataset.") and len(base) == 1 else []
    base += ["imbalance.counts=[5,3]"] if setting == "imbalance=counts" else []
    base += ["method=sbert_kmeans"] if setting.startswith("method.num_clusters") else []
    base += ["head=text_to_text"] if setting.startswith("head") else []
    base += ["active=random"] if setting.startswith(("active.", "protocol.ties")) else []
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        config = compose("config", overrides=[*(b for b in base if b.split("=")[0] != setting.split("=")[0]), setting])
    validate(OmegaConf.to_container(config, resolve=True))


@pytest.mark.parametrize("line", REPORT_LINES)
def test_a_comparison_still_prints_what_its_page_shows(line):
    """On the records that are kept; of clusterings the pages set several tables side by side."""
    words = [word for word in shlex.split(line)[1:] if not word.startswith("figure=")]
    printed = subprocess.run([sys.executable, *words], cwd=ROOT, text=True, capture_output=True, check=True).stdout
    rows = [row for row in printed.splitlines() if row.startswith("| ")]
    assert len(rows) > 1
    if "compare" in words[1]:
        for page in (page.read_text(encoding="utf-8") for page in PAGES):
            assert line not in page or all(row in page for row in rows)


def test_the_main_table_stands_in_the_report():
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("### What it gives")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    report = (ROOT / "reports/cpu/tables.md").read_text(encoding="utf-8")
    assert len(rows) > 15 and [row for row in rows if row not in report] == []


@pytest.mark.parametrize("line", MAKE_LINES)
def test_a_make_target_exists(line):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^make ([a-z-]+)", line)) <= targets


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_readme_names_all_choices():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for group in ("method", "dataset", "encoder", "head", "augment", "imbalance", "retrieval", "sweep", "experiment"):
        row = re.search(rf"^\| `{group}` \|(.*)$", readme, re.MULTILINE).group(1)
        assert {path.stem for path in (ROOT / "conf" / group).glob("*.yaml")} <= set(re.findall(r"`(\w+)`", row)), group


def test_help_lists_every_target():
    makefile = (ROOT / "Makefile").read_text()
    listed = subprocess.run(["make", "help"], cwd=ROOT, text=True, capture_output=True, check=True).stdout
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE).group(1).split()
    assert re.findall(r"^make (\S+)", listed, re.MULTILINE) == phony
