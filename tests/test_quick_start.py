"""docs/quick_start.md on a tiny run: the exported folder loads without this project and predicts what the run does."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXT = "the copper near a zinc with nickel"


def run_py(*arguments: str, stdin: str | None = None) -> str:
    """stdout of `python run.py`; fails with what it printed unless it exits with 0."""
    command = [sys.executable, "run.py", *arguments]
    result = subprocess.run(command, cwd=ROOT, env=os.environ, input=stdin, text=True, capture_output=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
def test_the_exported_folder_predicts_what_the_run_does(toy_csv, runs_dir, tmp_path):
    store = [f"paths.runs={runs_dir}", f"paths.data={tmp_path}/data", f"paths.cache={tmp_path}/cache"]
    files = [f"dataset.{split}={path}" for split, path in toy_csv.items()]
    schedule = ["trainer.max_epochs=2", "trainer.precision=32", "optimizer.lr=1e-2"]
    fitted = run_py("method=ce", "dataset=csv", "encoder=tiny", *files, *schedule, *store)
    run = Path(fitted.splitlines()[-1]).name
    run_py("task=export", f"run={run}", f"output={tmp_path}/exported", f"paths.runs={runs_dir}")
    predicted = run_py(
        "task=predict", f"run={run}", "input=-", "output=-", f"paths.runs={runs_dir}", stdin=f"text\n{TEXT}\n"
    )

    page = (ROOT / "docs" / "quick_start.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert '["a text"]' in example
    code = example.replace('"a text"', repr(TEXT))
    alone = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, text=True, capture_output=True)
    assert alone.returncode == 0, alone.stderr
    (row,) = list(csv.DictReader(predicted.splitlines()[:2]))
    assert alone.stdout.strip() == str([row["prediction"]])
