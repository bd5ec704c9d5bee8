"""The definitions of the papers' tables hold together, and find what is printed."""

import pytest
import yaml

from papers.grid import (
    HERE,
    cells,
    footnote_texts,
    last_wins,
    load_budget,
    load_grid,
    printed,
    reported_lines,
    table_names,
)
from storage.errors import ReportError

BUDGETS = ("smoke", "cpu", "frozen", "images", "paper", "paper_images")
WITH_RUNS = [name for name in table_names() if not load_grid(name).statistics]


def find(lines, key):
    return next(line for line in lines if line.key == key)


def cell_text(table, row, column, metric):
    grid = load_grid(table)
    return printed(grid, find(grid.rows, row), find(grid.columns, column), grid.metrics[metric])


@pytest.mark.parametrize("name", table_names())
def test_footnotes_and_rows_named_exist(name):
    grid = load_grid(name)
    assert set(grid.footnotes) <= set(footnote_texts())
    rows = {row.key for row in grid.rows}
    assert {*grid.proposed, *([grid.reference] if grid.reference else [])} <= rows


@pytest.mark.parametrize("name", [name for name in WITH_RUNS if load_grid(name).reported])
def test_every_printed_figure_has_a_cell(name):
    grid = load_grid(name)
    actual = [printed(grid, r, c, m) for r in grid.rows for c in grid.columns for m in grid.metrics]
    figures = [line for line in reported_lines(grid.reported) if line["dataset"] != "average"]
    distinct = {str(figure) for figure in actual if figure}
    assert {line["mean"] + (f" ± {line['std']}" if line.get("std") else "") for line in figures} == distinct


def test_what_is_printed_is_found_with_its_zeros():
    assert str(cell_text("sharprecl_2", "sharprecl", "trec_50", 0)) == "94.80 ± 0.55"
    assert cell_text("sharprecl_2", "sharprecl", "trec_50", 1) is None, "missing in print"
    assert str(cell_text("sharprecl_4", "wo_ss", "trec_50", 1)) == "84.88"
    assert cell_text("sharprecl_2", "acl", "ohsumed", 0) is None, "not in the paper's table"
    assert str(cell_text("acl_6", "scl", "printed", 0)) == "60.4"


@pytest.mark.parametrize("budget", BUDGETS)
def test_rows_and_columns_of_a_budget_exist(budget):
    chosen = load_budget(budget)
    grids = [load_grid(name) for name in WITH_RUNS]
    assert set(chosen.rows or ()) <= {row.key for grid in grids for row in grid.rows}
    assert set(chosen.columns or ()) <= {column.key for grid in grids for column in grid.columns}
    assert set(chosen.by_table) <= set(table_names())
    assert set(chosen.seeds) - {"default", *table_names()} <= {row.key for grid in grids for row in grid.rows}
    assert sum(len(cells(grid, chosen)) for grid in grids) > 5


def test_a_cell_joins_budget_table_column_and_row():
    actual = [c for c in cells(load_grid("acl_conflict"), load_budget("cpu")) if c.column == "trec_50"]
    assert actual[0].overrides == (
        "encoder.train=top_layers",
        "encoder.num_top_layers=1",
        "callbacks=gradient_conflict",
        "dataset=trec",
        "imbalance.ir=50",
        "experiment=acl_scl",
        "protocol.val_from=unthinned",
    )
    assert actual[0].seeds == (0, 1, 2, 3, 4)
    main = {c.row: c for c in cells(load_grid("sharprecl_2"), load_budget("cpu")) if c.column == "ohsumed"}
    assert main["sharprecl"].seeds == (0, 1, 2, 3, 4) and main["dice"].seeds == (0, 1, 2)
    assert main["roberta"].skipped
    clusters = {c.row: c for c in cells(load_grid("aecl_2"), load_budget("cpu")) if c.column == "stackoverflow"}
    top = ("encoder.train=top_layers", "encoder.num_top_layers=1", "callbacks.clustering_curve.interval=5")
    of_both = ("task=cluster", "trainer.max_epochs={}", "dataset=stackoverflow", "method=aecl")
    shortened = (*(word.format(20) for word in of_both), *top, "method.stage1_epochs=by_size")
    assert clusters["aecl"].overrides == shortened
    assert clusters["aecl_frozen"].overrides == (*(word.format(70) for word in of_both), "encoder.train=frozen")
    full = [c for c in cells(load_grid("aecl_2"), load_budget("paper")) if c.row == "aecl"]
    assert full and not any("encoder.train=frozen" in c.overrides for c in full)


@pytest.mark.parametrize("name", ["embeddings", "epochs"])
def test_what_a_figure_draws_exists(name):
    for spec in yaml.safe_load((HERE / "definitions" / f"{name}.yaml").read_text(encoding="utf-8")):
        grid = load_grid(spec["table"])
        assert set(spec["rows"]) <= {row.key for row in grid.rows}
        assert set(spec.get("columns", [spec.get("column")])) <= {column.key for column in grid.columns}


def test_the_last_word_on_a_key_wins():
    assert last_wins(["encoder=tiny", "seed=1", "encoder=minilm"]) == ("encoder=minilm", "seed=1")


def test_unknown_names_are_refused_with_what_there_is():
    with pytest.raises(ReportError, match="table=sharprecl_9: no such table; allowed: .*sharprecl_2"):
        load_grid("sharprecl_9")
    budgets = "smoke, cpu, frozen, images, paper_images, evidence, all_labels, paper"
    with pytest.raises(ReportError, match=f"budget=large: no such budget; allowed: {budgets}"):
        load_budget("large")
