"""Sweeps through Hydra with a toy program: every job runs, failures are shown, nothing is started twice."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from launching import sweep as module
from launching.sweep import run_jobs, settled_job
from tests.launching.toy_program import command, run, sweep_rows


@pytest.mark.slow
def test_all_jobs_run_though_some_fail_or_do_not_compose(toy):
    outcome = run(toy, "-m", "x=1,13,2", "kind=good,missing", "hydra.launcher.n_jobs=2")
    assert outcome.returncode == 1
    assert "6 jobs, 2 finished, 4 not" in outcome.stdout and "4 of 6 jobs did not finish" in outcome.stdout
    assert "Traceback" not in outcome.stdout
    rows = sweep_rows(toy)
    assert [(row["x"], row["kind"]) for row in rows] == [(x, k) for x in ("1", "13", "2") for k in ("good", "missing")]
    assert [row["status"] for row in rows] == ["finished", "failed", "failed", "failed", "finished", "failed"]
    assert [rows[0]["test/accuracy"], rows[0]["run or error"]] == ["10.00", "toy-1"]
    assert rows[2]["run or error"] == "x: found 13, allowed any other"
    assert all("Could not find 'kind/missing'" in rows[index]["run or error"] for index in (1, 3, 5))
    (log,) = toy.glob("runs/sweeps/*/job-0.log")
    assert log.read_text() == "hello from 1\n"
    assert (log.parent / "sweep.md").read_text().count("\n|") == 8


WARM = pytest.mark.parametrize("start", ["cold", "warm"])


@pytest.mark.slow
@WARM
def test_a_job_that_crashes_or_is_killed_shows_why(toy, start):
    crash = toy / "toy.py"
    crash.write_text(
        crash.read_text().replace("time.sleep(config.sleep)", "os.kill(os.getpid(), 9) if config.x else 1 / 0")
    )
    assert run(toy, "-m", "x=0,1", f"hydra.launcher.warm={start == 'warm'}").returncode == 1
    assert [row["run or error"] for row in sweep_rows(toy)] == [
        "ZeroDivisionError: division by zero",
        "ended by SIGKILL",
    ]


@pytest.mark.slow
def test_a_good_sweep_ends_with_zero_and_its_folder_as_last_line(toy):
    outcome = run(toy, "-m", "x=1,2")
    assert outcome.returncode == 0
    assert Path(outcome.stdout.splitlines()[-1]) == next(toy.glob("runs/sweeps/*"))
    assert "[2/2] finished" in outcome.stdout and "accuracy 20.00" in outcome.stdout


@pytest.mark.slow
def test_jobs_side_by_side_share_the_cores(toy):
    assert run(toy, "-m", "x=1,2", "begun=2", "hydra.launcher.n_jobs=2").returncode == 0
    metrics = [json.loads((toy / f"runs/toy-{x}/metrics.json").read_text()) for x in (1, 2)]
    assert metrics[0]["pid"] != metrics[1]["pid"]
    cores = len(os.sched_getaffinity(0))
    assert all(1 <= int(first["threads"]) <= max(1, cores // 2) for first in metrics)


@pytest.mark.slow
def test_a_sweep_file_starts_its_jobs_once_each(toy):
    outcome = run(toy, "sweep=grid")
    assert outcome.returncode == 0
    assert [row["x"] for row in sweep_rows(toy)] == ["4", "5"]
    assert len(list(toy.glob("runs/sweeps/*"))) == 1


@pytest.mark.slow
@WARM
def test_interrupt_stops_the_jobs_and_shows_all(toy, start):
    words = ("-m", "x=1,2", "sleep=60", f"hydra.launcher.warm={start == 'warm'}")
    sweep = subprocess.Popen(**command(toy, *words), stderr=subprocess.STDOUT)
    metrics = toy / "runs/toy-1/metrics.json"
    while not metrics.exists() and sweep.poll() is None:
        time.sleep(0.05)
    sweep.send_signal(signal.SIGTERM)
    output, _ = sweep.communicate(timeout=30)
    assert sweep.returncode == 130 and "Traceback" not in output
    assert [row["status"] for row in sweep_rows(toy)] == ["interrupted", "not started"]
    with pytest.raises(ProcessLookupError):
        os.kill(json.loads(metrics.read_text())["pid"], 0)


def test_a_signal_without_a_name_has_its_number(tmp_path):
    errors = [settled_job(["x=1"], tmp_path / "none", tmp_path / "log", code, 1.0).error for code in (-9, -35)]
    assert errors == ["ended by SIGKILL", "ended by signal 35"]


def test_a_second_interrupt_kills_all_jobs_at_once(tmp_path, monkeypatch):
    class Deaf:
        """A process that ends when it is killed; the first is waited for when the second Ctrl-C comes."""

        def __init__(self, pid):
            self.pid = pid

        def wait(self, seconds=None):
            if (self.pid, signal.SIGKILL) not in sent:
                assert self.pid == 1, "the others are not waited for"
                raise KeyboardInterrupt

    sent = []
    monkeypatch.setattr(os, "killpg", lambda *signalled: sent.append(signalled))
    module._stop([module._Running([], tmp_path, tmp_path, Deaf(pid)) for pid in (1, 2)])
    assert sent == [(pid, number) for number in (signal.SIGTERM, signal.SIGKILL) for pid in (1, 2)]


def test_a_single_run_makes_no_folders_beside_the_run_store(toy):
    before = {path.name for path in toy.iterdir()}
    assert run(toy, "x=7").returncode == 0
    assert {path.name for path in toy.iterdir()} - before == {"runs"}
    assert [path.name for path in (toy / "runs").iterdir()] == ["toy-7"]


def test_job_count_must_be_positive(toy):
    outcome = run(toy, "-m", "x=1,2", "hydra.launcher.n_jobs=0")
    assert outcome.returncode != 0 and "hydra.launcher.n_jobs: found 0, allowed 1 or more" in outcome.stdout


@pytest.mark.slow
def test_warm_jobs_are_processes_of_their_own_and_share_the_cores(toy):
    outcome = run(toy, "-m", "x=1,13,2", "hydra.launcher.n_jobs=2", "hydra.launcher.warm=true")
    assert outcome.returncode == 1 and "3 jobs, 2 finished, 1 not" in outcome.stdout
    assert sweep_rows(toy)[1]["run or error"] == "x: found 13, allowed any other"
    metrics = [json.loads((toy / f"runs/toy-{x}/metrics.json").read_text()) for x in (1, 2)]
    assert metrics[0]["pid"] != metrics[1]["pid"]
    assert all(1 <= int(first["threads"]) <= max(1, len(os.sched_getaffinity(0)) // 2) for first in metrics)
    assert next(toy.glob("runs/sweeps/*/job-0.log")).read_text() == "hello from 1\n"


@pytest.mark.slow
def test_a_sweep_leaves_its_figure(toy):
    run(toy, "-m", "x=1,2,3")
    (folder,) = toy.glob("runs/sweeps/*")
    assert all((folder / f"sweep.{kind}").stat().st_size > 1000 for kind in ("svg", "pdf", "png"))


def test_a_job_that_was_asked_to_stop_has_not_failed(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(
        "import json, os, pathlib, signal, sys, time\n"
        "def stop(*_):\n"
        "    result = {'status': 'failed', 'error': 'interrupted'}\n"
        "    pathlib.Path(os.environ['KONTRAST_JOB_RESULT']).write_text(json.dumps(result))\n"
        "    sys.exit(130)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "pathlib.Path(sys.argv[1]).touch()\n"
        "time.sleep(60 if sys.argv[1].endswith('first') else 0)\n"
        "stop()\n"
    )
    jobs = [[str(tmp_path / "first")], [str(tmp_path / "second")]]
    outcomes = run_jobs(
        [], jobs, tmp_path / "sweep", script=str(script), should_stop=lambda n: n == 0 and (tmp_path / "first").exists()
    )
    assert [job.status for job in outcomes] == ["interrupted", "failed"]


def test_a_job_that_was_about_to_start_is_told_as_not_started(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("launching.sweep._start", interrupted)
    outcomes = run_jobs([], [["x=1"], ["x=2"]], tmp_path / "sweep")
    assert [job.status for job in outcomes] == ["not started"] * 2
