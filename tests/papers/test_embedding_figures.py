"""t-SNE panels from the weights of finished runs."""

import csv
import gzip
import json

import numpy as np
import pytest

from papers import embedding_figures as module
from storage.errors import ReportError


def test_the_largest_and_the_smallest_classes_are_shown():
    assert module.shown_classes([3, 9, 5]) == [1, 2, 0]
    assert module.shown_classes(range(12)) == [11, 10, 9, 8, 7, 4, 3, 2, 1, 0]


def test_separate_classes_stay_separate_and_the_points_repeat():
    rng = np.random.default_rng(0)
    embeddings = np.concatenate([rng.normal(centre, 0.05, (20, 4)) for centre in np.eye(4)[:2] * 3]).astype("float32")
    points = module.coordinates(embeddings)
    first, second = points[:20], points[20:]
    assert np.linalg.norm(first.mean(0) - second.mean(0)) > 2 * max(first.std(), second.std())
    assert np.array_equal(points, module.coordinates(embeddings))


def test_a_folder_without_a_grid_is_a_line(tmp_path):
    with pytest.raises(ReportError, match=r"typo/grid\.json: missing; it is written by make reproduce-tables"):
        module.main([str(tmp_path / "typo")])


@pytest.mark.slow
def test_panels_of_the_runs_that_still_have_weights(fit, store, tmp_path, capsys):
    runs = [fit("method=ce").folder, fit("method=sharprecl").folder]
    cells = [
        {"row": row, "column": "trec_50", "runs": {"0": run}, "problem": None, "command": ""}
        for row, run in (("ce", runs[0].name), ("sharprecl", runs[1].name), ("spcl", "not-there"))
    ]
    folder = tmp_path / "cpu"
    folder.mkdir()
    (folder / "grid.json").write_text(json.dumps({"budget": "cpu", "tables": {"sharprecl_2": cells, "acl_6": []}}))
    (drawn,) = module.draw(folder, tmp_path / "runs", store)
    assert drawn == folder / "figures/embeddings-sharprecl.svg" and drawn.stat().st_size > 1000
    assert "SPCL has no weights" in capsys.readouterr().out
    with gzip.open(drawn.with_suffix(".csv.gz"), "rt") as stream:
        rows = list(csv.DictReader(stream))
    predictions = [row for row in csv.DictReader((runs[0] / "predictions.csv").open()) if row["split"] == "test"]
    assert {row["row"] for row in rows} == {"cross-entropy", "SharpReCL"}
    shown = [row["label"] for row in rows if row["row"] == "SharpReCL"]
    assert sorted(shown) == sorted(row["label"] for row in predictions)


@pytest.mark.slow
def test_panels_of_clusters_show_all_texts(cluster, store, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SHOWN_ROWS", 40)
    stages = ["method.stage1_epochs=1", "method.stage2_epochs=0", "trainer.max_epochs=2"]
    runs = {"sbert": cluster("method=sbert_kmeans"), "aecl": cluster("method=aecl", "augment=dropout", *stages)}
    cells = [
        {"row": row, "column": "stackoverflow", "runs": {"0": run.folder.name}, "problem": None, "command": ""}
        for row, run in runs.items()
    ]
    folder = tmp_path / "cpu"
    folder.mkdir()
    tables = {"sharprecl_2": [], "acl_6": [], "aecl_2": cells}
    (folder / "grid.json").write_text(json.dumps({"budget": "cpu", "tables": tables}))
    (drawn,) = module.draw(folder, tmp_path / "runs", store)
    with gzip.open(drawn.with_suffix(".csv.gz"), "rt") as stream:
        rows = list(csv.DictReader(stream))
    shown = [[row["label"] for row in rows if row["row"] == title] for title in ("SBERT", "AECL")]
    assert all(20 <= len(labels) <= 40 for labels in shown)
    labels = {row["label"] for row in csv.DictReader((runs["aecl"].folder / "predictions.csv").open())}
    assert all(set(actual) == labels for actual in shown)
