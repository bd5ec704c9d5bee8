"""The run store: files that are whole or absent, one worker per run."""

import errno
import json
import os
import subprocess
import sys

import pytest

from storage.errors import ReportError
from storage.run_store import RunFolder, find_run, list_runs


def test_metrics_merge_and_stay_json(tmp_path):
    run = RunFolder(tmp_path / "a")
    assert run.read_metrics() == {} and run.status == "new"
    run.write_metrics(status="finished", **{"test/accuracy": 0.5})
    run.write_metrics({"test/macro_f1": float("nan")}, seconds=1)
    expected = {"status": "finished", "test/accuracy": 0.5, "test/macro_f1": None, "seconds": 1}
    assert json.loads((tmp_path / "a/metrics.json").read_text()) == expected
    assert run.status == "finished"
    assert [path.name for path in run.path.iterdir()] == ["metrics.json"]


def test_full_disk_is_one_line_with_the_folder(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ReportError, match="no space left in") as caught:
        RunFolder(tmp_path).write_text("a.txt", "x" * 10)
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == []


HOLD = """
import sys, time
from storage.run_store import RunFolder
with RunFolder(sys.argv[1]).lock() as run:
    run.write_metrics(status="running")
    (run.path / ".last.ckpt.1-aa.tmp").write_text("half")
    print("held", flush=True)
    time.sleep(60)
"""


def test_one_worker_per_run_and_a_killed_one_is_interrupted(tmp_path):
    run = RunFolder(tmp_path / "ce-toy-0")
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(run.path)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "held\n"
        assert run.status == "running" and run.is_locked()
        with pytest.raises(ReportError, match="another process"), run.lock(wait=False):
            pass
    finally:
        other.kill()
        other.wait()
    assert run.status == "interrupted" and not run.is_locked()
    said = []
    with run.lock(say=said.append):
        assert run.is_locked() and said == []
        assert not list(run.path.glob("*.tmp")) and not list(run.path.glob(".*.tmp"))


def test_clear_keeps_only_the_lock(tmp_path):
    run = RunFolder(tmp_path / "a")
    with run.lock():
        run.write_metrics(status="finished")
        run.write_text("checkpoints/last.ckpt", "x")
        run.clear()
        assert os.listdir(run.path) == [".lock"]
    assert run.status == "new"


def test_find_by_id_prefix_and_path(tmp_path, monkeypatch):
    for name in ("ce-trec-aa11", "ce-trec-bb22", "sharprecl-r52-cc33"):
        RunFolder(tmp_path / name).write_metrics(status="finished")
    (tmp_path / "sweeps").mkdir()
    assert [run.id for run in list_runs(tmp_path)] == ["ce-trec-aa11", "ce-trec-bb22", "sharprecl-r52-cc33"]
    assert find_run(tmp_path, "ce-trec-bb22").id == "ce-trec-bb22"
    assert find_run(tmp_path, "sharp").id == "sharprecl-r52-cc33"
    assert find_run("nowhere", tmp_path / "ce-trec-aa11").path == tmp_path / "ce-trec-aa11"
    (tmp_path / "link").symlink_to(tmp_path / "ce-trec-aa11")
    monkeypatch.chdir(tmp_path / "link")
    assert [find_run("nowhere", name).id for name in (".", "../link")] == ["ce-trec-aa11"] * 2
    (tmp_path / "link").unlink()
    with pytest.raises(ReportError, match="2 runs begin so: ce-trec-aa11, ce-trec-bb22"):
        find_run(tmp_path, "ce-trec")
    with pytest.raises(ReportError, match="nearest: ce-trec-bb22"):
        find_run(tmp_path, "ce-trec-bb23")
    with pytest.raises(ReportError, match="~ce"):
        find_run(tmp_path, "~ce")
    with pytest.raises(ReportError, match="holds none yet"):
        find_run(tmp_path / "empty", "x")


def test_the_answer_of_task_auto_is_opened_by_name_but_is_no_run(tmp_path):
    answer = RunFolder(tmp_path / "auto-my-aa11")
    answer.write_metrics({"status": "finished"})
    answer.write_json("question.json", {"minutes": 2})
    assert list_runs(tmp_path) == []
    assert find_run(tmp_path, "auto-my").id == find_run(tmp_path, "last").id == "auto-my-aa11"


def test_damaged_metrics_are_one_line(tmp_path):
    run = RunFolder(tmp_path / "a")
    run.write_text("metrics.json", '{"status": ')
    with pytest.raises(ReportError, match="run a: metrics.json cannot be read"):
        run.read_metrics()


def test_written_files_are_readable_by_others_as_the_umask_says(tmp_path):
    mask = os.umask(0o022)
    try:
        RunFolder(tmp_path).write_text("a.txt", "x")
    finally:
        os.umask(mask)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o644


def test_a_finished_run_is_held_where_nothing_can_be_written(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    for status in ("finished", "running"):
        RunFolder(tmp_path / status).write_metrics(status=status)
    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    with RunFolder(tmp_path / "finished").lock() as run:
        assert run.status == "finished"
    with pytest.raises(ReportError, match="Read-only file system"), RunFolder(tmp_path / "running").lock():
        pass
    (tmp_path / "running" / ".lock").touch()
    assert RunFolder(tmp_path / "running").status == "interrupted"
    assert find_run(tmp_path, "last").id == "finished"


def test_last_is_the_run_that_finished_last(tmp_path):
    with pytest.raises(ReportError, match="run=last: .* holds no finished run"):
        find_run(tmp_path, "last")
    for number, (name, status) in enumerate([("b", "finished"), ("a", "finished"), ("c", "failed")]):
        RunFolder(tmp_path / name).write_metrics(status=status)
        os.utime(tmp_path / name / "metrics.json", (number, number))
    assert find_run(tmp_path, "last").id == "a"
