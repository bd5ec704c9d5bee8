"""task=cluster: k-means on three kinds of vectors, a method that is trained, and what is refused."""

import csv
import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from clustering.number import NEARLY_BEST
from clustering.scores import clustering_scores
from engine.allowed_targets import MODULES
from engine.identify import compose_config
from tasks.cluster import cluster
from tests.command_lines import command
from tests.tasks.prototype_clustering import PrototypeClustering


@pytest.fixture
def texts(toy_csv: dict[str, Path]) -> list[str]:
    return ["dataset=csv", f"dataset.train={toy_csv['train']}", f"dataset.test={toy_csv['test']}", "logger=none"]


def rows_of(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_word_vectors_from_scores_to_new_texts(texts, store, use, tmp_path):
    result = command(["task=cluster", "method=tfidf_kmeans", *texts, *store])
    rows, metrics = rows_of(result.folder, "predictions.csv"), result.metrics
    assert len(rows) == metrics["cluster/texts"] == 68 + 24  # train and test together
    scores = clustering_scores([ord(row["label"][0]) for row in rows], [int(row["cluster"]) for row in rows])
    assert {f"cluster/{name}": value for name, value in scores.items()}.items() <= metrics.items()
    assert (metrics["status"], metrics["protocol"], metrics["cluster/num_clusters"]) == ("finished", "transductive", 4)
    assert metrics["cluster/acc"] > 0.5  # far more than the largest class
    assert "precision" not in json.loads((result.folder / "environment.json").read_text())  # nothing trained
    described = rows_of(result.folder, "clusters.csv")
    assert [int(row["texts"]) for row in described] == sorted((int(row["texts"]) for row in described), reverse=True)
    assert sum(int(row["texts"]) for row in described) == 92
    assert "ACC" in result.out and described[0]["words"].split()[0] in result.out

    again = command(["task=cluster", "method=tfidf_kmeans", *texts, *store])
    assert again.folder == result.folder and "is finished already" in again.out
    with (tmp_path / "new.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["text"], *([read] for read in texts_in(texts))])
    assigned = use("predict", result, f"input={tmp_path / 'new.csv'}", f"output={tmp_path / 'out.csv'}")
    assert assigned.code == 0, assigned.err
    actual = rows_of(tmp_path, "out.csv")
    assert [row["cluster"] for row in actual] == [row["cluster"] for row in rows]
    assert [float(row["distance"]) for row in actual] == pytest.approx([float(row["distance"]) for row in rows])
    assert "a clustering; allowed with task=evaluate" in use("evaluate", result).error


@pytest.mark.slow
def test_texts_without_a_known_word_are_near_to_nothing(store, use, tmp_path):
    texts = ["red apple", "green apple", "iron bolt", "steel bolt", "zzz", "qqq"]
    (tmp_path / "texts.csv").write_text("text\n" + "\n".join(texts) + "\n")
    line = ["task=cluster", "method=bow_kmeans", "method.max_words=2", "method.num_clusters=2", "logger=none"]
    line += ["dataset.label_names=[fruit,metal]"]  # classes that no text is known to have
    result = command([*line, "dataset=csv", f"dataset.train={tmp_path}/texts.csv", *store])
    rows = rows_of(result.folder, "predictions.csv")
    assert [row["text"] for row in rows] == texts and {row["label"] for row in rows} == {""}
    assert "cluster/acc" not in result.metrics and result.metrics["cluster/classes"] is None
    assert [row["distance"] == "" for row in rows] == [False] * 4 + [True] * 2
    assert not {row["central"] for row in rows_of(result.folder, "clusters.csv")} & {"zzz", "qqq"}
    actual = use("predict", result, "input=-", "output=-", stdin='{"text": "apple"}\n{"text": "zzz"}\n')  # JSON Lines
    assert actual.code == 0, actual.err
    assert [row["distance"] == "" for row in csv.DictReader(actual.out.splitlines())] == [False, True]
    error = use("predict", result, "input=-", "output=-", stdin="text,cluster\napple,MINE\n").error
    assert error == "stdin:1: column 'cluster' would be overwritten; allowed: another name for it"
    assert "explain: found true, allowed with" in use("predict", result, "input=-", "output=-", "explain=true").error
    (result.folder / "model.npz").write_bytes((result.folder / "model.npz").read_bytes()[:300])
    assert "model.npz: cannot be read" in use("predict", result, "input=-", "output=-", stdin="text\napple\n").error


@pytest.mark.slow
def test_markup_that_was_taken_out_is_taken_out_of_new_texts(store, use, tmp_path):
    texts = [f"<span>{text}</span>" for text in ("red apple", "green apple", "iron bolt", "steel bolt")]
    (tmp_path / "texts.csv").write_text("text\n" + "\n".join(texts) + "\n")
    line = ["task=cluster", "method=bow_kmeans", "method.num_clusters=2", "dataset.markup=strip", "logger=none"]
    result = command([*line, "dataset=csv", f"dataset.train={tmp_path}/texts.csv", *store])
    rows = rows_of(result.folder, "predictions.csv")
    new = "\n".join(["text", *(text.replace("span", "apple") for text in texts)])  # tags that would be words
    actual = use("predict", result, "input=-", "output=-", stdin=f"{new}\n")
    assert [float(row["distance"]) for row in csv.DictReader(actual.out.splitlines())] == pytest.approx(
        [float(row["distance"]) for row in rows]
    )


def texts_in(overrides: list[str]) -> list[str]:
    files = [Path(override.partition("=")[2]) for override in overrides if override.startswith("dataset.t")]
    return [row["text"] for file in files for row in rows_of(file.parent, file.name)]


@pytest.mark.slow
def test_embeddings_without_labels_and_an_estimated_number(texts, store, tiny_encoder_dir, tmp_path, use):
    file = tmp_path / "texts.csv"
    with file.open("w", newline="") as handle:
        csv.writer(handle).writerows([["text"], *([text] for text in texts_in(texts))])
    line = ["task=cluster", "method=sbert_kmeans", "dataset=csv", f"dataset.train={file}", "dataset.max_length=32"]
    line += ["logger=none", f"encoder.path={tiny_encoder_dir}", "encoder.sha256=null", *store]
    result = command([*line, "method.num_clusters=auto"])
    metrics = result.metrics
    assert "cluster/acc" not in metrics and metrics["cluster/classes"] is None
    assert 2 <= metrics["cluster/num_clusters"] <= 28
    assert "the data set has no labels" in result.err and "ACC" not in result.out
    rows = rows_of(result.folder, "predictions.csv")
    assert {row["label"] for row in rows} == {""} and len(rows) == 92
    page = (result.folder / "clusters/index.html").read_text(encoding="utf-8")
    assert f"before the merit falls below {100 * NEARLY_BEST:.0f} % of it" in page
    assigned = use("predict", result, f"input={file}", f"output={tmp_path / 'out.jsonl'}")
    assert assigned.code == 0, assigned.err
    actual = [json.loads(row) for row in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["cluster"] for row in actual] == [int(row["cluster"]) for row in rows]
    assert "method.num_clusters: found null, and the data set has no labels; allowed" in command(line).err


DENSE = ["method.min_cluster_size=4", "method.num_components=5", "method.num_neighbours=6"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "figures", "refused", "error"),
    [
        (
            ["method=sbert_words"],
            {"agreement/kmeans", "agreement/ward", "agreement/ward_average_of_both"},
            "method.num_clusters=47",
            "method.num_clusters: found 47 of 92 texts, allowed: 2 to 46",
        ),
        (
            ["method=dense_words", *DENSE],
            set(),
            "method.min_cluster_size=90",
            "method.min_cluster_size: found 90, and no region is dense enough for a cluster; "
            "allowed: a smaller number, 2 at least",
        ),
        (
            ["method=dense_words", *DENSE, "method.sample_rows=60"],
            set(),
            "method.min_cluster_size=61",
            "method.min_cluster_size: found 61 with 60 texts, allowed: at most 60, or a larger method.sample_rows",
        ),
    ],
    ids=["sbert_words", "dense_words", "dense_words_of_a_sample"],
)
def test_embeddings_and_words_from_scores_to_new_texts(
    texts, store, tiny_encoder_dir, tmp_path, use, options, figures, refused, error
):
    line = ["task=cluster", *options, "dataset.max_length=32", *texts, *store]
    line += [f"encoder.path={tiny_encoder_dir}", "encoder.sha256=null"]
    result = command(line)
    rows, metrics = rows_of(result.folder, "predictions.csv"), result.metrics
    shown = {key for key in metrics if key.startswith(("agreement/kmeans", "agreement/ward", "cluster/outliers"))}
    assert figures <= shown and bool(figures) == bool(shown) and len({row["cluster"] for row in rows}) > 1
    (tmp_path / "new.csv").write_text("text\n" + "\n".join(row["text"] for row in rows) + "\n")
    assigned = use("predict", result, f"input={tmp_path / 'new.csv'}", f"output={tmp_path / 'out.csv'}")
    assert assigned.code == 0, assigned.err
    actual = rows_of(tmp_path, "out.csv")
    assert [row["cluster"] for row in actual] == [row["cluster"] for row in rows]
    assert [float(row["distance"]) for row in actual] == pytest.approx([float(row["distance"]) for row in rows])
    assert command([*line, refused]).error == error


def test_more_clusters_than_texts_is_one_line(texts, store):
    line = [*texts, *store, "task=cluster", "method=bow_kmeans", "method.num_clusters=200"]
    assert command(line).error.startswith("method.num_clusters: found 200, allowed: 2 to 92")


def test_labels_that_some_texts_lack_or_have_several_of_are_one_line(store, tmp_path):
    (tmp_path / "texts.csv").write_text("text,label\nred apple,a|b\ngreen apple,a\niron bolt,b\n")
    data = ["dataset=csv", f"dataset.train={tmp_path / 'texts.csv'}", "dataset.label_separator='|'", "logger=none"]
    line = [*data, *store, "task=cluster", "method=tfidf_kmeans"]
    assert command(line).error.startswith("task=cluster: takes one label a text; found a data set with any number")
    (tmp_path / "texts.csv").write_text("text,label\nred apple,a\ngreen apple,\n")
    error = command([word for word in line if "separator" not in word]).error
    assert error.endswith("texts.csv:3: found no label, allowed: a label in every row or in none")


@pytest.fixture
def learned(texts, store, tiny_encoder_dir, monkeypatch):
    """A clustering that is trained; `learned(name)` does it in a run store of that name."""

    monkeypatch.setitem(MODULES, "method", ("tests.tasks.prototype_clustering", *MODULES["method"]))

    def run(name: str, *words: str, **method) -> Path:
        overrides = ["method=sbert_kmeans", *texts, *store, "dataset.max_length=32", "trainer.precision=32"]
        overrides += ["task=cluster", "optimizer=adamw", "scheduler=constant", "augment=none", "callbacks=clustering"]
        overrides += ["~callbacks.progress", f"encoder.path={tiny_encoder_dir}", "encoder.sha256=null"]
        overrides += ["logger=csv", "encoder.train=full", "trainer.max_epochs=3", "sampler.batch_size=16", *words]
        config = compose_config(overrides)
        OmegaConf.set_struct(config, False)
        config.paths.runs = f"{config.paths.runs}/{name}"
        config.callbacks.last.every_seconds = 0
        target = "tests.tasks.prototype_clustering.PrototypeClustering"
        options = {"num_views": 2, "head_lr": 0.01, "num_clusters": None} | method
        config.method = {"_target_": target, "name": "prototypes", **options}
        return cluster(config, [])

    return run


@pytest.mark.slow
def test_a_trained_method_resumes_to_the_same_figures(learned, use, tmp_path):
    whole = learned("whole")
    PrototypeClustering.stop_at = 2
    with pytest.raises(KeyboardInterrupt):
        learned("cut")
    stopped = json.loads((tmp_path / "runs/cut" / whole.name / "metrics.json").read_text())
    assert stopped["status"] == "interrupted" and stopped["seconds/total"] > 0
    cut = learned("cut")
    metrics = [json.loads((folder / "metrics.json").read_text()) for folder in (whole, cut)]
    kept = [{k: v for k, v in m.items() if k.split("/")[0] in ("cluster", "oracle", "orders")} for m in metrics]
    assert kept[0] == kept[1]
    assert metrics[1]["seconds/total"] > metrics[1]["seconds/fit"] + stopped["seconds/total"] > 0
    assert (whole / "predictions.csv").read_text() == (cut / "predictions.csv").read_text()
    assert (whole / "history.csv").read_text() == (cut / "history.csv").read_text()
    assert [file.name for file in (cut / "checkpoints").iterdir()] == ["final.ckpt"]

    curve = [float(row["cluster/acc"]) for row in rows_of(whole, "history.csv")]
    assert kept[0]["oracle/acc"] == pytest.approx(max(curve)) and len(curve) == 3
    assert kept[0]["cluster/acc"] == pytest.approx(curve[-1])  # the last epoch is reported, whatever was best
    assert kept[0]["cluster/ns"] + kept[0]["cluster/ps"] == pytest.approx(1) and 0 < kept[0]["cluster/ns"] < 1
    assert 0 < kept[0]["cluster/self_attention"] < kept[0]["cluster/ps"]  # a text has its own label
    assert kept[0]["orders/acc_min"] <= kept[0]["cluster/acc"] <= kept[0]["orders/acc_max"]
    assert 0 <= kept[0]["orders/changed"] < 0.5

    rows = rows_of(whole, "predictions.csv")
    (tmp_path / "new.jsonl").write_text('{"text": "red apple"}\n{"text": "iron and zinc"}\n{"text": "snow"}\n')
    line = [f"input={tmp_path / 'new.jsonl'}", "output=-", f"paths.runs={whole.parent}"]
    result = use("predict", whole.name, *line)
    assert result.code == 0, result.err
    actual = list(csv.DictReader(result.out.splitlines()))
    assert {row["cluster"] for row in actual} <= {row["cluster"] for row in rows}
    assert all(0.25 <= float(row["probability"]) <= 1 for row in actual)


@pytest.mark.slow
def test_labels_do_not_reach_training(learned, tmp_path, toy_csv):
    first = rows_of(learned("labelled"), "predictions.csv")
    for file in toy_csv.values():
        lines = list(csv.reader(file.open(newline="")))
        with file.open("w", newline="") as handle:
            csv.writer(handle).writerows([text] for text, _ in lines)
    names = ",".join(sorted({row["label"] for row in first}))
    second = learned("bare", f"dataset.label_names=[{names}]")
    rows, metrics = rows_of(second, "predictions.csv"), json.loads((second / "metrics.json").read_text())
    assert {row["label"] for row in rows} == {""}
    assert [row["cluster"] for row in first] == [row["cluster"] for row in rows]
    assert not {"cluster/acc", "cluster/ns", "orders/acc_min", "oracle/acc"} & metrics.keys()
