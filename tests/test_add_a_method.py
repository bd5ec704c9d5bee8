"""Follow docs/add_a_method.md: write its files into a copy of the project, run its test and train with its method."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILE_BLOCK = re.compile(r"^`([\w/.]+)`\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def project_copy(tmp_path: Path) -> Path:
    """The source of the project, without data and runs."""
    copy = tmp_path / "kontrast"
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    rooms = (package.removeprefix("kontrast._rooms").removeprefix(".") for package in packages)
    for folder in {room.partition(".")[0] for room in rooms if room}:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "tests").mkdir()
    for file in ("run.py", "pyproject.toml", "tests/conftest.py"):
        shutil.copy(ROOT / file, copy / file)
    return copy


def succeed(command: list, folder: Path) -> str:
    """Run a command in a folder; fail with what it printed unless it exits with 0. Returns its stdout."""
    result = subprocess.run(list(map(str, command)), cwd=folder, env=os.environ, text=True, capture_output=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
def test_the_walk_through_works_as_written(project_copy, toy_csv, runs_dir):
    files = dict(FILE_BLOCK.findall((ROOT / "docs" / "add_a_method.md").read_text(encoding="utf-8")))
    assert len(files) == 4
    for name, content in files.items():
        path = project_copy / name
        assert not path.exists(), f"{name} exists: the walk-through edits nothing"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")

    test_file = next(name for name in files if name.startswith("tests/"))
    assert "5 passed" in succeed([sys.executable, "-m", "pytest", test_file], project_copy)

    command = [sys.executable, "run.py", "method=label_smoothing", "dataset=csv"]
    command += ["encoder=tiny", "trainer.max_epochs=1"]
    command += [f"dataset.{split}={path}" for split, path in toy_csv.items()]
    command += [f"paths.runs={runs_dir}", f"paths.data={runs_dir}/data", f"paths.cache={runs_dir}/cache"]
    run = Path(succeed(command, project_copy).splitlines()[-1])
    metrics = json.loads((project_copy / run / "metrics.json").read_text())
    assert metrics["status"] == "finished" and metrics["method"] == "label_smoothing"

    misspelt = subprocess.run([*command, "loss.smothing=0.2"], cwd=project_copy, text=True, capture_output=True)
    assert misspelt.returncode == 2 and "smothing" in misspelt.stderr
