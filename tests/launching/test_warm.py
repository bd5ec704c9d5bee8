"""Jobs forked from a warm process end with the same bits as jobs started anew."""

import subprocess
import sys

import pytest

from tests.command_lines import RUN_PY, outcome

pytestmark = pytest.mark.slow


def test_a_warm_job_gives_the_bits_of_a_cold_one(store, small, files, tmp_path):
    words = [*files, *store, *small, "method=sharprecl", "trainer.num_threads=1"]
    runs = []
    for start in ("cold", "warm"):
        folder = tmp_path / f"runs-{start}"
        line = [sys.executable, str(RUN_PY), "-m", *words, f"paths.runs={folder}", "method.mu=0.5,1"]
        swept = subprocess.run([*line, f"hydra.launcher.warm={start == 'warm'}"], capture_output=True, text=True)
        assert swept.returncode == 0, swept.stdout + swept.stderr
        runs.append(sorted(path for path in folder.iterdir() if path.name.startswith("sharprecl")))
    assert [run.name for run in runs[0]] == [run.name for run in runs[1]] and len(runs[0]) == 2
    assert [outcome(run) for run in runs[0]] == [outcome(run) for run in runs[1]]
