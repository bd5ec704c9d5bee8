"""The comparison of methods over seeds."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from reporting.compare import compare, curves, grouped, main
from reporting.curves import seeds_figure
from reporting.grouping import differing_words, lookup
from storage.errors import ReportError
from storage.records import add_records, read_store
from storage.run_store import RunFolder, list_runs

FIGURES = {"ce": [0.50, 0.52, 0.51], "sharprecl": [0.55, 0.56, 0.58]}


def record(folder: Path, method: str, seed: int, value: float, mu: float = 1.0, status: str = "finished") -> None:
    run = RunFolder(folder / f"{method}-{seed}-{mu}")
    run.write_text("config.yaml", f"method:\n  name: {method}\n  mu: {mu}\ndataset:\n  name: toy\nseed: {seed}\n")
    run.write_metrics({"test/accuracy": value, "test/macro_f1": value, "seed": seed, "status": status})
    run.write_json("environment.json", {"changed": False})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for method, values in FIGURES.items():
        for seed, value in enumerate(values):
            record(tmp_path, method, seed, value)
    record(tmp_path, "ce", 9, 0.9, status="failed")
    RunFolder(tmp_path / "auto").write_metrics(status="running")  # stopped before it had a config
    return tmp_path


def test_means_and_paired_test(store: Path) -> None:
    table = compare(grouped(list_runs(store), ["method"], {"dataset": "toy"}), "ce", "test/macro_f1", "t")
    best, baseline = table.rows
    assert (best[0], baseline[0]) == ("sharprecl", "ce")
    assert best[2] == f"{100 * np.mean(FIGURES['sharprecl']):.2f} ± {100 * np.std(FIGURES['sharprecl'], ddof=1):.2f}"
    assert best[-1] == f"{stats.ttest_rel(FIGURES['sharprecl'], FIGURES['ce']).pvalue:.3g}"
    assert best[-3] == "+5.33" and baseline[-1] == "–"
    assert best[1] == baseline[1] == "3"  # the failed run does not count


def test_runs_of_other_settings_are_rows_of_their_own(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(store, "sharprecl", 0, 0.4, mu=0.5)
    record(store, "sharprecl", 7, 0.6, mu=0.5)
    values = grouped(list_runs(store), ["method"], {})
    assert {name: sorted(seeds) for name, seeds in values.items()} == {
        "ce": [0, 1, 2], "sharprecl method.mu=1": [0, 1, 2], "sharprecl method.mu=0.5": [0, 7]
    }  # fmt: skip
    assert len(grouped(list_runs(store), ["method", "method.mu"], {})) == 3
    assert len(grouped(list_runs(store), ["method"], {"method.mu": "1.0"})["sharprecl"]) == 3
    main([str(store), "dataset=toy"])
    shown = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    differences = {row[0]: row[6] for row in shown if len(row) > 6}
    assert differences["sharprecl method.mu=0.5"] == "-10.00 (1 pair)", "seed 0; 1, 2 and 7 have no partner"
    assert differences["sharprecl method.mu=1"] == "+5.33"


def test_two_runs_of_the_same_settings_and_seed_are_refused(store: Path) -> None:
    run = RunFolder(store / "again")
    run.write_text("config.yaml", (store / "ce-0-1.0/config.yaml").read_text())
    run.write_metrics(RunFolder(store / "ce-0-1.0").read_metrics())
    with pytest.raises(ReportError, match="again and ce-0-1.0 are two runs of ce, seed 0; allowed: one a group and"):
        grouped(list_runs(store), ["method"], {})


def test_words_that_differ_are_named_by_what_a_group_chose() -> None:
    plain = {"loss": {"_target_": "losses.CE"}, "trainer": {"_target_": "a.b", "max_epochs": 6, "num_threads": 1}}
    plain |= {"augment": None, "callbacks": {}, "rival": None, "seed": 0}
    loss = {"loss": {"_target_": "elsewhere.losses.Focal", "gamma": 2.0}}
    stops = {"callbacks": {"early_stopping": {"_target_": "callbacks.Early", "patience": 5}}}
    longer = {"trainer": {"_target_": "a.b", "max_epochs": 10.0, "min_steps": 0}}
    assert differing_words([plain, plain | loss]) == [("loss=CE",), ("loss=Focal",)], "gamma is part of it"
    stop = "callbacks.early_stopping"
    assert differing_words([plain, plain | stops]) == [(f"{stop}=null",), (f"{stop}=Early",)]
    assert differing_words([plain, plain | longer]) == [("trainer.max_epochs=6",), ("trainer.max_epochs=10",)]
    same = {"rival": "logistic", "seed": 1, "loss": {"_target_": "moved.CE", "weight": None}}
    assert differing_words([plain, plain | same]) == [(), ()], "no setting, or an option that came later"


def test_runs_on_two_files_are_no_group(store: Path) -> None:
    run = RunFolder(store / "mine")
    run.write_text("config.yaml", "method: {name: ce}\ndataset: {name: toy, train: mine.csv}\n")
    run.write_metrics({"seed": 7, "status": "finished"})
    with pytest.raises(ReportError, match="dataset: found runs on None and mine.csv; allowed: one file"):
        grouped(list_runs(store), ["method"], {})
    assert list(grouped(list_runs(store), ["method"], {"dataset.train": "mine.csv"})["ce"]) == [7]


def test_figure_and_records(store: Path, tmp_path: Path) -> None:
    kept, _ = add_records(list_runs(store), tmp_path / "records")
    assert len(kept) == 6 and not any(name.startswith("ce-9") for name in kept)
    values = grouped(read_store(tmp_path / "records"), ["method"], {})
    seeds_figure(values, tmp_path / "figure", "toy")
    first = (tmp_path / "figure.svg").read_text()
    seeds_figure(values, tmp_path / "figure", "toy")
    main([str(store), "dataset=toy", "columns=test/accuracy", "metric=test/accuracy", f"figure={tmp_path / 'asked'}"])
    asked = (tmp_path / "asked.svg").read_text()
    assert ">accuracy<" in asked and ">macro-F1<" in first and ">macro-F1<" not in asked
    assert (tmp_path / "figure.svg").read_text() == first and (tmp_path / "figure.png").stat().st_size > 1000


def test_unknown_baseline(store: Path) -> None:
    with pytest.raises(ReportError, match="baseline=x: no such group; there are ce, sharprecl"):
        compare(grouped(list_runs(store), ["method"], {}), "x", "test/macro_f1", "t")


def test_lookup() -> None:
    assert lookup({"method": {"name": "ce", "K": 3}}, "method") == "ce"
    assert lookup({"method": {"name": "ce", "K": 3}}, "method.K") == 3
    assert lookup({}, "a.b") is None


def test_what_no_run_has_is_one_line(store: Path) -> None:
    values = grouped(list_runs(store), ["method"], {})
    known = "allowed: test/accuracy, test/macro_f1$"
    with pytest.raises(ReportError, match=f"metric=test/f1: no run of ce has it; {known}"):
        compare(values, "ce", "test/f1", "t")
    with pytest.raises(ReportError, match=f"columns: no run has f1; {known}"):
        main([str(store), "dataset=toy", "columns=f1"])
    with pytest.raises(ReportError, match=f"metric=test/f1: no run has it; {known}"):
        main([str(store), "dataset=toy", "along=method.mu", "metric=test/f1"])


def test_what_is_no_share_is_in_no_percent(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, run in enumerate(run for run in list_runs(store) if run.has("config.yaml")):
        run.write_metrics(**{"seconds/total": 200 + number, "test/brier": 0.5})
    main([str(store), "dataset=toy", "metric=seconds/total", "columns=seconds/total,test/brier,test/accuracy"])
    title, _, _, _, slower, faster = capsys.readouterr().out.splitlines()[:6]
    assert title.endswith(", shares in %")
    assert [cell.strip() for cell in slower.split("|")[1:7]] == [
        "sharprecl", "3", "205.00 ± 1.00", "0.50 ± 0.00", "56.33 ± 1.53", "+4.00"]  # fmt: skip
    main([str(store), "dataset=toy", "metric=seconds/total", "along=method.mu"])
    shown = capsys.readouterr().out
    assert "%" not in shown and "| 201.00 ± 1.00 |" in shown


@pytest.mark.slow
def test_runs_without_an_encoder_and_without_the_figure(store: Path, capsys) -> None:
    runs = [run for run in list_runs(store) if run.has("config.yaml")]
    for run, encoder in zip(runs, [None, "minilm", "tiny", None, "minilm", "tiny", "tiny"], strict=True):
        run.write_metrics(encoder=encoder, protocol="clean")
    record(store, "acl", 0, 0.5)
    metrics = RunFolder(store / "acl-0-1.0").read_metrics()
    RunFolder(store / "acl-0-1.0").write_json("metrics.json", metrics | {"test/macro_f1": None})
    main([str(store), "dataset=toy", f"figure={store / 'seeds'}"])
    shown = capsys.readouterr().out
    assert shown.startswith("toy, minilm/none/tiny, protocol clean/none, %")
    assert [line.split("|")[1].strip() for line in shown.splitlines()[4:] if "|" in line][-1] == "acl"
    assert (store / "seeds.svg").exists()


def test_what_reads_names_or_texts_without_labels_is_marked(store: Path) -> None:
    for seed in range(2):
        record(store, "prototypes", seed, 0.6)
        RunFolder(store / f"prototypes-{seed}-1.0").write_metrics(reads="NU")
    table = compare(grouped(list_runs(store), ["method"], {}), "ce", "test/macro_f1", "t")
    assert [row[0] for row in table.rows] == ["prototypes (N U)", "sharprecl", "ce"]


def test_a_curve_has_a_line_a_group_over_a_key_of_numbers(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for mu, value in ((0.5, 0.4), (10.0, 0.7)):
        record(store, "ce", 0, value, mu=mu)
    lines = curves(grouped(list_runs(store), ["method", "method.mu"], {}), "test/macro_f1", "method.mu")
    assert lines == {"ce": {1.0: FIGURES["ce"], 0.5: [0.4], 10.0: [0.7]}, "sharprecl": {1.0: FIGURES["sharprecl"]}}
    main([str(store), "dataset=toy", "along=method.mu"])
    shown = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    assert [row for row in shown if row and "--" not in row[0]] == [
        ["test/macro_f1, method.mu", "0.5", "1", "10"],
        ["sharprecl", "–", "56.33 ± 1.53", "–"],
        ["ce", "40.00", "51.00 ± 1.00", "70.00"],
    ]
    withheld = store / "withheld"
    record(withheld, "ce", 0, 0.3, mu=0.5)
    drawn = [str(store), "dataset=toy", "along=method.mu", f"figure={store / 'curve'}"]
    main([*drawn, f"also={withheld}"])
    picture = (store / "curve.svg").read_text()
    assert picture.count('id="FillBetweenPolyCollection_') == 3 and "ce, withheld" in picture
    for words in ([*drawn, "also=nowhere"], [str(store), "dataset=toy", f"also={withheld}"]):
        with pytest.raises(ReportError, match="also=.*: allowed: a folder of runs or records, with along=KEY"):
            main(words)
    with pytest.raises(ReportError, match="along=method: found ce; allowed: a key whose values are numbers"):
        curves(grouped(list_runs(store), ["method.mu", "method"], {}), "test/macro_f1", "method")
