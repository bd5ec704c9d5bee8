"""The papers' tables by runs: what is missing is found, done and recorded; failures and stops lose nothing."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from engine.identify import compose_config, compose_run
from engine.identity import run_id
from papers import reproduce
from papers.dataset_facts import train_rows
from papers.grid import cells, load_budget, load_grid, table_names
from storage.errors import ReportError
from storage.records import read_store

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
# stands in for run.py: names the run as it does, and "measures" without training
TOY = """
import json, os, sys, time
sys.path.insert(0, {root!r})
from storage.run_store import RunFolder
from engine.identity import run_id
from engine.identify import compose_run
import yaml

words = dict(word.split("=", 1) for word in sys.argv[1:])
runs, seed = words.pop("paths.runs"), int(words.pop("seed"))
config = dict(compose_run(tuple(f"{{k}}={{v}}" for k, v in words.items())).config, seed=seed)
run = RunFolder(f"{{runs}}/{{compose_run(tuple(f'{{k}}={{v}}' for k, v in words.items())).id(seed)}}")
run.write_text("config.yaml", yaml.safe_dump(config))
run.write_json("environment.json", {{"changed": False}})
status, error = "finished", None
if words.get("method") == os.environ.get("TOY_FAILS"):
    status, error = "failed", "it broke"
time.sleep(float(os.environ.get("TOY_SLEEPS", 0)))
run.write_metrics(status=status, seed=seed, method=config["method"]["name"], **{{"test/accuracy": 0.5 + seed / 10,
    "seconds/total": 3.0, "class_counts": [5, 5]}})
with open(os.environ["KONTRAST_JOB_RESULT"], "w") as file:
    json.dump({{"run": str(run.path), "status": status, "error": error}}, file)
sys.exit(0 if status == "finished" else 2)
"""


def toy_in(folder, monkeypatch):
    """The command on Table 2 under the smoke budget, in a folder, with a program that only pretends."""
    (folder / "run.py").write_text(TOY.format(root=str(ROOT)))
    monkeypatch.setattr(reproduce, "ROOT", folder)
    words = ["budget=smoke", "table=sharprecl_2", f"runs={folder / 'runs'}", f"out={folder / 'reports'}"]
    return lambda *more: reproduce.main([*words, f"records={folder / 'reports/records'}", *more])


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """`toy("dry_run=1")` calls the command."""
    return toy_in(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def finished_once(tmp_path_factory):
    """The folder of the command once it has ended."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        assert toy_in(folder, patch)() == 0
    return folder


@pytest.fixture
def finished(finished_once, toy, tmp_path):
    """`toy`, after it has ended once."""
    shutil.copytree(finished_once, tmp_path, dirs_exist_ok=True)
    return toy


def test_ids_are_those_of_the_run_itself():
    overrides = ("encoder=tiny", "dataset=trec", "imbalance.ir=50", "experiment=sharprecl_wo_mi")
    config = compose_config([*overrides, "seed=3"])
    assert compose_run(overrides).id(3) == run_id(OmegaConf.to_container(config, resolve=True))


def test_the_kept_records_of_the_main_job_are_found():
    inputs = reproduce.parse_options(["budget=cpu", "table=sharprecl_2"])
    inputs.out, inputs.runs = ROOT / "reports", ROOT / "no-such-folder"
    jobs, _, at_hand = reproduce.missing_jobs([load_grid("sharprecl_2")], inputs, reproduce.finished_runs(inputs))
    entries = reproduce.table_cells([load_grid("sharprecl_2")], inputs.budget)["sharprecl_2"]
    assert len(jobs) + at_hand == len({run for entry in entries for run in entry["runs"].values()})
    missing = {(job.cell.row, job.cell.column) for job in jobs}
    assert not {(row, "ohsumed") for row in ("ce", "logit_adjusted", "sharprecl")} & missing, "a default has changed"


def cells_on_the_edges(budget):
    """Every row in the first column, every column in the first row: what all cells are made of."""
    for grid in (load_grid(name) for name in table_names()):
        actual = cells(grid, load_budget(budget))
        yield from (cell for cell in actual if actual[0].column == cell.column or actual[0].row == cell.row)


@pytest.mark.parametrize("budget", ["cpu", "paper"])
def test_every_row_and_column_composes_or_is_not_there_yet(budget):
    problems = [compose_run(cell.overrides).problem for cell in cells_on_the_edges(budget) if not cell.skipped]
    assert problems.count(None) > 40
    assert [problem for problem in problems if problem and "unknown choice" not in problem] == []


def test_columns_and_rows_alone():
    grid = [load_grid("sharprecl_2")]
    line = ["budget=cpu", "table=sharprecl_2", "records=none"]
    both = reproduce.missing_jobs(grid, reproduce.parse_options(line), {})[0]
    trec = reproduce.missing_jobs(grid, reproduce.parse_options([*line, "column=trec_50"]), {})[0]
    assert trec == [job for job in both if job.cell.column == "trec_50"] and 0 < len(trec) < len(both)
    with pytest.raises(ReportError, match="column: found 'trec'; allowed: r52, ohsumed, trec_org, trec_50"):
        reproduce.parse_options([*line, "column=trec"])
    focal = reproduce.missing_jobs(grid, reproduce.parse_options([*line, "column=trec_50", "row=focal,dice"]), {})[0]
    assert focal == [job for job in trec if job.cell.row in ("focal", "dice")] and len(focal) == 6
    with pytest.raises(ReportError, match="row: found 'source'; allowed: ce, "):
        reproduce.parse_options([*line, "row=source"])


def test_a_dry_run_lists_and_does_nothing(toy, tmp_path, capsys):
    assert toy("dry_run=1") == 0
    out = capsys.readouterr().out
    assert "6 runs missing" in out and "sharprecl-ohsumed-" in out
    assert "6 runs missing, 0 runs at hand; 6 of unknown length" in out and "0.0 s" not in out
    assert not (tmp_path / "runs").exists() and not (tmp_path / "reports").exists()


def test_seeds_come_breadth_first_and_cheap_ones_first(toy, tmp_path):
    inputs = reproduce.parse_options(["budget=cpu", "table=sharprecl_2,sharprecl_mu"])
    inputs.out = ROOT / "reports"
    grids = [load_grid(name) for name in inputs.tables]
    jobs, _, _ = reproduce.missing_jobs(grids, inputs, reproduce.finished_runs(inputs))
    keys = [(job.cell.priority, job.seed, job.estimate.seconds or float("inf")) for job in jobs]
    assert keys == sorted(keys) and len({job.id for job in jobs}) == len(jobs)


def test_a_failure_leaves_the_rest_alone_and_the_same_line_tries_it_again(toy, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TOY_FAILS", "acl")
    assert toy() == 1
    out = capsys.readouterr().out
    assert "2 of 6 runs did not finish" in out and out.count("it broke") >= 2
    records = read_store(tmp_path / "reports/records")
    assert sorted(run.read_metrics()["method"] for run in records) == ["ce", "ce", "sharprecl", "sharprecl"]
    assert not any("paths" in run.read_config() for run in records)

    monkeypatch.delenv("TOY_FAILS")
    assert toy() == 0
    assert "sweep: 2 jobs" in capsys.readouterr().out
    assert len(read_store(tmp_path / "reports/records")) == 6
    assert toy() == 0
    assert "sweep:" not in capsys.readouterr().out, "nothing is done twice"
    shutil.rmtree(tmp_path / "reports/records")  # as if the command had been killed and its runs had not
    assert toy() == 0
    assert "sweep:" not in capsys.readouterr().out and len(read_store(tmp_path / "reports/records")) == 6


def test_records_alone_count_as_done(finished, tmp_path, capsys):
    shutil.rmtree(tmp_path / "runs")
    finished("dry_run=1")
    assert "0 runs missing, 6 runs at hand" in capsys.readouterr().out


def test_the_grid_names_the_runs_of_every_cell(finished, tmp_path):
    grid = json.loads((tmp_path / "reports/smoke/grid.json").read_text())
    cells = {cell["row"]: cell for cell in grid["tables"]["sharprecl_2"]}
    assert set(cells) == {"ce", "sharprecl", "acl"}
    ids = {run.id for run in read_store(tmp_path / "reports/records")}
    assert {first for cell in cells.values() for first in cell["runs"].values()} == ids
    assert "method=ce" in cells["ce"]["command"] and list(cells["ce"]["runs"]) == ["0", "1"]


def test_stopped_it_keeps_what_is_finished_and_goes_on(tmp_path):
    (tmp_path / "run.py").write_text(TOY.format(root=str(ROOT)))
    code = (
        "import sys; from pathlib import Path; from papers import reproduce;"
        f"reproduce.ROOT = Path({str(tmp_path)!r}); sys.exit(reproduce.main(sys.argv[1:]))"
    )
    words = ["budget=smoke", "table=sharprecl_2", f"runs={tmp_path / 'runs'}", f"out={tmp_path / 'reports'}"]
    words.append("row=ce,acl")
    command = [sys.executable, "-c", code, *words, f"records={tmp_path / 'reports/records'}"]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "TOY_SLEEPS": "1"}, stdout=subprocess.PIPE)
    while len(read_store(tmp_path / "reports/records")) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out = process.communicate(timeout=30)[0].decode()
    done = len(read_store(tmp_path / "reports/records"))
    assert process.returncode == 1 and 2 <= done < 4 and "not started" in out
    rest = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert rest.returncode == 0 and f"sweep: {4 - done} jobs" in rest.stdout


def test_a_budget_for_gpus_says_that_there_is_none(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ReportError, match="budget=paper: needs an NVIDIA GPU, found none; allowed here: dry_run=1"):
        reproduce.refuse_without_gpu(load_budget("paper"))
    reproduce.refuse_without_gpu(load_budget("cpu"))


def test_unknown_words_are_refused():
    with pytest.raises(ReportError, match="tabel: unknown; allowed: budget"):
        reproduce.parse_options(["tabel=sharprecl_2"])
    with pytest.raises(ReportError, match="dry_run: allowed: key=value"):
        reproduce.parse_options(["dry_run"])
    for word in ("jobs=many", "jobs=0", "hours=-1", "priority=1.5"):
        with pytest.raises(ReportError, match=f"{word}: allowed: a .*number above 0"):
            reproduce.parse_options([word])
    with pytest.raises(ReportError, match="dry_run=no: allowed: 0, 1, false, true"):
        reproduce.parse_options(["dry_run=no"])
    with pytest.raises(ReportError, match="loggerx: unknown; allowed: .* logger, .* paths.…"):
        reproduce.parse_options(["loggerx=1"])
    assert not reproduce.parse_options(["dry_run=False", "logger=csv", "logger.name=x"]).dry_run
    inputs = reproduce.parse_options(["budget=cpu", "table=", "paths.data=/d", "hours=2"])
    assert (inputs.arguments, inputs.hours) == (["paths.data=/d"], 2.0) and len(inputs.tables) > 5


def test_rows_of_a_thinned_set_are_known_beforehand():
    rows = train_rows(ROOT / "reports/cards", (None, 50))
    assert rows["ohsumed", "None"] == pytest.approx(3020, rel=0.01), "as the records of Ohsumed have it"
    assert rows["trec", "50"] < rows["trec", "None"] / 2


def test_what_the_hub_would_have_to_give_is_said_beforehand(monkeypatch):
    from papers import hub

    config = compose_run(("dataset=ohsumed", "method=sharprecl", "augment=back_translation")).config
    monkeypatch.setattr(hub, "_cached", lambda repo: repo.endswith("de-en"))
    monkeypatch.setattr(hub, "_online", lambda: False)
    assert hub.unreachable(config) == "needs Helsinki-NLP/opus-mt-en-de from the hub, which is out of reach"
    assert hub.unreachable(compose_run(("dataset=ohsumed", "method=sharprecl")).config) is None
    assert "bert-base" in hub.unreachable(compose_run(("method=ce", "encoder=bert_base")).config)
    monkeypatch.setattr(hub, "_online", lambda: True)
    assert hub.unreachable(config) is None


def test_one_table_composes_and_reads_what_it_needs_once(finished, tmp_path, monkeypatch):
    file = tmp_path / "reports/smoke/grid.json"
    grid = json.loads(file.read_text())
    file.write_text(json.dumps(grid | {"tables": grid["tables"] | {"acl_6": []}}))
    composed, scans = set(), []
    compose, real_read = reproduce.compose_run, reproduce.read_stores
    monkeypatch.setattr(reproduce, "compose_run", lambda overrides: composed.add(overrides) or compose(overrides))

    def read(stores, **options):
        scans.append(stores)
        return real_read(stores, **options)

    monkeypatch.setattr(reproduce, "read_stores", read)
    monkeypatch.setattr("papers.paper_report.read_stores", read)
    finished("report_only=1")
    assert composed == {cell.overrides for cell in cells(load_grid("sharprecl_2"), load_budget("smoke"))}
    assert len(scans) == 1
    assert list(json.loads(file.read_text())["tables"]) == ["acl_6", "sharprecl_2"], "other tables stay in the report"
