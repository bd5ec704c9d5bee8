"""A report of a made-up grid: figures, marks, tests, claims and pages say what was put in."""

import csv
import html.parser
import json
import re
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import yaml
from scipy import stats

from papers import claims, predicted_rows
from papers.claims import Claim, judge, load_claims, one_p, with_one_p
from papers.grid import Metric, load_grid
from papers.page import check_rows, claim_row
from papers.paper_report import of_no_commit, read_stores, write_report_again
from papers.render import blocks, figure_text, latex, markdown
from papers.table_report import TableReport, table_report
from reporting.escape import for_latex
from reporting.statistics import power
from storage.errors import ReportError
from storage.run_store import RunFolder

CE = (0.60, 0.62, 0.61, 0.59, 0.60)
SHARP = (0.65, 0.68, 0.66, 0.63, 0.66)
DICE = (0.61, 0.60)
NAMES_OF_MODULES = {"ce": "CrossEntropy", "dualcl": "DualCL", "simcse": "SimCSE"}


def make_run(store, name, seed, value, **more):
    run = RunFolder(store / name)
    metrics = {"test/accuracy": value, "test/macro_f1": value - 0.1, "class_counts": [30, 20, 10]}
    names = {"dataset": "trec", "label_names": ["a", "b", "c"], "protocol": "clean", "encoder": "minilm", "seed": seed}
    run.write_metrics({**metrics, **names, **more}, status="finished")
    encoder = {"name": "minilm", "train": "full"}
    config = {"encoder": encoder, "trainer": {"max_epochs": 6}, "sampler": {"batch_size": 64}}
    run.write_text("config.yaml", yaml.safe_dump(config))
    run.write_json("environment.json", {"changed": False})
    return run


def entry(row, column, names, problem=None):
    runs = {str(seed): name for seed, name in enumerate(names)}
    return {"row": row, "column": column, "command": f"method={row}", "runs": runs, "problem": problem}


def write_runs(folder):
    """Table 2 on TREC ir=50: cross-entropy and SharpReCL whole, Dice 2 of 5 seeds, SimCSE impossible."""
    cells = []
    for row, values in (("ce", CE), ("sharprecl", SHARP), ("dice", DICE)):
        for seed, value in enumerate(values):
            make_run(folder, f"{row}-{seed}", seed, value)
        cells.append(entry(row, "trec_50", [f"{row}-{seed}" for seed in range(5)]))
    return [*cells, entry("simcse", "trec_50", [], "method=simcse: unknown choice")]


@pytest.fixture
def entries(tmp_path):
    return write_runs(tmp_path / "records")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    store = tmp_path_factory.mktemp("records")
    entries = write_runs(store)
    return table_report(load_grid("sharprecl_2"), entries, {run.name: RunFolder(run) for run in store.iterdir()})


def test_cells_hold_what_was_measured_and_what_is_printed(report):
    cell = report.cells["sharprecl", "trec_50", "test/accuracy"]
    assert cell.mean == pytest.approx(0.656) and cell.std == pytest.approx(0.0181659, abs=1e-6)
    assert str(cell.printed) == "94.80 ± 0.55" and cell.mark == "best"
    assert report.cells["ce", "trec_50", "test/accuracy"].mark == "second"
    assert report.cells["dice", "trec_50", "test/accuracy"].mark == "", "two seeds are no runner-up"
    assert report.cells["simcse", "trec_50", "test/accuracy"].mean is None, "never filled from the paper"


def test_ranks_are_taken_over_the_seeds_that_all_have_and_without_rows_that_stand_outside(tmp_path):
    values = {"ce": (0.6, 0.6, 0.6, 0.9, 0.9), "sharprecl": (0.7, 0.7, 0.7), "paco": (0.8, 0.8, 0.8)}
    runs = {f"{row}-{seed}": make_run(tmp_path, f"{row}-{seed}", seed, value)
            for row, seeds in values.items() for seed, value in enumerate(seeds)}  # fmt: skip
    cells = [entry(row, "trec_50", [name for name in runs if name.startswith(f"{row}-")]) for row in values]
    report = table_report(load_grid("sharprecl_2"), cells, runs, "cpu")
    marks = {row: report.cells[row, "trec_50", "test/accuracy"].mark for row in values}
    assert marks == {"ce": "second", "sharprecl": "best", "paco": ""}
    assert "PaCo: not ranked (not converged after 6 epochs)" in report.missing
    assert {first.against for first in report.against_best} == {"ce"}
    assert [check.against for check in judge(claim(b=("others",)), report).checks] == ["ce"]


@pytest.mark.parametrize(
    ("validation", "marks", "against"),
    [
        ({"ce": 0.5, "dice": 0.7, "sharprecl": 0.6}, {"ce": "", "dice": "best", "sharprecl": "second"}, "dice"),
        ({"ce": 0.5, "dice": 0.7}, {"ce": "", "dice": "", "sharprecl": ""}, "dice"),
        ({"ce": 0.5, "sharprecl": 0.7}, {"ce": "", "dice": "", "sharprecl": ""}, "ce"),
        ({}, {"ce": "second", "dice": "", "sharprecl": "best"}, "ce"),
    ],
)
def test_the_best_is_chosen_on_validation_and_not_between_rows_that_know_more_and_less(
    tmp_path, validation, marks, against
):
    runs, cells = {}, []
    for row, value in {"ce": 0.7, "dice": 0.6, "sharprecl": 0.8}.items():
        more = {"val/accuracy": validation[row]} if row in validation else {}
        names = [f"{row}-{seed}" for seed in range(3)]
        runs |= {name: make_run(tmp_path, name, seed, value, **more) for seed, name in enumerate(names)}
        cells.append(entry(row, "trec_50", names))
    report = table_report(load_grid("sharprecl_2"), cells, runs)
    assert {row: report.cells[row, "trec_50", "test/accuracy"].mark for row in marks} == marks
    (test,) = (test for test in report.against_best if test.metric == "test/accuracy")
    assert test.against == against


@pytest.mark.parametrize(
    ("max_epochs", "figures", "marked"),
    [(3, (5, 6, 7), True), (3, (5, 7, 6), False), (3, (5, 6), False), ("converged", (5, 6), True)],
)
def test_a_row_whose_last_epoch_is_its_best_is_marked(tmp_path, max_epochs, figures, marked):
    run = make_run(tmp_path, "ce-0", 0, 0.6)
    protocol = {"name": "clean", "monitor": "val/macro_f1", "mode": "max"}
    config = {**run.read_config(), "protocol": protocol, "trainer": {"max_epochs": max_epochs}}
    run.write_text("config.yaml", yaml.safe_dump(config))
    run.write_csv("history.csv", list(enumerate(figures)), ("epoch", "val/macro_f1"))
    report = table_report(load_grid("sharprecl_2"), [entry("ce", "trec_50", ["ce-0"])], {"ce-0": run})
    assert figure_text(report.cells["ce", "trec_50", "test/accuracy"]).endswith("†") == marked


def test_tests_are_paired_and_corrected(report):
    tests = {(first.row, first.metric): first for first in report.against_reference}
    main = tests["sharprecl", "test/accuracy"]
    assert main.result.difference == pytest.approx(0.052) and len(main.result.seeds) == 5
    assert main.holm_p > main.result.t_test_p and main.effect.interval[0] > 0
    assert not any(row == "dice" for row, _ in tests), "two of its five seeds would only enlarge the family"
    assert {first.against for first in report.against_best} == {"ce"}, "best of the rows not proposed with three seeds"


def test_one_run_fills_two_rows_and_the_lowest_may_be_best(tmp_path):
    figures = {"test/micro_f1": 0.8, "test/retrieval_micro_f1": 0.82, "test/hamming_loss": 0.02}
    figures |= {"test/retrieval_hamming_loss": 0.01, "retrieval/mib": 12.5}
    runs = {f"bce-{seed}": make_run(tmp_path, f"bce-{seed}", seed, 0.5, **figures) for seed in range(3)}
    entries = [entry(row, "reuters_minilm", list(runs)) for row in ("plain", "knn")]
    report = table_report(load_grid("knn_mltc_4"), entries, runs)
    actual = {(row, key): report.cells[row, "reuters_minilm", f"test/{key}"] for row in ("plain", "knn")
             for key in ("micro_f1", "hamming_loss")}  # fmt: skip
    assert [actual["knn", key].mean for key in ("micro_f1", "hamming_loss")] == pytest.approx([0.82, 0.01])
    assert [actual["plain", key].mean for key in ("micro_f1", "hamming_loss")] == pytest.approx([0.8, 0.02])
    assert all(actual["knn", key].mark == "best" for key in ("micro_f1", "hamming_loss"))
    size = table_report(load_grid("knn_mltc_7"), [entry("cl_knn", "reuters_minilm", list(runs))], runs)
    assert figure_text(size.cells["cl_knn", "reuters_minilm", "retrieval/mib"]) == "12.50 ± 0.00"


def test_a_row_that_reads_names_says_so_also_where_its_runs_did_not(tmp_path):
    target = {row: f"lightning_modules.methods.supervised.{row}.{name}Module" for row, name in NAMES_OF_MODULES.items()}
    kept = {"ce": {"reads": "U"}, "dualcl": {}, "simcse": {}}
    runs = {row: make_run(tmp_path, row, 0, 0.5, **more) for row, more in kept.items()}
    for row, run in runs.items():
        run.write_text("config.yaml", yaml.safe_dump({**run.read_config(), "method": {"_target_": target[row]}}))
    report = table_report(load_grid("sharprecl_2"), [entry(row, "trec_50", [row]) for row in kept], runs)
    assert [row.title for row in report.rows] == ["cross-entropy (U)", "SimCSE", "DualCL (N)"]
    text = markdown(report)
    assert "| DualCL (N) " in text and text.count("N: it reads the names of the classes") == 1


def test_caption_and_notes_say_what_stands_there(report):
    for word in ("minilm (full)", "6 epochs", "batches of 64", "clean", "2 to 5 seeds"):
        assert word in report.caption
    notes = " ".join(report.missing)
    assert "SimCSE: not run here (method=simcse: unknown choice)" in notes
    assert "Dice loss: seeds still missing (TREC ir=50 2 of 5)" in notes


@pytest.mark.parametrize(
    ("table", "unit"),
    [
        ("sharprecl_2", "; %, mean ± SD."),
        ("scl_hnm_6", " seed; mean ± SD."),
        ("acl_conflict", "; % but for rank correlation with class size, ×100; mean ± SD."),
    ],
)
def test_caption_says_percent_of_shares_alone(tmp_path, table, unit):
    grid = load_grid(table)
    run = make_run(tmp_path, "run", 0, 0.5, **{metric.key: 0.5 for metric in grid.metrics})
    cells = [entry(grid.rows[0].key, grid.columns[0].key, ["run"])]
    assert table_report(grid, cells, {"run": run}).caption.endswith(unit)


def test_runs_of_no_commit_are_left_out_and_counted_where_they_are_recorded(tmp_path, capsys):
    runs = {name: make_run(tmp_path, name, seed, 0.5) for seed, name in enumerate(("ce-0", "ce-1"))}
    runs["ce-1"].write_json("environment.json", {"changed": None})
    assert [*read_stores([tmp_path])] == ["ce-0"] and "left out: ce-1" in capsys.readouterr().err
    tables = {"sharprecl_2": [entry("ce", "trec_50", [*runs])], "sharprecl_3": [entry("ce", "trec_50", ["ce-0"])]}
    assert of_no_commit(tables, runs) == ["sharprecl_2: 1 of 2 runs"]


def test_caption_says_which_layers_train_and_leaves_out_what_does_not(tmp_path):
    figures = {"cluster/acc": 0.5, "cluster/nmi": 0.5, "protocol": "transductive"}
    runs = {name: make_run(tmp_path, name, 0, 0.5, **figures) for name in ("kmeans", "aecl")}
    for run in runs.values():
        encoder = {"name": "minilm", "train": "top_layers", "num_top_layers": 1}
        run.write_text("config.yaml", yaml.safe_dump({**run.read_config(), "encoder": encoder, "task": "cluster"}))
    runs["aecl"].write_csv("history.csv", [{"epoch": 0}], ("epoch",))
    entries = [entry("sbert", "tweet", ["kmeans"]), entry("aecl", "tweet", ["aecl"])]
    caption = table_report(load_grid("aecl_2"), entries, runs).caption
    assert "Encoder minilm (top 1), 6 epochs, batches of 64. Protocol" in caption


def test_markdown_and_latex(report):
    page = markdown(report)
    assert "**65.60 ± 1.82** (94.80 ± 0.55)" in page and "60.50 ± 0.71 [2/5]" in page and "(74.00 ± 0.29)" in page
    source = latex(report)
    row, printed = re.search(r"^\\raggedright SharpReCL(.*)\n(.*)$", source, re.MULTILINE).groups()
    assert row.startswith(" & \\textbf{65.60 $\\pm$ 1.82} & ")
    assert printed.startswith(" & {\\scriptsize 94.80 $\\pm$ 0.55}")
    assert all(for_latex(note) in source for note in (*report.missing, *report.footnotes))
    assert source.count("\\begin{tabular}") == source.count("\\end{tabular}") == 1
    widths = {line.count("&") for line in source.splitlines() if line.endswith("\\\\") and "multicolumn" not in line}
    assert widths == {2}
    assert for_latex("50 % of a_b & c") == "50 \\% of a\\_b \\& c"


def test_a_wide_table_goes_on_below(report):
    metrics = tuple(Metric(f"metric {n}", f"test/{n}") for n in range(9))
    columns = [(report.columns[0], metrics[:n]) for n in (2, 3, 9, 1, 1)]
    widths = [[len(part) for _, part in block] for block in blocks(columns, 5)]
    assert widths == [[2, 3], [5], [4, 1], [1]]
    assert [m for block in blocks(columns, 5) for _, part in block for m in part] == [m for _, p in columns for m in p]


def claim(**changes):
    base = Claim("c", "P", "a is better", "here", "sharprecl_2", "greater", "sharprecl", ("test/accuracy",), ("ce",))
    return replace(base, **changes)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "holds"),
        ({"test": "less"}, "contradicted"),
        ({"b": ("dice",)}, "not enough runs"),
        ({"b": ("ce", "dice")}, "holds in part"),
        ({"test": "equal", "margin": 1.0}, "contradicted"),
        ({"test": "equal", "margin": 20.0}, "holds"),
        ({"test": "equal", "margin": 5.2}, "not shown"),
        ({"test": "positive", "b": ()}, "holds"),
        ({"test": "greater", "b": ("0",)}, "holds"),
        ({"test": "equal", "b": ("0",), "margin": 1.0}, "contradicted"),
        ({"test": "differs", "margin": 1.0}, "holds"),
        ({"test": "differs", "margin": 1.0, "a": "ce", "b": ("sharprecl",)}, "holds"),
        ({"test": "differs", "margin": 20.0}, "contradicted"),
        ({"test": "not_below", "margin": 1.0}, "holds"),
        ({"test": "not_above", "margin": 1.0}, "contradicted"),
        ({"test": "not_above", "margin": 20.0}, "holds"),
        ({"test": "not_below", "margin": 1.0, "a": "ce", "b": ("sharprecl",)}, "contradicted"),
        ({"columns": ("trec_50",)}, "holds"),
        ({"columns": ("ohsumed",)}, "not enough runs"),
        ({"columns": ("trec_50", "ohsumed")}, "holds in part"),
        ({"columns": ("trec_50", "ohsumed"), "quantifier": "1/2"}, "holds"),
        ({"a": "simcse"}, "not enough runs"),
        ({"test": "steadier"}, "not shown"),
    ],
)
def test_verdicts(report, changes, verdict):
    assert judge(claim(**changes), report).verdict == verdict


SMALL = 0.01  # of ten points: below the least effect of interest, one point


@pytest.mark.parametrize(
    ("quantifier", "signs", "verdict"),
    [
        ("all", (1, 1, 1, 1), "holds"),
        ("all", (1, 1, 1, 0), "holds in part"),
        ("all", (1, 1, 1, -1), "contradicted"),
        ("most", (1, 1, 1, -1), "holds"),
        ("most", (0, 0, 0, -1), "not shown"),
        ("most", (0, -1, -1, 1), "contradicted"),
        ("3/4", (1, 1, -1, -1), "contradicted"),
        ("most", (SMALL, SMALL, 0, 0), "negligible"),
        ("most", (SMALL, -1, 0, 0), "negligible"),
        ("most", (SMALL, 0, 0, 0), "not shown"),
        ("all", (SMALL, 0, 0, 1), "holds in part"),
    ],
)
def test_a_claim_is_contradicted_where_its_quantifier_fails(report, monkeypatch, quantifier, signs, verdict):
    rivals = ("dice", "focal", "simcse", "spcl")
    noise = np.array([0.0, 0.002, -0.002, 0.001, -0.001])
    values = {rival: 0.5 - 0.1 * sign + noise * (1 if sign else 40) for rival, sign in zip(rivals, signs, strict=True)}
    values["sharprecl"] = np.full(5, 0.5)
    monkeypatch.setattr(TableReport, "values", lambda self, row, *_: dict(enumerate(values[row].tolist())))
    monkeypatch.setattr(claims, "_rivals", lambda *_: list(rivals))
    judged = judge(claim(quantifier=quantifier, b=rivals), report)
    assert judged.verdict == verdict
    assert [check.outcome == "small" for check in judged.checks] == [sign == SMALL for sign in signs]
    if verdict == "negligible":
        assert "small" in claim_row(judged, "cpu")[2] and float(claim_row(judged, "cpu")[4].lstrip("< ")) < 0.05


def test_of_data_sets_one_holds_where_all_its_comparisons_do():
    def verdict(wanting=(), **outcomes):
        checks = [
            claims.Check("ce", column, "test/accuracy", None, 0.5, outcome=outcome)
            for column, several in outcomes.items()
            for outcome in several
        ]
        return claims.Verdict(claim(counts="data sets", quantifier="2/3"), "", tuple(checks), wanting)

    of_sets = verdict(a=["yes", "yes"], b=["yes", "no"], c=["open", "yes"], d=["yes"])
    assert claims.outcomes_of(of_sets) == ["yes", "no", "open", "yes"] and claims._word(of_sets) == "holds in part"
    assert claims.outcomes_of(verdict((("ce", "d", "test/accuracy"),), d=["yes"])) == ["open"]
    assert claims._word(verdict(a=["yes"], b=["no", "yes"], d=["yes"])) == "holds"
    assert claims._word(verdict(a=["yes"], b=["no", "yes"], d=["no"])) == "contradicted"
    assert claims._word(verdict(a=["small", "open"], b=["small"], d=["open"])) == "negligible"
    assert claims._word(verdict(a=["small", "yes"], b=["small"], d=["open"])) == "not shown", "one is its way"


def test_what_lacks_runs_keeps_a_claim_from_holding(report):
    checks = [claims.Check("ce", "a", "test/accuracy", None, 0.5, outcome="yes")] * 2
    wanting = tuple((rival, "a", "test/accuracy") for rival in ("dice", "focal"))
    verdict = claims.Verdict(claim(quantifier="most"), "", tuple(checks), wanting[:1])
    assert claims._word(verdict) == "holds", "two of three whatever the third says"
    assert claims._word(replace(verdict, wanting=wanting)) == "holds in part"
    denied = replace(verdict, checks=(replace(checks[0], outcome="no"),))
    assert claims._word(replace(denied, wanting=wanting[:1])) == "contradicted", "one of two is not most"
    assert claims._word(replace(denied, wanting=wanting)) == "not shown", "two of three may still hold"
    of_budget = replace(report, rows=tuple(row for row in report.rows if row.key != "dice"))
    assert ("dice", "trec_50", "test/accuracy") in judge(claim(b=("ce", "dice")), of_budget).wanting
    assert judge(claim(columns=("ohsumed",)), report).wanting == (("ce", "ohsumed", "test/accuracy"),)


def test_one_comparison_has_one_corrected_p(report):
    alone, beside = judge(claim(), report), judge(claim(metrics=("test/accuracy", "test/macro_f1")), report)
    assert alone.checks[0].holm_p < beside.checks[0].holm_p
    verdicts = one_p([alone, beside])
    assert [verdict.checks[0].holm_p for verdict in verdicts] == [beside.checks[0].holm_p] * 2
    spreads, rng = [check.spread for check in beside.checks], np.random.default_rng
    among = [power(spreads, [5, 5], 1.0, rng(0), [number]) for number in (0, 1)]
    assert verdicts[0].power == among[0] < alone.power, "its own comparison, corrected for both"
    assert verdicts[1].power == beside.power == pytest.approx(np.mean(among))
    lists = (*report.against_reference, *report.against_best)
    of_lists = [test.holm_p for test in lists if (test.row, test.metric) == ("sharprecl", "test/accuracy")]
    shown = with_one_p(report, verdicts)
    tests = [test for test in (*shown.against_reference, *shown.against_best) if test.metric == "test/accuracy"]
    assert {test.holm_p for test in tests if test.row == "sharprecl"} == {beside.checks[0].holm_p}
    in_none = with_one_p(report, [])
    tests = [test for test in (*in_none.against_reference, *in_none.against_best) if test.metric == "test/accuracy"]
    assert {test.holm_p for test in tests if test.row == "sharprecl"} == {max(of_lists)}
    assert "p (Holm) is that of the claim which makes the comparison" in markdown(shown)


GAINS = {"metrics": ("test/macro_f1_head",), "against_metrics": ("test/macro_f1_middle", "test/macro_f1_tail")}


@pytest.mark.slow
def test_a_claim_that_compares_gains_is_asked_of_differences_of_differences(report, monkeypatch):
    rng = np.random.default_rng(0)
    thirds = ("head", "middle", "tail")
    values = {(row, third): rng.normal(0.5, 0.01, 5) for row in ("sharprecl", "ce") for third in thirds}
    values["sharprecl", "head"] += 0.1
    monkeypatch.setattr(
        TableReport, "values", lambda self, row, _, key: dict(enumerate(values[row, key.split("_")[-1]].tolist()))
    )
    monkeypatch.setattr(claims, "_rivals", lambda *_: ["ce"])
    verdict = judge(claim(**GAINS, quantifier="all"), report)
    assert verdict.verdict == "holds" and verdict.power is not None
    for check, other in zip(verdict.checks, ("middle", "tail"), strict=True):
        gains = [100 * (values["sharprecl", third] - values["ce", third]) for third in ("head", other)]
        expected = stats.ttest_rel(*gains)
        assert check.result.difference == pytest.approx(np.mean(gains[0] - gains[1]))
        assert check.p == pytest.approx(expected.pvalue)
        assert check.result.interval == pytest.approx(expected.confidence_interval(0.95))
        assert check.spread == pytest.approx(np.std(gains[0] - gains[1], ddof=1))
    shown = check_rows([verdict])[0]
    assert shown[3] == "(sharprecl - ce) test/macro_f1_head - (sharprecl - ce) test/macro_f1_middle"
    assert "less the same in test/macro_f1_middle, test/macro_f1_tail" in claim_row(verdict, "cpu")[1]
    of_rows = judge(claim(metrics=GAINS["metrics"], against_rows=("ce", "sharprecl")), report).checks[0]
    assert of_rows.result.difference == pytest.approx(200 * np.mean(values["sharprecl", "head"] - values["ce", "head"]))
    mirrored = judge(claim(metrics=("test/macro_f1_middle",), against_metrics=("test/macro_f1_head",)), report)
    level = judge(claim(metrics=("test/macro_f1_head",)), report)
    gained, reverse, alone = one_p([verdict, mirrored, level])
    assert reverse.verdict == "contradicted" and reverse.checks[0].holm_p == gained.checks[0].holm_p
    assert alone.checks[0].holm_p == level.checks[0].p, "a level is another comparison"


def test_gains_that_are_equal_but_for_rounding_are_no_difference(report, monkeypatch):
    values = {"sharprecl_head": (0.55, 0.45, 0.45), "ce_head": (0.35, 0.29, 0.4)}
    values |= {"sharprecl_middle": (0.51, 0.54, 0.33), "ce_middle": (0.31, 0.38, 0.28)}
    monkeypatch.setattr(
        TableReport, "values", lambda self, row, _, key: dict(enumerate(values[f"{row}_{key.split('_')[-1]}"]))
    )
    monkeypatch.setattr(claims, "_rivals", lambda *_: ["ce"])
    (check,) = judge(claim(metrics=GAINS["metrics"], against_metrics=("test/macro_f1_middle",)), report).checks
    assert check.p is None and check.outcome == "open" and check.spread == 0


@pytest.mark.slow
def test_kept_predictions_give_a_bootstrap_over_seeds_and_test_rows(entries, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    labels = np.repeat(["a", "b", "c"], (60, 30, 10))
    for row, share in (("ce", 0.6), ("sharprecl", 0.8)):
        for seed in range(5):
            predicted = np.where(rng.random(100) < share, labels, "a")
            rows = [(n, "test", *pair) for n, pair in enumerate(zip(labels, predicted, strict=True))]
            RunFolder(tmp_path / f"records/{row}-{seed}").write_csv(
                "predictions.csv", rows, ("index", "split", "label", "prediction")
            )
    runs = {folder.name: RunFolder(folder) for folder in (tmp_path / "records").iterdir()}
    report = table_report(load_grid("sharprecl_2"), entries, runs)
    assert judge(claim(), report, runs).checks[0].bootstrap is None, "of five seeds"
    monkeypatch.setattr(predicted_rows, "LEAST_SEEDS", 5)
    (check,) = judge(claim(), report, runs).checks
    assert 0 < check.bootstrap.interval[0] < check.bootstrap.interval[1] < 30 and check.bootstrap.p < 0.05
    assert judge(claim(), report).checks[0].bootstrap is None, "without predictions"
    read_elsewhere = [replace(row, reads={"test/accuracy": "test/retrieval_accuracy"}) for row in report.grid.rows]
    of_neighbours = replace(report, grid=replace(report.grid, rows=tuple(read_elsewhere)))
    assert judge(claim(), of_neighbours, runs).checks[0].bootstrap is None, "no record has what neighbours predict"
    a, b = ({seed: f"{row}-{seed}" for seed in range(5)} for row in ("sharprecl", "ce"))
    head, tail = (predicted_rows.bootstrap_of(a, b, [f"test/macro_f1_{third}"], runs) for third in ("head", "tail"))
    gains = predicted_rows.bootstrap_of(a, b, ["test/macro_f1_tail", "test/macro_f1_head"], runs)
    assert gains.interval[0] < np.mean(tail.interval) - np.mean(head.interval) < gains.interval[1]
    make_run(tmp_path / "records", "ce-0", 0, 0.6, class_counts=[10, 20, 30])
    assert predicted_rows.bootstrap_of(a, b, ["test/macro_f1_head"], runs) is None, "other thirds"


def test_the_bootstrap_is_of_one_class_a_text_and_no_answer_is_none_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(predicted_rows, "LEAST_SEEDS", 2)
    labels, header = ["a", "a", "b", "b"], ("index", "label", "prediction")
    predicted = {"right": labels, "silent": ["a", "a", "", ""]}
    runs = {name: make_run(tmp_path, name, 0, 0.5) for name in predicted}
    for name, answers in predicted.items():
        runs[name].write_csv("predictions.csv", list(zip(range(4), labels, answers, strict=True)), header)
    a, b = (dict.fromkeys(range(2), name) for name in predicted)
    result = predicted_rows.bootstrap_of(a, b, ["test/macro_f1"], runs)
    assert result.interval == pytest.approx((50, 50)), "of a and b, whose F1 are 1 and 0"
    make_run(tmp_path, "silent", 0, 0.5, **{"test/hamming_loss": 0.1})
    assert predicted_rows.bootstrap_of(a, b, ["test/macro_f1"], runs) is None, "lists of labels"


@pytest.mark.parametrize(("a", "b", "verdict"), [("ce", "dice", "holds"), ("dice", "ce", "contradicted")])
def test_the_steadier_of_two_rows(report, monkeypatch, a, b, verdict):
    values = {"ce": (0.60, 0.61, 0.60, 0.61, 0.60), "dice": (0.50, 0.71, 0.52, 0.70, 0.53)}
    monkeypatch.setattr(TableReport, "values", lambda self, row, *_: dict(enumerate(values[row])))
    actual = judge(claim(test="steadier", a=a, b=(b,)), report)
    assert actual.verdict == verdict
    spreads = [100 * np.std(values[row], ddof=1) for row in (a, b)]
    assert actual.checks[0].result.difference == pytest.approx(spreads[0] - spreads[1])


def test_a_claim_without_runs_says_which_comparisons_lack_them(report):
    verdict = judge(claim(b=("ce", "dice")), report)
    assert verdict.wanting == (("dice", "trec_50", "test/accuracy"),)
    row = claim_row(verdict, "cpu")
    assert row[2] == "holds in part; most of 2 asked (1 for it, 0 against, 0 open, 1 without runs)"
    assert row[3] == "+5.20" and row[-1].endswith("TABLE=sharprecl_2")


def test_a_claim_on_a_row_that_does_not_exist_is_refused(report):
    with pytest.raises(ReportError, match="claim c: sharprecl_2 has no nobody"):
        judge(claim(b=("nobody",)), report)
    with pytest.raises(ReportError, match="claim c: sharprecl_2 has no nowhere"):
        judge(claim(columns=("nowhere",)), report)


@pytest.mark.parametrize("first", load_claims(), ids=lambda first: first.key)
def test_every_claim_names_rows_and_metrics_of_its_table(first):
    grid = load_grid(first.table)
    rows = {row.key for row in grid.rows}
    assert {first.a, *first.b, *first.against_rows} - {"others", "0"} <= rows
    assert {*first.metrics, *first.against_metrics} <= {metric.key for metric in grid.metrics}
    assert set(first.columns) <= {column.key for column in grid.columns if column.overrides}
    assert first.test in get_args(claims.Test)
    within = ("equal", "differs", "not_below", "not_above")
    assert (first.margin > 0) == (first.test in within) and first.effect > 0
    assert 1 <= first.needed(8) <= 8 and first.needed(8) == {"all": 8, "most": 5, "6/8": 6}[first.quantifier]


class Reader(html.parser.HTMLParser):
    """Collects what a page refers to outside itself, and the text of its cells."""

    def __init__(self):
        super().__init__()
        self.outside, self.cells, self.open = [], [], False

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("src", "href") and not (value or "").startswith(("#", "data:")):
                self.outside.append(value)
        if tag == "td":
            self.cells.append("")
            self.open = True

    def handle_endtag(self, tag):
        self.open = self.open and tag != "td"

    def handle_data(self, data):
        if self.open:
            self.cells[-1] += data


@pytest.mark.slow
def test_a_whole_report_needs_nothing_outside_its_folder(entries, tmp_path):
    conflict = [entry("with_scl", "trec_50", ["scl-0", "scl-1"]), entry("with_acl", "trec_50", ["acl-0", "acl-1"])]
    for name, shares in (("scl-0", (40, 30, 0)), ("scl-1", (42, 20, 10)), ("acl-0", (0, 0, 0)), ("acl-1", (0, 0, 0))):
        run = make_run(tmp_path / "records", name, int(name[-1]), 0.6)
        rows = [(0, label, 100, share, f"{share / 100:.6f}") for label, share in enumerate(shares)]
        run.write_csv("gradient_conflict.csv", rows, ("epoch", "class", "pairs", "conflicts", "ratio"))
    mus = [entry(f"mu_{mu}", "trec_50", [f"mu{mu}"]) for mu in ("0.2", "0.4", "1.0")]
    for place, mu in enumerate(("0.2", "0.4", "1.0")):
        make_run(tmp_path / "records", f"mu{mu}", 0, 0.6 + place / 100)
    clusters = [entry("aecl", "tweet", ["aecl-0", "aecl-1"]), entry("ccssl", "tweet", ["ccssl-0"])]
    for name in ("aecl-0", "aecl-1", "ccssl-0"):
        run = make_run(tmp_path / "records", name, int(name[-1]), 0.5, **{"cluster/acc": 0.5, "cluster/nmi": 0.6})
        history = [(0, 0.1, ""), (1, 0.2, 0.7), (2, 0.3, 0.8)]
        run.write_csv("history.csv", history, ("epoch", "train/loss", "cluster/within_label_cosine"))
    tables = {"sharprecl_2": entries, "acl_conflict": conflict, "sharprecl_mu": mus, "aecl_2": clusters}
    folder = tmp_path / "cpu"
    folder.mkdir()
    (folder / "grid.json").write_text(json.dumps({"budget": "cpu", "tables": tables}))
    (tmp_path / "cards").mkdir()
    card = {"train": 70, "test": 5, "word": 9, "avg_len": 2.0, "class": 3, "ir": 4.0}
    for name in ("trec", "agnews8000"):
        content = {**card, "class_counts": {"a": 40, "b": 20, "c": 10}}
        (tmp_path / f"cards/{name}.json").write_text(json.dumps(content))

    page = write_report_again(folder, [])
    reader = Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    assert reader.outside and all((folder / file).is_file() for file in reader.outside), "opens without a network"
    assert "65.60 ± 1.8294.80 ± 0.55" in reader.cells
    assert "70 (5452)" in reader.cells, "Table 1 is counted"
    assert "2 (23)" in reader.cells, "the AECL paper names its statistics otherwise"
    for picture in ("sharprecl_mu", "labels-trec_50", "conflict-trec_50", "epochs-aecl-within"):
        for kind in ("svg", "pdf", "png"):
            assert (folder / "figures" / f"{picture}.{kind}").stat().st_size > 1000, picture
    assert (folder / "tables.tex").read_text(encoding="utf-8").isascii(), "LaTeX needs no package for characters"
    with (folder / "cells.csv").open() as stream:
        cells = {(row["table"], row["row"], row["metric"]): row for row in csv.DictReader(stream)}
    assert cells["acl_conflict", "with_scl", "conflict/last_epoch"]["mean"].startswith("0.2366")
    assert float(cells["acl_conflict", "with_scl", "conflict/size_correlation"]["mean"]) == 1.0
    assert float(cells["acl_conflict", "with_acl", "conflict/tail"]["mean"]) == 0.0
    claims = (folder / "claims.md").read_text()
    assert re.search(r"SharpReCL is better than cross-entropy +\| Section 5, Table 2 +\| holds", claims)
    assert "not enough runs" in claims
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.suffix != ".pdf"}
    write_report_again(folder, [])
    assert {file: file.read_bytes() for file in before} == before, "the same runs give the same report"


def test_a_folder_without_a_grid_is_refused(tmp_path):
    with pytest.raises(ReportError, match="grid.json: missing; it is written by make reproduce-tables BUDGET="):
        write_report_again(tmp_path, [])
