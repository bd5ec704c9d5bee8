"""The campaign lists what it would do, runs what won, and goes on where it stopped."""

import json

import pytest

from papers import campaign
from papers.searches import declared_search
from reporting.tables import SweepJob
from storage.errors import ReportError


def test_a_dry_run_lists_tests_searches_and_seeds(capsys, tmp_path):
    assert campaign.main(["dry_run=1", f"runs={tmp_path}", f"searches={tmp_path / 'kept'}"]) == 0
    out = capsys.readouterr().out
    searches = [line for line in out.splitlines() if line.startswith("2. tunes: python run.py ")]
    assert len(searches) == 27 and all(line.endswith("search=halving") for line in searches)
    assert "images laid out as CIFAR-100" in out and "270 runs with what won, 10 seeds a cell" in out


def test_a_search_of_a_dry_run_is_ready_to_paste(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(campaign, "tuning_line", lambda cell: ("dataset.train='a (b).csv'", "search=halving"))
    campaign.main(["dry_run=1", "column=trec_50", f"runs={tmp_path}", f"searches={tmp_path / 'kept'}"])
    assert """python run.py "dataset.train='a (b).csv'" search=halving\n""" in capsys.readouterr().out


def search_through(folder, cell, settings, **more):
    file = folder / "searches" / f"halving-{cell.row}-{cell.column}" / "search.json"
    file.parent.mkdir(parents=True)
    line = " ".join(["trainer=gpu", *cell.overrides])
    trials = [{"share": 1.0}] * declared_search()["trials"]
    file.write_text(json.dumps({**declared_search(), "trials": trials, "line": line, "settings": settings, **more}))


def test_what_won_is_run_on_fresh_seeds_and_finished_runs_are_left_out(tmp_path, monkeypatch):
    first, second = campaign.planned(campaign.Options())[:2]
    search_through(tmp_path, first, {"optimizer.lr": 0.0003})
    search_through(tmp_path, second, {"optimizer.lr": 0.0001})
    kept = tmp_path / "kept"
    options = campaign.parse([f"runs={tmp_path}", f"records={tmp_path / 'none'}", f"searches={kept}"])
    lines = campaign.evaluation_lines(options)
    assert len(lines) == 20 and [line[-1] for line in lines[:2]] == ["seed=0", "seed=0"]
    assert lines[0] == (*first.overrides, "optimizer.lr=0.0003", "seed=0")
    assert campaign.tuned(campaign.planned(campaign.Options())[2], options) is None
    campaign.keep_searches(options)
    campaign.keep_searches(options)
    assert len((kept / "sharprecl_2.jsonl").read_text().splitlines()) == 2, "a search is kept once"
    elsewhere = campaign.parse([f"runs={tmp_path / 'other'}", f"searches={kept}"])
    assert campaign.tuned(first, elsewhere) == ("optimizer.lr=0.0003",), "without the run store of the search"
    done = {campaign.compose_run(lines[0]).id(0): None}
    monkeypatch.setattr(campaign, "read_stores", lambda _: done)
    assert campaign.missing(lines[:3], options) == lines[1:3]


@pytest.mark.slow
def test_tuning_comes_before_evaluation_and_both_have_a_share_of_the_time(tmp_path, monkeypatch):
    steps = []

    def run_jobs(arguments, lines, folder, n_jobs, script, stop_after, warm):
        steps.append((folder.name, len(lines), n_jobs, stop_after))
        for cell in campaign.planned(campaign.Options())[:1] if folder.name == "campaign-tuning" else []:
            search_through(tmp_path, cell, {"optimizer.lr": 0.0003})
        return [SweepJob({}, "not started") for _ in lines]

    monkeypatch.setattr(campaign, "run_jobs", run_jobs)
    words = [f"runs={tmp_path}", f"records={tmp_path / 'none'}", f"searches={tmp_path / 'kept'}"]
    words += ["minutes=10", "jobs=3", "trainer=cpu"]
    assert campaign.main(words) == 0
    (tuning, evaluation) = steps
    assert tuning[:3] == ("campaign-tuning", 27, 3) and tuning[3] == pytest.approx(300, abs=30)
    assert evaluation[:3] == ("campaign-evaluation", 10, 3) and evaluation[3] == pytest.approx(600, abs=60)


def test_fewer_searches_than_jobs_have_several_runs_at_a_time_each(tmp_path):
    words = ["column=trec_50", f"runs={tmp_path}", f"searches={tmp_path / 'kept'}"]
    assert {line[-1] for line in campaign.tuning_lines(campaign.parse([*words, "jobs=18"]))} == {"search.n_jobs=2"}
    assert {line[-1] for line in campaign.tuning_lines(campaign.parse([*words, "jobs=4"]))} == {"search.n_jobs=1"}


def test_without_a_gpu_one_line_but_for_the_dry_run(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(campaign.GpuParts, "here", lambda: campaign.GpuParts(False, False, False, True, False))
    monkeypatch.setattr(campaign, "run_jobs", None)
    with pytest.raises(ReportError, match="^trainer=gpu: torch finds no NVIDIA GPU here; allowed: dry_run=1, or"):
        campaign.main([f"runs={tmp_path}"])
    assert campaign.main(["dry_run=1", f"runs={tmp_path}"]) == 0
    assert "skipped of the GPU tests: every GPU test: torch finds no NVIDIA GPU\n" in capsys.readouterr().out


def test_skipped_gpu_parts_are_named_before_the_tests_and_at_the_end(monkeypatch, capsys, tmp_path):
    parts = campaign.GpuParts(gpu=True, nccl=True, bf16=True, bitsandbytes=False, faiss=False)
    monkeypatch.setattr(campaign.GpuParts, "here", lambda: parts)
    asked = []
    monkeypatch.setattr(campaign.subprocess, "call", lambda command, cwd: asked.append(command) or 0)
    monkeypatch.setattr(campaign, "run_jobs", lambda arguments, *_, **__: asked.append(arguments) or [])
    campaign.main([f"runs={tmp_path}", f"records={tmp_path / 'none'}", f"searches={tmp_path / 'kept'}"])
    tests, arguments = asked
    assert "-rs" in tests and "trainer=gpu" in arguments
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("skipped of the GPU tests: ")]
    needs = ["LoRA in 4 bits: the package bitsandbytes is missing", "faiss on the GPU: this faiss sees no GPU"]
    assert told == 2 * [f"skipped of the GPU tests: {need}" for need in needs]
    assert campaign.GpuParts(True, True, True, True, True).skipped() == []


def test_columns_and_rows_leave_the_others_out():
    def planned(*words):
        return [(cell.column, cell.row) for cell in campaign.planned(campaign.parse(words))]

    assert {column for column, _ in planned("column=trec_50,r52")} == {"trec_50", "r52"}
    assert len(planned("column=r52")) == 9 and planned("column=r52", "row=bcl") == [("r52", "bcl")]


def test_a_search_of_one_budget_serves_another_with_the_same_cell(tmp_path):
    kept = tmp_path / "kept"
    words = [f"runs={tmp_path}", f"searches={kept}", "row=ce"]
    evidence = campaign.parse([*words, "column=trec_50"])
    (cell,) = campaign.planned(evidence)
    search_through(tmp_path, cell, {"optimizer.lr": 0.0003})
    campaign.keep_searches(evidence)
    every_label = campaign.parse([*words, f"runs={tmp_path / 'other'}", "budget=all_labels", "column=all_trec_50"])
    assert campaign.tuning_lines(every_label) == []
    campaign.keep_searches(every_label)
    assert [file.name for file in kept.iterdir()] == ["sharprecl_2.jsonl"]


def test_a_search_of_uncommitted_code_is_not_kept(tmp_path, capsys):
    options = campaign.parse([f"runs={tmp_path}", f"searches={tmp_path / 'kept'}"])
    search_through(tmp_path, campaign.planned(options)[0], {"optimizer.lr": 0.0003}, commits=["a1"], changed=True)
    campaign.keep_searches(options)
    assert not (tmp_path / "kept").exists()
    assert capsys.readouterr().err.startswith("search not kept, of code that no commit holds: trainer=gpu ")


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        (["minute=4"], "minutes"),
        (["jobs=many"], "minutes"),
        (["jobs=0"], "minutes and jobs as numbers above 0"),
        (["dry_run"], "KEY=VALUE"),
        (["dry_run=1", "column=trec"], "ohsumed, r52, trec_50"),
        (["dry_run=1", "row=c"], "acl, bcl, ce"),
        (["trainer=tpu"], "gpu, cpu"),
        (["dry_run=no"], "0, 1, false, true$"),
        (["budget=cpu"], "evidence, all_labels"),
    ],
)
def test_a_bad_word_is_one_line(words, allowed):
    with pytest.raises(ReportError, match=f"allowed: {allowed}"):
        campaign.main(words)
