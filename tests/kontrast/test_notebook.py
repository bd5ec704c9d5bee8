"""The notebook does what it says, cell after cell."""

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "own_texts.ipynb"


@pytest.mark.slow
def test_the_cells_run_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the run store and all else lie where the notebook is run
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    names: dict = {}
    for cell in cells:
        exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    answer, frame = names["answer"], names["frame"]
    assert answer.ranking["recommended"].sum() == 1 and Path(answer.folder, "index.html").is_file()
    assert answer.model.predict(["where is my parcel"]).tolist() == ["delivery"]
    assert names["scores"].mean() > 0.8
    assert (names["classifier"].predict(frame["text"]) == frame["label"]).mean() > 0.9
