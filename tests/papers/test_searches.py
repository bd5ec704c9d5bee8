"""What a search won is what its cell runs, no other, and the report says what was spent on it."""

from dataclasses import replace
from pathlib import Path

import pytest

from papers import searches
from papers.grid import cells, load_budget, load_grid
from papers.searches import (
    NOT_TUNED,
    declared_search,
    keep_search,
    other_search,
    read_searches,
    searches_table,
    tuned_cells,
)

GRID = load_grid("sharprecl_2")
SPACE = {"optimizer.lr": {"low": 5e-5, "high": 5e-4, "log": True}, "trainer.max_epochs": {"choices": [4, 6]}}


DECLARED = {**declared_search(), "space": SPACE, "trials": 2, "finalists": 1}


def trial(number, rate, share, score, mean=None):
    settings = {"optimizer.lr": rate, "trainer.max_epochs": 6}
    return {"trial": number, "settings": settings, "share": share, "score": score, "mean": mean, "run": f"m-d-{number}"}


def record(cell, trials, best):
    kept = {**DECLARED, "finalists": 1, "trials": trials, "best": best}
    return {"line": " ".join(["trainer=gpu", *cell.overrides]), "settings": trials[best]["settings"], **kept}


@pytest.fixture
def budget(tmp_path, monkeypatch):
    """The evidence budget with two small searches kept: of one method in two rows."""
    monkeypatch.setattr(searches, "declared_search", lambda: DECLARED)
    chosen = replace(load_budget("evidence"), searches=str(tmp_path))
    by_row = {cell.row: cell for cell in cells(GRID, chosen) if cell.column == "trec_50"}
    first = [trial(0, 2e-4, 0.34, 0.5), trial(1, 3e-4, 1.0, 0.61, 0.6)]
    keep_search(by_row["ce"], record(by_row["ce"], first, 1), tmp_path)
    second = [trial(0, 2e-4, 1.0, 0.7, 0.65), trial(1, 3e-4, 1.0, 0.6, 0.6)]
    keep_search(by_row["ce_two_views"], record(by_row["ce_two_views"], second, 0), tmp_path)
    return chosen


def test_a_cell_runs_with_what_won_for_it_and_not_before(budget, tmp_path):
    before = {(cell.row, cell.column): cell for cell in cells(GRID, budget)}
    after = {(cell.row, cell.column): cell for cell in tuned_cells(GRID, budget)}
    won = ("trainer.max_epochs=6",)
    rates = {"ce": "optimizer.lr=0.0003", "ce_two_views": "optimizer.lr=0.0002"}
    for row, rate in rates.items():
        assert after[row, "trec_50"].overrides == (*before[row, "trec_50"].overrides, rate, *won)
        assert after[row, "trec_50"].skipped is None and after[row, "ohsumed"].skipped == NOT_TUNED
    assert after["bcl", "trec_50"].skipped == NOT_TUNED
    plain = load_budget("cpu")
    assert tuned_cells(GRID, plain) == cells(GRID, plain)


def test_the_report_says_budget_space_and_what_won(budget):
    table = searches_table([GRID, GRID], budget)
    assert "val/macro_f1" in table.title and len(table.rows) == 2, "a search stands once"
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["cross-entropy"] == (
        "TREC ir=50",
        "2 settings, 1 to their end; seeds 100 to 102",
        "optimizer.lr 5e-05 to 0.0005 (log); trainer.max_epochs 4, 6",
        "optimizer.lr=0.0003, trainer.max_epochs=6",
        "50.00 on one seed, 3 of 6 epochs",
        "60.00",
    )
    assert rows["cross-entropy, two views"][-3:] == ("the method as it stands", "65.00", "65.00")
    assert searches_table([GRID], load_budget("cpu")) is None


def test_another_search_than_the_declared_one_does_not_count_and_its_cell_says_why(budget, tmp_path):
    def bcl(chosen):
        return next(cell for cell in chosen if (cell.row, cell.column) == ("bcl", "trec_50"))

    cell = bcl(cells(GRID, budget))
    trials = [trial(0, 2e-4, 1.0, 0.7, 0.65), trial(1, 3e-4, 0.34, 0.6)]
    keep_search(cell, record(cell, [*trials, trial(2, 1e-4, 0.34, 0.6)], 0), tmp_path)
    assert bcl(tuned_cells(GRID, budget)).skipped == "tuned by another search: trials 3, declared 2"
    assert len(searches_table([GRID], budget).rows) == 2
    keep_search(cell, record(cell, trials, 0), tmp_path)
    assert bcl(tuned_cells(GRID, budget)).skipped is None and len(searches_table([GRID], budget).rows) == 3


def test_the_searches_that_are_kept_are_the_declared_ones():
    """Those of before the commit was kept, too."""
    kept = read_searches(Path(__file__).parents[2] / "reports/searches")
    assert len(kept) >= 10 and [why for each in kept if (why := other_search(each))] == []
    assert declared_search()["trials"] == 12 and declared_search()["finalists"] == 4
