"""task=runs: what a store holds, and the words that filter it."""

import pytest
from hydra._internal.hydra import Hydra

from engine.overrides import known_mode
from storage.run_store import RunFolder
from tests.command_lines import command


def test_runs_that_fit_are_listed_and_other_words_refused(tmp_path, monkeypatch):
    for name, seed in (("one", 0), ("two", 1)):
        RunFolder(tmp_path / name).write_metrics(status="finished", method="ce", seed=seed, **{"test/macro_f1": 0.5})
    RunFolder(tmp_path / "two").write_metrics(dataset="csv")
    RunFolder(tmp_path / "two").write_text("config.yaml", "dataset: {name: csv, train: my/tickets.csv}\n")
    listed = command(["task=runs", f"paths.runs={tmp_path}", "method=ce", "dataset=csv", "seed=1"])
    assert " csv: tickets.csv " in listed.out
    assert "reads" not in listed.out
    assert "1 of 2 runs" in listed.out and "two" in listed.out and "one" not in listed.out and "50.00 %" in listed.out
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    assert command(["task=runs", f"paths.runs=~/{tmp_path.name}"]).folder == tmp_path
    asked = {"name": "tickets", "encoder": "minilm", "seed": 0}
    RunFolder(tmp_path / "auto-tickets").write_metrics(status="finished")
    RunFolder(tmp_path / "auto-tickets").write_json("question.json", asked)
    ranking = [("ce", 0.8, False), ("logistic", 0.7777, True)]
    answers = command(["task=runs", f"paths.runs={tmp_path}", "dataset.name=tickets"])
    assert "1 of 3 runs" in answers.out and "auto-tickets" in answers.out
    RunFolder(tmp_path / "two").write_metrics(dataset="größe", reads="NU")
    marked = command(["task=runs", f"paths.runs={tmp_path}"]).out
    assert " reads " in marked and " N U " in marked
    for word in ("dataset.name=größe", "dataset.name='größe'"):
        assert "1 of 3 runs" in command(["task=runs", f"paths.runs={tmp_path}", word]).out
    RunFolder(tmp_path / "auto-tickets").write_csv("ranking.csv", ranking, ["candidate", "macro_f1", "recommended"])
    assert "77.77 %" in command(["task=runs", f"paths.runs={tmp_path}", "method.name=auto"]).out
    (tmp_path / "two/metrics.json").write_text('{"status": "fin')
    rest = command(["task=runs", f"paths.runs={tmp_path}"])
    assert rest.code == 0 and "2 of 2 runs" in rest.out and "warning: left out: run two: metrics.json" in rest.err
    damaged = {"metrics.json": "{", "ranking.csv": "macro_f1,recommended\n0,7,True\n", "question.json": "{}"}
    for name, content in damaged.items():
        (tmp_path / "auto-tickets" / name).write_text(content)
        rest = command(["task=runs", f"paths.runs={tmp_path}"])
        assert "1 of 1 runs" in rest.out and f"warning: left out: run auto-tickets: {name}" in rest.err
    refused = command(["task=runs", f"paths.runs={tmp_path}", "force=true"])
    assert refused.error.startswith("force: task=runs lists runs")


def test_a_command_composes_its_config_once(tmp_path, monkeypatch):
    composed, original = [], Hydra.compose_config

    def counted(*arguments, **options):
        composed.append(original(*arguments, **options))
        return composed[-1]

    monkeypatch.setattr(Hydra, "compose_config", counted)
    assert command(["task=runs", f"paths.runs={tmp_path}"]).code == 0
    assert len(composed) == 1 and composed[0].hydra.mode.name == "RUN"


@pytest.mark.parametrize(
    "word", ["-m", "--multirun", "sweep=tau", "+sweep=tau", "hydra.mode=MULTIRUN", "experiment=own", "--config-dir=d"]
)
def test_what_may_sweep_is_left_to_hydra(word):
    original = Hydra.get_mode
    with known_mode(["method=ce", word]):
        assert Hydra.get_mode is original
    with known_mode(["method=ce", "seed=1", "input=hydra.csv"]):
        assert Hydra.get_mode is not original
    assert Hydra.get_mode is original
