"""Names, few labels and texts without any, through whole runs."""

import json
from collections import Counter

import pytest

from tests.command_lines import rows


def test_labels_are_thinned_and_the_rest_is_text_without_label(solve, use, toy_csv, tmp_path):
    kept = {}
    for number in (4, 12):
        result = solve("method=prototypes", f"dataset.labels={number}")
        indices = json.loads((result.folder / "kept_indices.json").read_text())
        kept[number] = set(indices["train"])
        assert len(indices["train"]) == number and "val" not in indices
        assert sorted(indices["train"] + indices["unlabelled"]) == list(range(68))
        assert result.metrics["solver/steps"] > 0
        assert sum(result.metrics["class_counts"]) == number
    assert kept[4] < kept[12]
    assert use("predict", result, f"input={toy_csv['test']}", f"output={tmp_path}/p.csv").code == 0
    stored = [row["prediction"] for row in rows(result.folder / "predictions.csv") if row["split"] == "test"]
    assert [row["prediction"] for row in rows(tmp_path / "p.csv")] == stored
    assert use("evaluate", result).code == 0


def test_names_alone(solve, tmp_path):
    descriptions = tmp_path / "names.yaml"
    descriptions.write_text("fruit: apple, pear\nmetal: iron, gold\nanimal: horse, crow\nweather: rain, frost\n")
    line = ["method=nearest_name", "dataset.labels=0"]
    named = solve(*line, f"dataset.class_descriptions={descriptions}")
    assert named.metrics["class_counts"] == [0, 0, 0, 0]
    bare = solve(*line)
    assert named.folder != bare.folder
    predictions = [Counter(row["prediction"] for row in rows(run.folder / "predictions.csv")) for run in (named, bare)]
    assert predictions[0] != predictions[1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["dataset.labels=99"], "dataset.labels: found 99, allowed: 0 to 68"),
        (["dataset.labels=-1"], "dataset.labels: found -1; allowed: "),
        (["protocol=clean"], "protocol: found clean; allowed with method=prototypes: fixed"),
        (["encoder.train=full"], "encoder.train: found full; allowed with method=prototypes: frozen"),
        (["loss=cross_entropy"], "loss: "),
        (["method=ce", "dataset.labels=0", "protocol=clean"], "protocol: found clean without a labelled row"),
    ],
)
def test_bad_input(solve, line, message):
    assert solve("method=prototypes", *line).error.startswith(message)


def test_a_trained_method_sees_the_thinned_labels_alone(fit):
    """Validation rows come out of the budget too."""
    result = fit("method=ce", "dataset.labels_per_class=4", "trainer.max_epochs=1")
    indices = json.loads((result.folder / "kept_indices.json").read_text())
    assert len(indices["train"]) + len(indices["val"]) == 16 and len(indices["unlabelled"]) == 52
