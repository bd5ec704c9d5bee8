"""Texts of several labels, from the command line to predictions: training, thresholds, evaluation, export, refusals."""

import csv
import json
import random
import re
import subprocess
import sys

import numpy as np
import pytest

from attack.toy import FILLERS, TOPICS
from reporting.multilabel_metrics import multilabel_metrics
from tests.command_lines import command, outcome, rows

pytestmark = pytest.mark.slow

HEADER = ("text", "label")


def text_of(topics: tuple[str, ...], rng: random.Random) -> str:
    words = [word for topic in topics for word in rng.sample(TOPICS[topic], 3)] + rng.choices(FILLERS, k=3)
    rng.shuffle(words)
    return " ".join(words)


@pytest.fixture
def files(tmp_path):
    """Texts of none, one or two of four topics; the words of a topic tell it. `metal` and `weather` come together."""
    rng = random.Random(0)
    sets = [(), ("fruit",), ("animal",), ("fruit", "animal"), ("metal", "weather"), ("metal", "weather"), ("metal",)]
    inputs = []
    for split, copies in (("train", 12), ("test", 3)):
        table = [(text_of(topics, rng), "|".join(topics)) for topics in sets * copies]
        rng.shuffle(table)
        with (tmp_path / f"{split}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([HEADER, *table])
        inputs.append(f"dataset.{split}={tmp_path / split}.csv")
    return ["dataset=csv", "dataset.label_separator=|", *inputs]


@pytest.fixture
def small(small):
    return [*small, "trainer.max_epochs=8", "sampler.batch_size=16", "callbacks.early_stopping=null"]


def scored(run, split):
    """References and predictions of predictions.csv as label lists."""
    return [
        tuple(json.loads(row[key]) for key in ("label", "prediction", "probability"))
        for row in rows(run / "predictions.csv")
        if row["split"] == split
    ]


def test_a_run_learns_and_its_files_agree(fit, use, tmp_path):
    result = fit("method=knn_mltc", "method.threshold=per_label")
    metrics, names = result.metrics, result.metrics["label_names"]
    assert names == ["animal", "fruit", "metal", "weather"]
    assert metrics["test/micro_f1"] > 0.8 and metrics["test/accuracy"] == metrics["test/subset_accuracy"]
    history = rows(result.folder / "history.csv")
    assert float(history[-1]["train/classification"]) < float(history[0]["train/classification"])
    assert {"train/contrastive", "val/macro_f1", "val/micro_f1", "val/accuracy"} <= set(history[0])

    predictions = scored(result.folder, "test")
    assert [] in [labels for labels, _, _ in predictions]
    true, actual = ([[name in row[k] for name in names] for row in predictions] for k in (0, 1))
    again = multilabel_metrics(true, actual)
    for name in ("micro_f1", "macro_f1", "hamming_loss", "subset_accuracy"):
        assert metrics[f"test/{name}"] == pytest.approx(again[name])
    assert all(len(actual) == len(scores) for _, actual, scores in predictions)
    assert len(metrics["threshold"]) == 4
    per_label = {row["label"]: row for row in rows(result.folder / "labels.csv")}
    assert [float(per_label[name]["threshold"]) for name in names] == pytest.approx(metrics["threshold"], abs=1e-6)
    assert int(per_label["metal"]["rows"]) == 9 and not (result.folder / "confusion.csv").exists()
    assert "micro-F1" in result.out and "nDCG@5" in result.out and "Worst 4 of 4 labels" in result.out

    assert use("evaluate", result).code == 0
    evaluated = json.loads((result.folder / "evaluation.json").read_text())
    assert evaluated == {key: metrics[key] for key in evaluated}
    ends = ["test/micro_f1_low", "test/micro_f1", "test/micro_f1_high"]
    assert sorted(ends, key=metrics.get) == ends and "95 % interval" in result.out
    assert use("evaluate", result, f"input={tmp_path}/test.csv").code == 0
    evaluated = json.loads((result.folder / "evaluation-input.json").read_text())
    assert [evaluated[key] for key in ends] == pytest.approx([metrics[key] for key in ends])

    texts = rows(tmp_path / "test.csv")
    with (tmp_path / "flags.csv").open("w", newline="") as file:  # a column of 0 and 1 each
        flags = [[row["text"], *(int(name in row["label"].split("|")) for name in names)] for row in texts]
        csv.writer(file).writerows([["text", *names], *flags])
    joined = f"label_column={'+'.join(names)}"
    assert use("evaluate", result, f"input={tmp_path}/flags.csv", joined).code == 0
    of_flags = json.loads((result.folder / "evaluation-input.json").read_text())
    assert of_flags == evaluated | {"input": f"{tmp_path}/flags.csv"}
    lacking = use("evaluate", result, f"input={tmp_path}/flags.csv", "label_column=metal+wind").error
    assert lacking.startswith(f"{tmp_path}/flags.csv:1: no column 'wind' (set label_column=NAME), allowed")
    assert use("predict", result, f"input={tmp_path}/test.csv", f"output={tmp_path}/out.csv").code == 0
    for row, inputs, (_, actual, scores) in zip(rows(tmp_path / "out.csv"), texts, predictions, strict=True):
        assert row["text"] == inputs["text"] and json.loads(row["prediction"]) == actual
        assert json.loads(row["probability"]) == pytest.approx(scores, abs=1e-5)
    assert use("predict", result, f"input={tmp_path}/test.csv", f"output={tmp_path}/out.jsonl").code == 0
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["prediction"] for line in lines] == [actual for _, actual, _ in predictions]

    folder = tmp_path / "exported"
    assert use("export", result, f"output={folder}").code == 0
    (snippet,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    snippet = snippet.replace('["a text"]', repr([row["text"] for row in texts]))
    alone = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, text=True, capture_output=True)
    assert alone.stdout.splitlines() == [str(actual) for _, actual, _ in predictions], alone.stderr


def test_gamma_0_is_binary_cross_entropy_and_the_threshold_changes_no_weight(fit):
    plain, contrast = fit("method=bce", "trainer.max_epochs=2"), fit("method=knn_mltc", "trainer.max_epochs=2")
    without = fit("method=knn_mltc", "method.gamma=0", "trainer.max_epochs=2")
    losses = [[row["train/loss"] for row in rows(run.folder / "history.csv")] for run in (plain, without, contrast)]
    assert losses[0] == losses[1] != losses[2]
    assert outcome(plain.folder)[1] == outcome(without.folder)[1]


def test_one_threshold_for_all_is_chosen_on_validation_rows(fit):
    result = fit("method=bce", "method.threshold=global", "trainer.max_epochs=1")
    other = fit("method=bce", f"method.threshold={result.metrics['threshold']}", "trainer.max_epochs=1")
    assert 0 < result.metrics["threshold"] < 1
    assert [row[1] for row in scored(other.folder, "test")] == [row[1] for row in scored(result.folder, "test")]
    half = fit("method=bce", "trainer.max_epochs=1")
    assert result.metrics["val/micro_f1"] >= half.metrics["val/micro_f1"]
    assert half.metrics["threshold"] == 0.5


def test_the_commonest_labels_stand_below_by_the_rule_of_the_run(fit):
    """No label has half the rows; of the thresholds of best micro-F1, one takes `metal`, or all that are as common."""
    half, best = (fit("method=bce", *words, "trainer.max_epochs=1") for words in ([], ["method.threshold=global"]))
    for result in (half, best):
        table = next(line for line in result.out.splitlines() if "commonest labels" in line)
        assert f"{100 * result.metrics['test/majority_micro_f1']:.2f}" in table
    assert half.metrics["test/majority_micro_f1"] == half.metrics["test/majority_macro_f1"] == 0
    true = np.array([[name in row[0] for name in best.metrics["label_names"]] for row in scored(best.folder, "test")])
    order = np.argsort(-np.array(best.metrics["class_counts"]), kind="stable")
    always = [np.isin(np.arange(4), order[:number]) + np.zeros(true.shape) for number in range(1, 5)]
    scores = [multilabel_metrics(true, labels) for labels in always]
    actual = {name: best.metrics[f"test/majority_{name}"] for name in ("micro_f1", "macro_f1")}
    assert actual in [{name: row[name] for name in actual} for row in scores]


def test_under_the_published_protocol_test_chooses_the_threshold_too(fit):
    result = fit("method=bce", "protocol=published", "method.threshold=global", "trainer.max_epochs=1")
    assert result.metrics["protocol"] == "published" and not any(key.startswith("val/") for key in result.metrics)
    true, scores = ([row[k] for row in scored(result.folder, "test")] for k in (0, 2))
    assert len(true) == len(scores) == 21 and 0 < result.metrics["threshold"] < 1


def test_the_same_labels_everywhere_and_a_label_of_test_alone(fit, tmp_path):
    rng, inputs = random.Random(1), []
    for split, topics in (("train", ("fruit", "metal")), ("test", ("fruit", "animal"))):
        lines = [f"{text_of(topics, rng)},{'|'.join(topics)}" for _ in range(24)]
        (tmp_path / f"same_{split}.csv").write_text("\n".join(["text,label", *lines]))
        inputs.append(f"dataset.{split}={tmp_path}/same_{split}.csv")
    result = fit("method=knn_mltc", *inputs, "method.initial_probability=0.5")
    assert result.metrics["label_names"] == ["animal", "fruit", "metal"]
    assert result.metrics["class_counts"][0] == 0 and result.metrics["class_counts"][1] > 0
    assert all(row["train/loss"] != "nan" for row in rows(result.folder / "history.csv"))
    assert result.metrics["val/subset_accuracy"] == 1 and result.metrics["test/subset_accuracy"] == 0


def test_wandb_gets_a_table_of_the_labels_and_the_picture(fit):
    result = fit("method=bce", "trainer.max_epochs=1", "logger=wandb", "logger.mode=offline")
    (file,) = result.folder.glob("wandb/*run-*/files/media/table/per_label_*.json")
    table = json.loads(file.read_text())
    shown = {line[0]: line[table["columns"].index("f1")] for line in table["data"]}
    assert shown == {row["label"]: float(row["f1"]) for row in rows(result.folder / "labels.csv")}
    assert (result.folder / "embeddings.png").exists()


def test_scl_hnm_takes_several_labels(fit):
    result = fit("method=scl_hnm_bce", "trainer.max_epochs=2")
    first = fit("method=scl_hnm_bce", "loss.positives=first_label", "trainer.max_epochs=2")
    assert result.metrics["method"] == "scl_hnm_bce" and 0 <= result.metrics["test/micro_f1"] <= 1
    assert scored(first.folder, "test") != scored(result.folder, "test")


def test_what_takes_one_label_is_refused_in_one_line(fit, toy_csv):
    data = "dataset=csv has any number of labels a text"
    several = "bce, bce_words, knn_mltc, kontrast_labels, scl_hnm_bce, tfidf_labels"
    assert fit("method=ce").error == f"method: found ce, which takes one label a text; {data}; allowed: {several}"
    assert fit("method=bce", "sampler=m_per_class").error == (
        f"sampler: found m_per_class, which takes one label a text; {data}; allowed: length_grouped, shuffle"
    )
    assert "callbacks.geometry: takes one label a text" in fit("method=bce", "callbacks=geometry").error
    assert "imbalance: found Exponential, which thins classes" in fit("method=bce", "imbalance.ir=2").error
    assert "method.threshold: found 1.5" in fit("method=bce", "method.threshold=1.5").error
    single = fit("method=bce", "dataset.label_separator=null", *(f"dataset.{s}={path}" for s, path in toy_csv.items()))
    assert "method: found bce, which takes any number of labels a text" in single.error and "ce, class_" in single.error
    active = fit("method=bce", "active=badge", "protocol=few_shot")
    assert "active: found badge, which takes one class a text; allowed where texts have several: " in active.error


@pytest.mark.parametrize("threshold", ["0.5", "per_label"])
def test_neighbours_vote_for_several_labels(fit, use, tmp_path, threshold):
    words = ["method=knn_mltc", f"method.threshold={threshold}", "retrieval=knn", "trainer.max_epochs=3"]
    result = fit(*words, "retrieval.num_neighbours=[3]", "retrieval.metric=micro_f1")
    metrics, names = result.metrics, result.metrics["label_names"]
    assert metrics["val/retrieval_micro_f1"] >= metrics["val/micro_f1"]  # lam=0 was among what was tried
    predictions = [row for row in rows(result.folder / "predictions_retrieval.csv") if row["split"] == "test"]
    true, actual = ([[name in json.loads(row[key]) for name in names] for row in predictions]
                   for key in ("label", "prediction"))  # fmt: skip
    again = multilabel_metrics(true, actual)
    for name in ("micro_f1", "macro_f1", "hamming_loss", "subset_accuracy"):
        assert metrics[f"test/retrieval_{name}"] == pytest.approx(again[name])
    assert {f"test/{kind}_{name}" for kind in ("retrieval", "neighbours") for name in ("ndcg_at_5", "precision_at_3")
            } <= set(metrics)  # fmt: skip
    assert 0 < metrics["test/neighbours_shared_labels"] <= 1 and "with neighbours" in result.out

    on_file = use("evaluate", result, f"input={tmp_path}/test.csv").folder / "evaluation-input.json"
    assert json.loads(on_file.read_text())["test/micro_f1"] == pytest.approx(metrics["test/retrieval_micro_f1"])

    output = tmp_path / "out.jsonl"
    assert use("predict", result, f"input={tmp_path}/test.csv", f"output={output}", "explain=true").code == 0
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line["prediction"] for line in lines] == [json.loads(row["prediction"]) for row in predictions]
    assert all(len(line["neighbours"]) == 3 for line in lines)

    added = tmp_path / "added.csv"
    added.write_text("text,label\nquartz in a cave,metal|animal\nnothing at all,\n")
    assert "2 of 2 rows are new" in use("datastore", result, f"add={added}").out
    (tmp_path / "one.csv").write_text("text\nquartz in a cave\n")
    assert use("predict", result, f"input={tmp_path}/one.csv", f"output={output}", "explain=true").code == 0
    nearest = json.loads(output.read_text())["neighbours"][0]
    assert (nearest["text"], nearest["labels"]) == ("quartz in a cave", ["animal", "metal"])


def test_the_label_graph_is_that_of_the_train_rows(files, store, small, tmp_path):
    ours = [word for word in small if not word.startswith("encoder.")]
    words = ["method=knn_mltc", "encoder=ldgn", "encoder.dimension=16", "encoder.hidden=8", "optimizer.lr=3e-2"]
    words += ["encoder.dropout=0", "method.initial_probability=0.5", "retrieval=knn"]
    result = command([*files, *store, *ours, *words])
    kept = json.loads((result.folder / "kept_indices.json").read_text())["train"]
    sets = [set(row["label"].split("|")) for row in rows(tmp_path / "train.csv")]
    names = result.metrics["label_names"]
    true = np.array([[name in sets[row] for name in names] for row in kept], float)
    shares = true.T @ true / true.sum(axis=0)[:, None]
    graph = np.load(result.folder / "words" / "label_graph.npy")
    assert graph == pytest.approx(shares) and graph[names.index("weather"), names.index("metal")] == 1
    assert result.metrics["test/micro_f1"] > 0.6 and result.metrics["test/retrieval_micro_f1"] > 0.6
