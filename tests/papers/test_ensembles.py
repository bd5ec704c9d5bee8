"""Several runs that answer together."""

from types import SimpleNamespace

import numpy as np
import pytest

from papers import ensembles
from papers.ensembles import figures_by_size, joint_predictions
from storage.errors import ReportError

LABELS = "aabbc"


def run(name: str, predicted: str, probabilities: list[float], labels: str = LABELS, **metrics) -> SimpleNamespace:
    rows = [
        {"index": str(n), "split": "test", "label": label, "prediction": prediction, "probability": str(p)}
        for n, (label, prediction, p) in enumerate(zip(labels, predicted, probabilities, strict=True))
    ]
    rows.append(rows[0] | {"split": "val"})
    metrics = {"label_names": list("abc")} | metrics
    return SimpleNamespace(id=name, has=lambda _: True, read_csv=lambda _: rows[::-1], read_metrics=lambda: metrics)


def test_the_class_with_the_largest_sum_answers():
    rng = np.random.default_rng(0)
    predictions, probabilities = rng.integers(4, size=(3, 50)), rng.uniform(0.25, 1, (3, 50))
    for row, actual in enumerate(joint_predictions(predictions, probabilities, 4)):
        sums = [0.0] * 4
        for predicted, p in zip(predictions[:, row], probabilities[:, row], strict=True):
            for label in range(4):
                sums[label] += p if label == predicted else (1 - p) / 3
        assert sums[actual] == pytest.approx(max(sums))
    figures = figures_by_size(predictions[0], predictions, probabilities, 4, [2, 3])
    assert [len(values["accuracy"]) for values in figures.values()] == [3, 3, 1]


def test_the_runs_of_a_cell_are_read_in_the_order_of_their_test_rows(monkeypatch, tmp_path, capsys):
    cell = {"row": "ce", "column": "toy", "runs": {"0": "x", "1": "y", "2": "gone"}}
    monkeypatch.setattr(ensembles, "read_grid", lambda _: {"tables": {"table": [cell]}})
    stores = {"x": run("x", "aabbb", [0.9] * 5), "y": run("y", "bbccc", [0.5, 0.95, 0.5, 0.5, 0.95])}
    monkeypatch.setattr(ensembles, "read_stores", lambda _: stores)
    words = [str(tmp_path), "table=table", "column=toy", "row=ce"]
    ensembles.main([*words, "sizes=2"])
    table = capsys.readouterr().out.replace(" ", "")
    assert "|1|2|50.00|" in table and "|2|1|80.00|" in table, "right but in the second row, where y is surer"
    for wrong in (["row=acl"], ["sizes=3"]):
        with pytest.raises(ReportError, match="allowed"):
            ensembles.main([*words, *wrong])
    for other, reason in (
        (run("y", "aabbc", [0.9] * 5, labels="aabba"), "different test rows"),
        (run("y", "aabb", [0.9] * 4, labels="aabb"), "different test rows"),
        (run("y", "aabbd", [0.9] * 5), "y: found 'd' in its test rows"),
        (run("y", "aabbc", [0.9] * 5, label_names=list("abcd")), "y: found label_names"),
        (run("y", "aabbc", [0.9] * 5, **{"test/hamming_loss": 0.1}), "y: found several labels"),
    ):
        stores["y"] = other
        with pytest.raises(ReportError, match=reason):
            ensembles.main([*words, "sizes=2"])


def test_a_class_that_no_test_row_has_shares_the_rest(monkeypatch, tmp_path, capsys):
    """Of two classes the surer run would answer; of the three that the runs know the two others do."""
    cell = {"row": "ce", "column": "toy", "runs": {"0": "x", "1": "y", "2": "z"}}
    monkeypatch.setattr(ensembles, "read_grid", lambda _: {"tables": {"table": [cell]}})
    stores = {"x": run("x", "a", [0.9], "b"), "y": run("y", "b", [0.65], "b"), "z": run("z", "b", [0.65], "b")}
    monkeypatch.setattr(ensembles, "read_stores", lambda _: stores)
    ensembles.main([str(tmp_path), "table=table", "column=toy", "row=ce", "sizes=3"])
    assert "|3|1|100.00|" in capsys.readouterr().out.replace(" ", "")
