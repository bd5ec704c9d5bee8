"""A report of a made-up grid."""

import pytest

from papers.grid import load_grid
from papers.table_report import table_report
from storage.run_store import RunFolder
from tests.papers.made_up_grid import write_runs


@pytest.fixture
def entries(tmp_path):
    return write_runs(tmp_path / "records")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    store = tmp_path_factory.mktemp("records")
    entries = write_runs(store)
    return table_report(load_grid("sharprecl_2"), entries, {run.name: RunFolder(run) for run in store.iterdir()})
