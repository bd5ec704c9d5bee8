"""Jobs forked from a warm process end with the same bits as jobs started anew."""

import subprocess
import sys

import pytest

from tests.command_lines import RUN_PY, outcome

pytestmark = pytest.mark.slow


def test_a_warm_job_gives_the_bits_of_a_cold_one(store, small, files, tmp_path):
    words = [*files, *store, *small, "method=sharprecl", "trainer.num_threads=1"]
    runs = {}
    for start, more in (("cold", ["method.mu=1"]), ("warm", ["-m", "hydra.launcher.warm=true", "method.mu=0.5,1"])):
        folder = tmp_path / f"runs-{start}"
        line = [sys.executable, str(RUN_PY), *more, *words, f"paths.runs={folder}"]
        done = subprocess.run(line, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        runs[start] = {path.name: outcome(path) for path in folder.iterdir() if path.name.startswith("sharprecl")}
    ((name, cold),) = runs["cold"].items()
    assert len(runs["warm"]) == 2 and runs["warm"][name] == cold  # the second job of its process
