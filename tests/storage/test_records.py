"""Records: what goes in comes out, nothing of changed code, and two people who add runs do not conflict."""

import json
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from storage import records
from storage.files import hold_folder
from storage.records import MAX_SHARDS, add_records, compact, read_store
from storage.run_store import ReportError, RunFolder

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def make_run(tmp_path):
    def make(name, value=0.5, history=("epoch,val/loss,note", "0,0.1,", "1,0.30000000000000004,a"), **environment):
        run = RunFolder(tmp_path / "runs" / name)
        run.write_text("config.yaml", "method: {name: ce, mu: null}\npaths: {runs: /home/me}\nseed: 1\n")
        run.write_json("environment.json", {"python": "3.12", "commit": "abc", "changed": False, **environment})
        run.write_text("history.csv", "\n".join(history) + "\n")
        lines = ["split,index,label,prediction,probability", "val,0,01,1,0.5", "test,0,01,1,0.25", "test,1,1,,0.75"]
        run.write_text("predictions.csv", "\n".join(lines) + "\n")
        run.write_metrics({"status": "finished", "seed": 1, "test/accuracy": value})
        return run

    return make


def test_what_goes_in_comes_out(make_run, tmp_path):
    run = make_run("ce-toy-1")
    assert add_records([run, RunFolder(tmp_path / "runs/new")], tmp_path / "kept") == (["ce-toy-1"], [])
    (record,) = read_store(tmp_path / "kept")
    assert (record.id, record.status, record.read_metrics()) == (run.id, "finished", run.read_metrics())
    assert record.read_config() == {"method": {"name": "ce", "mu": None}, "seed": 1}, "whole but for the paths"
    assert record.read_environment()["commit"] == "abc"
    last = {"epoch": 1, "val/loss": 0.30000000000000004, "note": "a"}
    assert record.read_csv("history.csv") == [{"epoch": 0, "val/loss": 0.1, "note": ""}, last]
    first = {"split": "test", "index": 0, "label": "01", "prediction": "1", "probability": 0.25}
    second = {"split": "test", "index": 1, "label": "1", "prediction": "", "probability": 0.75}
    assert record.read_csv("predictions.csv") == [first, second], "of test rows; labels are no numbers"
    assert not record.has("curve.csv")
    with pytest.raises(ReportError, match=r"ce-toy-1: its record has no curve\.csv"):
        record.read_csv("curve.csv")


@pytest.mark.parametrize(
    ("name", "content"),
    [("metrics.json", "[]"), ("metrics.json", '{"status": "finished"}'), ("config.yaml", "a: [1"), ("config.yaml", "")],
)
def test_a_damaged_run_does_not_stop_who_reads_the_others(make_run, tmp_path, capsys, name, content):
    damaged, whole = make_run("a-toy-1"), make_run("b-toy-1")
    damaged.write_text(name, content)
    assert [run.id for run in read_store(tmp_path / "runs")] == [whole.id]
    warning = capsys.readouterr().err
    assert warning.startswith(f"warning: left out: run a-toy-1: {name}") and warning.count("\n") == 1
    assert add_records([damaged, whole], tmp_path / "kept") == ([whole.id], [])


def test_texts_of_people_are_not_kept(make_run, tmp_path):
    run = make_run("kmeans-toy-1")
    run.write_text("predictions.csv", 'index,label,cluster,distance,text\n0,a,3,0.5,"a, secret"\n')
    add_records([run], tmp_path / "kept")
    assert read_store(tmp_path / "kept")[0].read_csv("predictions.csv") == [
        {"index": 0, "label": "a", "cluster": "3", "distance": 0.5}
    ]


def test_code_that_no_commit_holds_leaves_no_record(make_run, tmp_path):
    runs = [make_run("a-toy-1", changed=True), make_run("b-toy-1"), make_run("c-toy-1", changed=None)]
    (silent := make_run("d-toy-1")).path.joinpath("environment.json").unlink()
    refused = ["a-toy-1", "c-toy-1", "d-toy-1"]
    assert add_records([*runs, silent], tmp_path / "kept") == (["b-toy-1"], refused), "nobody knows the code of two"
    assert [run.id for run in read_store(tmp_path / "kept")] == ["b-toy-1"]


@pytest.mark.parametrize("name", ["history.csv", "gradient_conflict.csv"])
@pytest.mark.parametrize("damage", ["", "epoch", "x,y\n1\n", "epoch,class,pairs,conflicts,ratio\na,9,x,1,1\n", "\0"])
def test_damaged_tables_of_a_run_leave_it_out(make_run, tmp_path, capsys, name, damage):
    make_run("a-toy-1")
    make_run("b-toy-1").write_text(name, damage)
    assert [run.id for run in read_store(tmp_path / "runs")] == ["a-toy-1"]
    assert f"left out: run b-toy-1: {name}" in capsys.readouterr().err


def test_the_same_again_adds_nothing_and_a_repeated_run_counts_once(make_run, tmp_path, monkeypatch):
    folder = tmp_path / "kept"
    add_records([make_run("a-toy-1")], folder)
    files = sorted(folder.iterdir())
    assert add_records([make_run("a-toy-1")], folder) == ([], []) and sorted(folder.iterdir()) == files
    later = records._line

    def line(*of):
        return {**later(*of), "recorded": "9999-01-01T00:00:00+00:00"}

    monkeypatch.setattr(records, "_line", line)
    add_records([make_run("a-toy-1", 0.9, history=("epoch", "7"))], folder)
    for _ in range(2):  # as shards, then as one
        (record,) = read_store(folder)
        assert record.read_metrics()["test/accuracy"] == 0.9 and record.read_csv("history.csv") == [{"epoch": 7}]
        assert compact(folder) == 1


def test_many_runs_stay_few_files_and_environments_stand_once(make_run, tmp_path):
    folder = tmp_path / "kept"
    for number in range(3 * MAX_SHARDS):
        python = "3.11" if number % 2 else "3.12"
        # columns, and their kinds, differ between methods
        history = ("epoch,score", "0,1") if number % 3 else ("epoch,score,extra", "0,high,0.5")
        add_records([make_run(f"m{number:02}-toy-1", number, history, python=python)], folder)
    assert len(list(folder.glob("runs-*"))) <= MAX_SHARDS
    for _ in range(2):
        actual = read_store(folder)
        assert [run.read_metrics()["test/accuracy"] for run in actual] == list(range(3 * MAX_SHARDS))
        assert [run.read_environment()["python"] for run in actual[:2]] == ["3.12", "3.11"]
        assert [run.read_csv("history.csv")[0]["epoch"] for run in actual] == [0] * len(actual)
        assert str(actual[0].read_csv("history.csv")[0]["score"]) == "high" and actual[3].has("history.csv")
        compact(folder)
    assert len(list(folder.iterdir())) == 3
    (file,) = folder.glob("runs-*")
    assert len(records._read_lines(file)[1]) == 2
    (history,) = folder.glob("history-*.parquet")
    assert pq.read_table(history).num_rows == 3 * MAX_SHARDS


def test_shards_are_not_joined_while_another_process_joins_them(make_run, tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir()
    with hold_folder(folder):
        for number in range(MAX_SHARDS + 2):
            add_records([make_run(f"m{number}-toy-1", number)], folder)
    assert len(list(folder.glob("runs-*"))) == MAX_SHARDS + 2


def test_a_new_id_goes_with_its_rows(make_run, tmp_path):
    folder = tmp_path / "kept"
    add_records([make_run("a-toy-1", history=("epoch", "1")), make_run("b-toy-1", history=("epoch", "2"))], folder)
    compact(folder, lambda line: {**line, "id": {"a-toy-1": "z-toy-1"}.get(line["id"], line["id"])})
    assert {run.id: run.read_csv("history.csv")[0]["epoch"] for run in read_store(folder)} == {
        "b-toy-1": 2,
        "z-toy-1": 1,
    }


def test_two_people_who_add_runs_and_join_them_do_not_conflict(make_run, tmp_path):
    def git(where, *words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        return subprocess.run(["git", *identity, *words], cwd=where, check=True, capture_output=True, text=True)

    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    mine.mkdir()
    git(mine, "init", "-b", "main")
    add_records([make_run(f"common{number}-toy-1") for number in range(3)], mine / "kept")
    git(mine, "add", "-A"), git(mine, "commit", "-m", "common")
    git(tmp_path, "clone", str(mine), str(theirs))
    for person, where in (("me", mine), ("you", theirs)):
        for number in range(MAX_SHARDS + 1):
            add_records([make_run(f"{person}{number}-toy-1", number)], where / "kept")
        compact(where / "kept")
        git(where, "add", "-A"), git(where, "commit", "-m", person)
    git(mine, "pull", "--no-rebase", str(theirs), "main")
    actual = [run.id for run in read_store(mine / "kept")]
    assert len(actual) == len(set(actual)) == 3 + 2 * (MAX_SHARDS + 1)
    assert [len(run.read_csv("history.csv")) for run in read_store(mine / "kept")] == [2] * len(actual)


def test_a_damaged_file_is_named(make_run, tmp_path):
    add_records([make_run("a-toy-1")], tmp_path / "kept")
    (file,) = (tmp_path / "kept").glob("runs-*")
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(ReportError, match=f"{file.name}: cannot be read"):
        read_store(tmp_path / "kept")


def test_the_command_adds_and_joins(make_run, tmp_path, capsys):
    make_run("a-toy-1"), make_run("b-toy-1", changed=True)
    records.main([str(tmp_path / "runs"), str(tmp_path / "kept")])
    assert capsys.readouterr() == (
        f"1 records added in {tmp_path / 'kept'}\n",
        "left out, of code that no commit holds: b-toy-1\n",
    )
    records.main([str(tmp_path / "kept")])
    assert capsys.readouterr().out.startswith("1 records in")


def test_the_reports_are_few_and_small():
    files = [file for file in (ROOT / "reports").rglob("*") if file.is_file() and "smoke" not in file.parts]
    assert len(files) <= 150 and sum(file.stat().st_size for file in files) <= 12e6
    known = json.loads((ROOT / "reports/cpu/grid.json").read_text())["tables"]["sharprecl_2"]
    held = {run.id for run in read_store(ROOT / "reports/records")}
    assert any(set(cell["runs"].values()) <= held for cell in known if cell["runs"])
