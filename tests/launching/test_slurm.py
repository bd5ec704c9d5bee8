"""Sweeps on SLURM: the job script as sbatch gets it, and a whole array under a stand-in for the cluster."""

import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser
from pathlib import Path

import pytest

from engine.exit_code import exit_code
from launching.slurm import SlurmJob, slurm_executor
from tests.launching.toy_program import run, sweep_rows

# runs each task of the array in this machine's own time, as the cluster would with the script that it was given
SBATCH = """#!/bin/bash
script="${@: -1}"
cp "$script" "$SLURM_STAND_IN/submitted.sh"
range=$(sed -n 's/^#SBATCH --array=0-\\([0-9]*\\)%.*/\\1/p' "$script")
[ -z "$range" ] && range=0
(for task in $(seq 0 $range); do
    export SLURM_JOB_ID=100$task SLURM_ARRAY_JOB_ID=77 SLURM_ARRAY_TASK_ID=$task SLURM_NTASKS=1 SLURM_JOB_NUM_NODES=1
    export SLURM_NODEID=0 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_JOB_NODELIST=here
    bash "$script"
done) > "$SLURM_STAND_IN/output" 2>&1 &
echo "Submitted batch job 77"
"""
SRUN = """#!/bin/bash
while [[ "$1" == -* ]]; do case "$1" in --output|--error) shift 2;; *) shift;; esac; done
exec "$@"
"""


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Commands of SLURM that run everything here; the folder with what was submitted."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    for name, text in (("sbatch", SBATCH), ("srun", SRUN), ("sacct", "#!/bin/bash\n"), ("scancel", "#!/bin/bash\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755 | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_STAND_IN", str(folder))
    return folder


def directives(script: str) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in re.findall(r"^#SBATCH --(\S+)$", script, re.MULTILINE))


def test_the_script_asks_for_what_was_set(cluster, tmp_path):
    options = {"timeout_min": 90, "partition": "long", "gpus_per_node": 1, "mem_gb": 12, "cpus_per_task": 6}
    options |= {"array_parallelism": 1, "account": None, "additional_parameters": {"mail-type": "END"}, "qos": "q"}
    executor = slurm_executor(tmp_path, options)
    with executor.batch():
        jobs = [executor.submit(SlurmJob(["-c", "pass"], str(tmp_path / name), str(tmp_path / "log"))) for name in "ab"]
    script = (cluster / "submitted.sh").read_text()
    asked = directives(script)
    expected = {"time": "90", "partition": "long", "gpus-per-node": "1", "mem": "12GB", "cpus-per-task": "6"}
    assert expected.items() <= asked.items() and asked["mail-type"] == "END" and "account" not in asked
    assert asked["array"] == "0-1%1" and asked["job-name"] == "kontrast" and asked["open-mode"] == "append"
    assert re.match(r"USR[12]@", asked["signal"]) and asked["qos"] == "q"
    assert f"{sys.executable} -u -m submitit.core._submit" in script
    assert [job.result() for job in jobs] == [0, 0]


def test_without_submitit_a_line_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "submitit", None)
    monkeypatch.setattr(ArgumentParser, "error", ArgumentParser.error)  # put back what `exit_code` sets
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    assert exit_code(lambda: slurm_executor(tmp_path, {})) == 2
    assert capsys.readouterr().err == "error: submitit is not installed, which this needs; pip install '.[sweep]'\n"


@pytest.mark.slow
def test_a_sweep_on_the_cluster_ends_with_its_table(toy, cluster):
    outcome = run(toy, "-m", "x=1,13,2", "hydra/launcher=slurm", "hydra.launcher.partition=short")
    assert outcome.returncode == 1, outcome.stdout
    assert "3 jobs on SLURM, 77" in outcome.stdout and "3 jobs, 2 finished, 1 not" in outcome.stdout
    rows = sweep_rows(toy)
    assert [row["status"] for row in rows] == ["finished", "failed", "finished"]
    assert rows[1]["run or error"] == "x: found 13, allowed any other" and rows[2]["test/accuracy"] == "20.00"
    assert directives((cluster / "submitted.sh").read_text())["partition"] == "short"


def test_an_unknown_parameter_is_refused(toy, cluster):
    outcome = run(toy, "-m", "x=1,2", "hydra/launcher=slurm", "hydra.launcher.partitoin=short")
    assert outcome.returncode == 1 and "partitoin" in outcome.stdout
    assert not (cluster / "submitted.sh").exists()


@pytest.mark.slow
def test_near_the_time_limit_a_run_stops_cleanly_and_is_asked_for_again(tmp_path):
    program = (
        "import signal, sys, time, pathlib\n"
        "signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path(sys.argv[1]).write_text('clean'), sys.exit(130)))\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    mark, log = tmp_path / "mark", tmp_path / "log"
    job = SlurmJob(["-c", program, str(mark)], str(tmp_path / "result.json"), str(log))
    codes = []
    thread = threading.Thread(target=lambda: codes.append(job()))
    thread.start()
    while not log.exists() or "ready" not in log.read_text():
        time.sleep(0.02)
    again = job.checkpoint()
    thread.join(10)
    assert codes == [130] and mark.read_text() == "clean"
    assert isinstance(again.function, SlurmJob) and again.function.argv == job.argv


def test_lightning_is_not_told_of_the_clusters_tasks(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_NTASKS", "1")
    log = tmp_path / "log"
    code = "import os; print(os.environ.get('SLURM_NTASKS'), os.environ['KONTRAST_JOB_RESULT'])"
    assert SlurmJob(["-c", code], "result.json", str(log))() == 0
    assert log.read_text() == "None result.json\n"
    (result := tmp_path / "result.json").write_text('{"status": "finished"}')  # of an earlier start
    killed = SlurmJob(["-c", "import os; os.kill(os.getpid(), 9)"], str(result), str(log))
    assert killed() == -signal.SIGKILL and not result.exists()


def test_the_shells_here_read_the_stand_ins(cluster: Path):
    assert all(subprocess.run(["bash", "-n", str(cluster / name)]).returncode == 0 for name in ("sbatch", "srun"))
