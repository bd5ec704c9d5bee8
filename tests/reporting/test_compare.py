"""The comparison of methods over seeds."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from reporting.compare import compare, curves, grouped, main
from reporting.curves import seeds_figure
from reporting.grouping import lookup
from storage.errors import ReportError
from storage.records import add_records, read_store
from storage.run_store import RunFolder, list_runs

FIGURES = {"ce": [0.50, 0.52, 0.51], "sharprecl": [0.55, 0.56, 0.58]}


def record(folder: Path, method: str, seed: int, value: float, mu: float = 1.0, status: str = "finished") -> None:
    run = RunFolder(folder / f"{method}-{seed}-{mu}")
    run.write_text("config.yaml", f"method:\n  name: {method}\n  mu: {mu}\ndataset:\n  name: toy\nseed: {seed}\n")
    run.write_metrics({"test/accuracy": value, "test/macro_f1": value, "seed": seed, "status": status})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for method, values in FIGURES.items():
        for seed, value in enumerate(values):
            record(tmp_path, method, seed, value)
    record(tmp_path, "ce", 9, 0.9, status="failed")
    return tmp_path


def test_means_and_paired_test(store: Path) -> None:
    table = compare(grouped(list_runs(store), ["method"], {"dataset": "toy"}), "ce", "test/macro_f1", "t")
    best, baseline = table.rows
    assert (best[0], baseline[0]) == ("sharprecl", "ce")
    assert best[2] == f"{100 * np.mean(FIGURES['sharprecl']):.2f} ± {100 * np.std(FIGURES['sharprecl'], ddof=1):.2f}"
    assert best[-1] == f"{stats.ttest_rel(FIGURES['sharprecl'], FIGURES['ce']).pvalue:.3g}"
    assert best[-3] == "+5.33" and baseline[-1] == "–"
    assert best[1] == baseline[1] == "3"  # the failed run does not count


def test_runs_that_by_does_not_tell_apart_are_refused(store: Path) -> None:
    record(store, "sharprecl", 0, 0.4, mu=0.5)
    with pytest.raises(ReportError, match="two runs of sharprecl, seed 0"):
        grouped(list_runs(store), ["method"], {})
    assert len(grouped(list_runs(store), ["method", "method.mu"], {})) == 3
    assert len(grouped(list_runs(store), ["method"], {"method.mu": "1.0"})["sharprecl"]) == 3


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
    seeds_figure(values, tmp_path / "figure", "toy", metrics=["test/accuracy"])
    first = (tmp_path / "figure.svg").read_text()
    seeds_figure(values, tmp_path / "figure", "toy", metrics=["test/accuracy"])
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


def test_runs_without_an_encoder_and_without_the_figure(store: Path, capsys) -> None:
    for run, encoder in zip(list_runs(store), [None, "minilm", "tiny", None, "minilm", "tiny", "tiny"], strict=True):
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
    with pytest.raises(ReportError, match="along=method: found ce; allowed: a key whose values are numbers"):
        curves(grouped(list_runs(store), ["method.mu", "method"], {}), "test/macro_f1", "method")
