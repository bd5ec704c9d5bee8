"""A report of a made-up grid: figures, marks, tests and pages say what was put in."""

import csv
import html.parser
import json
import re

import pytest
import yaml

from papers.claims import judge
from papers.grid import Metric, load_grid
from papers.paper_report import of_no_commit, read_stores, write_report_again
from papers.render import blocks, figure_text, latex, markdown
from papers.table_report import table_report
from reporting.escape import for_latex
from storage.errors import ReportError
from tests.papers.made_up_grid import claim, entry, make_run

NAMES_OF_MODULES = {"ce": "CrossEntropy", "dualcl": "DualCL", "simcse": "SimCSE"}


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
