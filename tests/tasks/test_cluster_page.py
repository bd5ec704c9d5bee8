"""The page of a clustering, its names and levels, drift of new texts, and a classifier from clusters."""

import csv
import json
import re

import numpy as np
import pytest

from attack.toy import TOPICS
from tests.command_lines import command, rows
from tests.tasks.test_chat import Server

NASTY = "iron </script><script>alert(1)</script> zinc"


@pytest.fixture
def line(toy_csv, store):
    with toy_csv["train"].open("a", newline="") as file:
        csv.writer(file).writerow([NASTY, "metal"])
    data = ["dataset=csv", f"dataset.train={toy_csv['train']}", f"dataset.test={toy_csv['test']}"]
    return ["task=cluster", "method=tfidf_kmeans", "logger=none", *data, *store]


def called(folder):
    """The names in `clusters.csv`."""
    return [row["name"] for row in rows(folder / "clusters.csv")]


def table_header(printed):
    return next(line for line in printed.splitlines() if "central text" in line)


def content(folder):
    page = (folder / "clusters/index.html").read_text(encoding="utf-8")
    return page, json.loads(re.search(r"const page = (.*);\n", page)[1])


@pytest.mark.slow
def test_the_page_shows_every_text_as_text_and_level_and_names_are_asked_for_anew(line, use, tmp_path):
    result = command(line)
    page, shown = content(result.folder)
    assert "<script>alert" not in page and NASTY in [point[5] for point in shown["points"]]
    assert not re.search(r"(src|href)=[\"']?http|@import|url\(", page)
    assert shown["texts"] == sum(number for c in shown["clusters"] for _, number in c["labels"]) == 93
    assert all(cluster["name"] == ", ".join(cluster["words"][:3]) for cluster in shown["clusters"])
    assert len(shown["steps"]) == len(shown["merged"]) == len(shown["clusters"]) - 1 == 3
    assert shown["merged"][-1]["name"] == ", ".join(shown["merged"][-1]["words"][:3])
    assert called(result.folder) == [cluster["name"] for cluster in shown["clusters"]]
    assert "name" not in table_header(result.out)  # the words stand there

    candidates = ",".join(f"'{' '.join(words)}'" for words in TOPICS.values())
    named = command([*line, "cluster.level=2", f"cluster.names=[{candidates}]"])
    assert named.folder == result.folder and "is finished already" in named.out
    _, shown = content(result.folder)
    assert all(set(cluster["name"].split()) & set(cluster["words"]) for cluster in shown["clusters"])
    names = dict(zip([str(cluster["number"]) for cluster in shown["clusters"]], called(result.folder), strict=True))
    assert list(names.values()) == [cluster["name"] for cluster in shown["clusters"]]
    assert "name" in table_header(named.out) and all(name in named.out for name in names.values())
    groups, clusters = rows(result.folder / "clusters/level_2.csv"), rows(result.folder / "predictions.csv")
    assert {row["cluster"] for row in groups} == {"0", "1"}
    assert {row["name"] for row in groups} <= {" ".join(words) for words in TOPICS.values()}
    assert len({(row["cluster"], row["name"]) for row in groups}) == 2
    assert [row["text"] for row in groups] == [row["text"] for row in clusters]
    pairs = {(row["cluster"], group["cluster"]) for row, group in zip(clusters, groups, strict=True)}
    assert len(pairs) == 4  # each cluster is in one group
    error = command([*line, "cluster.level=5"]).error
    assert error == "cluster.level: found 5, allowed: 1 to 4, the clusters that hold texts"

    texts = [row["text"] for row in clusters if row["cluster"] == clusters[0]["cluster"]]
    (tmp_path / "new.csv").write_text("text\n" + "\n".join([*texts, "qqq"]) + "\n")
    drift = use("drift", result, f"input={tmp_path / 'new.csv'}", f"output={tmp_path / 'drift.csv'}")
    assert drift.code == 0, drift.err
    same = use("drift", result, f"input={tmp_path / 'new.csv'}", f"output={tmp_path / 'new.csv'}")
    assert same.error == f"output: found '{tmp_path}/new.csv', the input itself, allowed: another file"
    (tmp_path / "blank.csv").write_text("id,text\n1,qqq\n2,\n")
    blank = use("drift", result, f"input={tmp_path / 'blank.csv'}")
    assert blank.code == 0 and f"{tmp_path / 'blank.csv'}:3: 1 rows without a text are left out" in blank.err
    predicted = use("predict", result, f"input={tmp_path / 'new.csv'}", f"output={tmp_path / 'named.csv'}")
    assert predicted.code == 0, predicted.err
    assert all(row["name"] == names[row["cluster"]] for row in rows(tmp_path / "named.csv"))
    assert float(re.search(r"shares of the clusters: p = (\S+)", drift.out)[1]) < 0.001
    (first, *others) = rows(tmp_path / "drift.csv")
    assert (first["cluster"], int(first["texts_after"])) == (clusters[0]["cluster"], len(texts))
    assert sum(int(row["texts_after"]) for row in (first, *others)) == len(texts) + 1


@pytest.mark.slow
def test_a_chat_model_names_the_clusters_and_the_run_stays_the_same(line, monkeypatch):
    server = Server()
    server.answer = lambda question: f'"{question.split()[0].title()}."'
    options = ["chat=gpt35", f"chat.base_url={server.url}", "chat.api_key_variable=null"]
    try:
        result = command([*line, *options])
        _, shown = content(result.folder)
        assert [c["name"] for c in shown["clusters"]] == [c["words"][0].title() for c in shown["clusters"]]
        assert called(result.folder) == [c["name"] for c in shown["clusters"]]
        assert shown["merged"][-1]["name"] == ", ".join(shown["merged"][-1]["words"][:3])
        assert command(line).folder == result.folder  # named by their words again
        assert called(result.folder) == [", ".join(c["words"][:3]) for c in shown["clusters"]]
        assert "allowed: one of the two" in command([*line, *options, "cluster.names=[a]"]).error
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_outliers_are_a_cluster_of_their_own_and_clusters_train_a_classifier(line, tiny_encoder_dir, use, tmp_path):
    encoder = [f"encoder.path={tiny_encoder_dir}", "encoder.sha256=null", "dataset.max_length=32"]
    options = ["method=hdbscan", "method.min_cluster_size=4", "method.num_components=5", "method.num_neighbours=6"]
    result = command([*line, *options, *encoder])
    metrics, assigned = result.metrics, rows(result.folder / "predictions.csv")
    outliers = [row for row in assigned if row["cluster"] == str(metrics["cluster/num_clusters"] - 1)]
    assert metrics["cluster/outliers"] == pytest.approx(len(outliers) / 93) and outliers
    assert called(result.folder).count("outliers") == 1
    assert {"cluster/acc", "cluster/acc_assigned"} <= metrics.keys()
    (tmp_path / "new.csv").write_text("text\n" + "\n".join(row["text"] for row in assigned[:20]) + "\n")
    again = use("predict", result, f"input={tmp_path / 'new.csv'}", f"output={tmp_path / 'out.csv'}")
    assert again.code == 0, again.err
    assert {row["cluster"] for row in rows(tmp_path / "out.csv")} <= {row["cluster"] for row in assigned}

    with (tmp_path / "same.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["text"], *([row["text"]] for row in assigned)])
    drift = use("drift", result, f"input={tmp_path / 'same.csv'}")
    assert re.findall(r"p = (\S+)", drift.out.replace(",", "")) == ["1", "1", "1"], drift.out
    space = dict(np.load(result.folder / "clusters/space.npz"))
    del space["new_clusters"], space["new_distances"]
    np.savez(result.folder / "clusters/space.npz", **space)
    earlier = use("drift", result, f"input={tmp_path / 'same.csv'}").error
    assert earlier.endswith("an earlier version did it; allowed: force=true repeats it"), earlier

    training = [f"dataset.train={result.folder}/predictions.csv", "dataset.label_column=cluster"]
    data = [word for word in line if not word.startswith(("task", "method", "dataset."))]
    trained = command(["method=tfidf_linear", *data, *training, "dataset.singleton_classes=keep_in_train"])
    assert trained.code == 0, trained.err
    assert set(trained.metrics["label_names"]) == {row["cluster"] for row in assigned}
