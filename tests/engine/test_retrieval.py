"""retrieval=knn from the command line: figures with and without neighbours, refused where it belongs elsewhere."""

import csv
import json

import pytest

from engine.identify import compose_run
from storage.run_store import RunFolder
from tests.command_lines import rows

pytestmark = pytest.mark.slow

TEXT = "thunder over a new lemon"


@pytest.fixture
def run(fit):
    result = fit("method=ce", "retrieval=knn", "retrieval.num_neighbours=[1,5]")
    assert result.code == 0, result.err
    return result


def test_figures_with_and_without(run, fit):
    metrics = run.metrics
    plain = fit("method=ce").metrics
    assert {key: metrics[key] for key in plain if key.startswith(("test/", "val/"))} == {
        key: value for key, value in plain.items() if key.startswith(("test/", "val/"))
    }
    alone = ("_low", "_high", "majority_accuracy", "majority_macro_f1", "ece", "brier", "_scaled", "temperature")
    # those are of the model's figures alone
    names = [key.removeprefix("test/") for key in plain if key.startswith("test/") and not key.endswith(alone)]
    assert {f"{split}/{kind}_{name}" for split in ("val", "test") for kind in ("retrieval", "neighbours") for name in
            names} <= set(metrics)  # fmt: skip
    assert metrics["val/retrieval_macro_f1"] >= metrics["val/macro_f1"]  # lam=0 was among what was tried
    assert metrics["retrieval/num_neighbours"] in (1, 5) and 0 <= metrics["retrieval/lam"] <= 1
    assert metrics["seconds/retrieval_per_text"] > metrics["seconds/model_per_text"] > 0
    assert metrics["retrieval/recall_at_10"] == 1 and metrics["retrieval/rows"] == sum(metrics["class_counts"])
    shared = [metrics[f"{split}/neighbours_shared_labels"] for split in ("train", "val", "test")]
    assert all(0 < share <= 1 for share in shared)
    assert "with neighbours" in run.out
    stored = rows(run.folder / "predictions_retrieval.csv")
    hits = [row["label"] == row["prediction"] for row in stored if row["split"] == "test"]
    assert sum(hits) / len(hits) == pytest.approx(metrics["test/retrieval_accuracy"])


def explained(run, use, tmp_path, text):
    source, output = tmp_path / "new.jsonl", tmp_path / "explained.jsonl"
    source.write_text(json.dumps({"text": text}) + "\n")
    assert use("predict", run, f"input={source}", f"output={output}", "explain=true").code == 0
    return json.loads(output.read_text())


def added(run, use, tmp_path, table):
    source = tmp_path / "added.csv"
    with source.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("title", "topic"), *table])
    return use("datastore", run, f"add={source}", "text_column=title", "label_column=topic")


def test_new_texts_vote_at_once(run, use, tmp_path, toy_csv):
    train = {row["text"]: row["label"] for row in rows(toy_csv["train"])}
    before = explained(run, use, tmp_path, TEXT)
    voters = before["neighbours"]
    assert len(voters) == run.metrics["retrieval/num_neighbours"]
    assert all([train[voter["text"]]] == voter["labels"] for voter in voters)
    assert [voter["distance"] for voter in voters] == sorted(voter["distance"] for voter in voters)
    assert sum(voter["weight"] for voter in voters) == pytest.approx(1, abs=1e-4)

    once = added(run, use, tmp_path, [(TEXT, "metal"), ("hail and storm", "weather")])
    assert "2 of 2 rows are new" in once.out and once.folder == run.folder / "datastore"
    assert "0 of 2 rows are new" in added(run, use, tmp_path, [(TEXT, "metal"), ("hail and storm", "weather")]).out
    nearest = explained(run, use, tmp_path, TEXT)["neighbours"][0]
    assert (nearest["text"], nearest["labels"]) == (TEXT, ["metal"])
    assert nearest["distance"] < 1e-2 < voters[0]["distance"]
    RunFolder(run.folder).write_metrics({"retrieval/lam": 0.125, "retrieval/temperature": 0.5})  # what answers
    use("evaluate", run)  # counts what was added
    figures, metrics = json.loads((run.folder / "evaluation.json").read_text()), run.metrics
    assert figures["retrieval/rows"] == metrics["retrieval/rows"] + 2
    vote = ("retrieval/num_neighbours", "retrieval/temperature", "retrieval/lam")
    assert [figures[name] for name in vote] == [metrics[name] for name in vote]


def test_predictions_of_the_test_file_are_those_of_the_run(run, use, toy_csv, tmp_path):
    output = tmp_path / "pred.csv"
    assert use("predict", run, f"input={toy_csv['test']}", f"output={output}", "explain=true").code == 0
    stored = [row for row in rows(run.folder / "predictions_retrieval.csv") if row["split"] == "test"]
    predicted = rows(output)
    assert [row["prediction"] for row in predicted] == [row["prediction"] for row in stored]
    for row, expected in zip(predicted, stored, strict=True):
        assert float(row["probability"]) == pytest.approx(float(expected["probability"]), abs=1e-4)
        assert {"text", "labels", "distance", "weight"} == set(json.loads(row["neighbours"])[0])


def test_what_does_not_fit_is_refused(run, use, fit, tmp_path, store):
    error = added(run, use, tmp_path, [(TEXT, "metal"), (TEXT, "wood")]).error
    assert "added.csv:3: label 'wood' is not one of the model's; allowed: animal, fruit, metal, weather" in error
    assert "no column 'label'; found 'title', 'topic'" in use(
        "datastore", run, f"add={tmp_path}/added.csv", "text_column=title").error  # fmt: skip
    assert "add: found 'none.csv', no such file" in use("datastore", run, "add=none.csv").error
    assert f"{run.metrics['retrieval/rows']} rows of 32 dimensions, 4 labels" in use("datastore", run).out

    other = fit("method=ce", "retrieval=knn", "seed=1", "trainer.max_epochs=1")
    (run.folder / "datastore").rename(tmp_path / "mine")
    (other.folder / "datastore").rename(run.folder / "datastore")
    assert "found a datastore of model" in use("predict", run, "input=-", "output=-", stdin="text\na\n").error
    plain = fit("method=ce", "trainer.max_epochs=1")
    needed = "it has no datastore; needed: a run with retrieval=knn"
    assert needed in use("predict", plain, "input=-", "output=-", "explain=true", stdin="text\na\n").error
    assert needed in use("datastore", plain, "add=none.csv").error


def test_bad_options_are_named_before_anything_is_built(fit):
    error = fit("method=ce", "retrieval=knn", "retrieval.lam=[2]").error
    assert error == "retrieval.lam: found [2]; allowed: a list of numbers from 0 to 1"
    assert "retrieval.index: found 'tree'" in fit("method=ce", "retrieval=knn", "retrieval.index=tree").error


def test_a_run_without_retrieval_keeps_its_name():
    words = ("method=ce", "dataset=ohsumed")
    plain = compose_run(words).id(0)
    assert compose_run((*words, "retrieval=none")).id(0) == plain
    assert compose_run((*words, "retrieval=knn")).id(0) != plain
    assert compose_run((*words, "explain=true", "add=x.csv")).id(0) == plain


def test_a_train_row_alone_has_no_neighbours_to_compare(solve):
    vote = ["retrieval.num_neighbours=[3]", "retrieval.temperature=[1]", "retrieval.lam=[0.3]"]
    result = solve("method=prototypes", "dataset.labels=1", "retrieval=knn", *vote)
    assert result.code == 0, result.err
    assert "train/neighbours_shared_labels" not in result.metrics and result.metrics["retrieval/rows"] == 1
