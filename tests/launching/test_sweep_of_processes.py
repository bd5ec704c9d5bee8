"""Two warm jobs of a sweep, each on two processes."""

import json
import subprocess
import sys

import pytest

from tests.command_lines import RUN_PY

pytestmark = pytest.mark.slow


def test_two_jobs_of_two_processes_each(store, small, files, tmp_path):
    words = [*files, *store, *small, "method=sharprecl", "trainer=ddp_cpu", "sampler.batch_size=32", "seed=0,1"]
    sweep = ["hydra.launcher.warm=true", "hydra.launcher.n_jobs=2"]
    swept = subprocess.run([sys.executable, str(RUN_PY), "-m", *words, *sweep], capture_output=True, text=True)
    logs = [file.read_text(errors="replace") for file in (tmp_path / "runs").glob("sweeps/*/*.log")]
    assert swept.returncode == 0, "\n".join([swept.stdout, swept.stderr, *logs])
    runs = [json.loads(file.read_text()) for file in (tmp_path / "runs").glob("sharprecl-csv-*/metrics.json")]
    assert [run["status"] for run in runs] == ["finished"] * 2 and {run["seed"] for run in runs} == {0, 1}
    environments = [json.loads(file.read_text()) for file in (tmp_path / "runs").glob("*/environment.json")]
    assert [environment["devices"] for environment in environments] == [2, 2]
