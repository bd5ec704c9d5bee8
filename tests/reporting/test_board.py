"""The page of a run store: what it says of runs, that nothing of them is HTML there, and its figures in a browser."""

import json
import re
import subprocess

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score, f1_score
from sklearn.metrics.cluster import contingency_matrix

from reporting.board.build import summary, write_board
from storage.errors import ReportError
from storage.run_store import RunFolder
from tests.browser import CHROMIUM, in_a_browser
from tests.command_lines import command, rows

HOSTILE = "</script><script>document.title='taken over'</script>"
NAMES = ["sport", "world", HOSTILE]


def write_run(store, name, predicted, truth, **more):
    """A finished run with these predictions on test rows."""
    run = RunFolder(store / name)
    run.path.mkdir(parents=True)
    run.write_text("config.yaml", f"seed: 0\nmethod: {{name: {name}}}\n")
    run.write_csv("history.csv", [(0, 5, 0.7), (1, 10, 0.5)], ("epoch", "step", "train/loss"))
    rows = [("test", index, NAMES[a], NAMES[b], 0.5) for index, (a, b) in enumerate(zip(truth, predicted, strict=True))]
    run.write_csv("predictions.csv", rows, ("split", "index", "label", "prediction", "probability"))
    run.write_json("environment.json", {"corpus_fingerprint": "abc", "command": f"python run.py method={name}"})
    figures = {"test/accuracy": float(np.mean(np.equal(truth, predicted))), "label_names": NAMES, **more}
    run.write_metrics(status="finished", method=name, dataset="csv", seed=0, **figures)
    run.write_json("kept_indices.json", {"test": [3 * index for index in range(len(truth))]})
    return run


def write_clustering(store, name, assigned, names):
    """A finished clustering of as many texts."""
    run = RunFolder(store / name)
    run.path.mkdir(parents=True)
    run.write_text("config.yaml", f"seed: 0\nmethod: {{name: {name}}}\n")
    lines = [(index, NAMES[index % 3], cluster, f"text {index} {HOSTILE}") for index, cluster in enumerate(assigned)]
    run.write_csv("predictions.csv", lines, ("index", "label", "cluster", "text"))
    run.write_csv("clusters.csv", list(enumerate(names)), ("cluster", "name"))
    run.write_json("environment.json", {"corpus_fingerprint": "abc"})
    figures = {"num_clusters": len(names), "largest": int(np.bincount(assigned).max()), "texts": len(assigned)}
    scores = {f"cluster/{key}": value for key, value in ({"acc": 0.5, "nmi": 0.25} | figures).items()}
    run.write_metrics(status="finished", method=name, dataset="csv", seed=0, **scores)


@pytest.fixture
def two_runs(tmp_path):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 200).tolist()
    said = [[t if rng.random() < share else int(rng.integers(0, 3)) for t in truth] for share in (0.7, 0.5)]
    for name, predicted in zip(("ce", "scl"), said, strict=True):
        write_run(tmp_path, name, predicted, truth)
    return tmp_path, truth, said


def details(store, name):
    text = (store / "board" / "runs" / f"{name}.js").read_text()
    return json.loads(text.removeprefix("board.add(").removesuffix(");\n"))


def runs_of(page):
    return json.loads(re.search(r"const runs = (.*);\n", page.read_text())[1])


def test_the_page_has_each_run_and_no_text_of_it_as_html(two_runs, capsys):
    store, truth, said = two_runs
    (store / "damaged").mkdir()
    (store / "damaged" / "metrics.json").write_text("[]")
    write_run(store, "odd", truth, truth).write_json("kept_indices.json", [])
    page = write_board(store, store / "data")
    warnings = capsys.readouterr().err
    assert "damaged" in warnings and "run odd is damaged" in warnings
    for file in (page, *page.parent.glob("runs/*.js")):
        assert HOSTILE not in file.read_text()
    assert '"id":"ce"' in page.read_text() and '"id":"scl"' in page.read_text()
    run = details(store, "ce")
    assert run["rows"][:3] == [0, 3, 6]  # of the data set, not of the split
    assert run["labels"] == NAMES and run["truth"] == truth and run["predicted"] == said[0] and run["texts"] is None
    assert run["command"] == "python run.py method=ce" and run["history"][1] == {"epoch": 1, "train/loss": 0.5}


def test_files_of_runs_that_did_not_change_stay(two_runs):
    store, *_ = two_runs
    file = write_board(store, store / "data").parent / "runs" / "ce.js"
    before = file.stat().st_mtime_ns
    write_board(store, store / "data")
    assert file.stat().st_mtime_ns == before


def test_a_store_that_is_none_or_empty_is_one_line(tmp_path):
    for store, found in ((tmp_path / "none", "no such folder"), (tmp_path, "no runs")):
        with pytest.raises(ReportError, match=found):
            write_board(store, tmp_path)
    refused = command(["task=board", f"paths.runs={tmp_path}", "seed=1"])
    assert refused.error.startswith("seed: task=board shows all runs")


@pytest.mark.slow
def test_a_run_says_the_line_that_does_it_again_and_its_texts(fit, store, tmp_path):
    result = fit("method=ce", "trainer.max_epochs=1", "seed=3")
    done = command(["task=board", f"paths.runs={tmp_path / 'runs'}", f"paths.data={tmp_path / 'data'}"])
    run = details(tmp_path / "runs", result.folder.name)
    assert run["command"].startswith("python run.py ") and run["command"].endswith("trainer.max_epochs=1 seed=3")
    assert "paths." not in run["command"]
    (texts,) = (done.folder / "texts").glob("*.js")
    assert run["texts"] == f"texts/{texts.name}" and len(run["rows"]) == len(run["predicted"]) > 10
    assert sorted(row for row, *_ in run["map"]) == list(range(len(run["rows"])))


def test_texts_of_shipped_validation_rows_are_their_own(solve, tmp_path, toy_csv):
    shipped = tmp_path / "val.csv"
    shipped.write_text(toy_csv["test"].read_text().replace(" ", " shipped "))
    result = solve("method=logistic", f"dataset.val={shipped}", "protocol.read_test=false")
    folder = write_board(tmp_path / "runs", tmp_path / "data").parent
    run = details(tmp_path / "runs", result.folder.name)
    assert run["data"].endswith("-val-of-val") and "shipped" in (folder / run["texts"]).read_text()


def test_what_is_no_number_is_left_out_of_the_curves(tmp_path):
    run = write_run(tmp_path, "ce", [0, 1], [0, 1])
    header = ("epoch", "step", "val/loss", "train/loss")
    run.write_csv("history.csv", [(0, 5, "nan", "inf"), (1, 10, 0.5, 0.25)], header)
    write_board(tmp_path, tmp_path / "data")
    assert details(tmp_path, "ce")["history"] == [{"epoch": 0}, {"epoch": 1, "val/loss": 0.5, "train/loss": 0.25}]


def test_active_learning_is_a_curve_over_labels(tmp_path):
    run = write_run(tmp_path, "rounds", [0, 1], [0, 1])
    columns = ("labels", "test/accuracy", "test/logistic_accuracy", "run")
    run.write_csv("curve.csv", [(10, 0.5, None, "a"), (20, 0.75, 0.5, "b")], columns)
    write_board(tmp_path, tmp_path / "data")
    shown = details(tmp_path, "rounds")
    rival = {"test/logistic_accuracy": 0.5}
    assert shown["by_labels"] == [{"labels": 10, "test/accuracy": 0.5}, {"labels": 20, "test/accuracy": 0.75} | rival]
    assert shown["last_run"] == "b"


@pytest.mark.slow
def test_a_clustering_has_its_figures_texts_and_the_way_to_its_own_page(toy_csv, store, tmp_path):
    data = [f"dataset.{split}={path}" for split, path in toy_csv.items()]
    done = command(["task=cluster", "method=tfidf_kmeans", "logger=none", "dataset=csv", *data, *store])
    page = command(["task=board", f"paths.runs={tmp_path / 'runs'}", f"paths.data={tmp_path / 'data'}"]).folder
    (row,), metrics = runs_of(page / "index.html"), json.loads((done.folder / "metrics.json").read_text())
    scores = {name: metrics[f"cluster/{name}"] for name in ("acc", "nmi", "largest", "texts")}
    assert (row["accuracy"], row["nmi"], row["clusters"]) == (scores["acc"], scores["nmi"], 4)
    assert row["largest"] == scores["largest"] / scores["texts"] and row["page"]
    run, predicted = details(tmp_path / "runs", done.folder.name), rows(done.folder / "predictions.csv")
    names = {line["cluster"]: line["name"] for line in rows(done.folder / "clusters.csv")}
    assert [run["clusters"][cluster] for cluster in run["assigned"]] == [names[line["cluster"]] for line in predicted]
    assert [run["labels"][label] for label in run["truth"]] == [line["label"] for line in predicted]
    texts = (page / run["texts"]).read_text()
    assert all(line["text"] in texts for line in predicted) and "predicted" not in run
    (done.folder / "clusters" / "index.html").unlink()
    assert "page" not in summary(RunFolder(done.folder))


@pytest.mark.slow
@in_a_browser
def test_a_browser_compares_two_runs_as_scipy_and_scikit_learn_do(two_runs):
    store, truth, said = two_runs
    page = write_board(store, store / "data")
    address = f"{page.as_uri()}#compare=ce,scl"
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"]
    shown = subprocess.run([str(CHROMIUM), *options, address], capture_output=True, text=True, check=True, timeout=120)
    text = re.sub(r"<[^>]+>", " ", shown.stdout[shown.stdout.index("A: ce against B: scl") :])
    right = np.equal(truth, said)
    only = [int((right[0] & ~right[1]).sum()), int((right[1] & ~right[0]).sum())]
    p = binomtest(only[0], sum(only)).pvalue
    for predicted in said:
        assert f"{100 * np.mean(np.equal(truth, predicted)):.2f}" in text
        assert f"{100 * f1_score(truth, predicted, average='macro'):.2f}" in text
    assert f"McNemar, exact: {'p < 0.001' if p < 0.001 else f'p = {p:.3f}'}" in text
    assert f"Right in A alone: {only[0]}" in text and f"Right in B alone: {only[1]}" in text
    assert "taken over" not in shown.stdout.partition("<body")[0]

@pytest.fixture
def clusterings(tmp_path):
    """A store with three clusterings of the same texts, and the clusters of two of them."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 4, 300)
    second = np.where(rng.random(300) < 0.7, first, rng.integers(0, 6, 300))
    names = [f"iron {HOSTILE}", "zinc", "sea", "grass", "light", "cold"]
    for name, assigned, number in (("km", first, 4), ("tree", second, 6), ("lone", np.zeros(300, int), 1)):
        write_clustering(tmp_path, name, assigned.tolist(), names[:number])
    return tmp_path, first, second


def opened(browser, store, address, width=1400):
    """A tab that shows this part of the board."""
    tab = browser.new_context(viewport={"width": width, "height": 900}).new_page()
    tab.goto(f"{write_board(store, store / 'data').as_uri()}#{address}")
    tab.wait_for_selector("#opened table")
    return tab


def cells(tab, number):
    """The texts of a table of what is opened, row by row."""
    lines = tab.locator("#opened table").nth(number).locator("tbody tr").all()
    return [line.locator("td").all_text_contents() for line in lines]


@pytest.mark.slow
@in_a_browser
def test_a_browser_compares_two_clusterings_as_scikit_learn_does(clusterings, browser):
    store, first, second = clusterings
    tab = opened(browser, store, "compare=km,tree")
    scores, agreed, _, overlaps, texts = (cells(tab, number) for number in range(5))
    assert scores[0] == ["ACC", "50.00", "50.00", "+0.00"]
    measured = (adjusted_mutual_info_score(first, second), adjusted_rand_score(first, second))
    assert [row[1] for row in agreed[:2]] == [f"{100 * value:.2f}" for value in measured]
    counts = contingency_matrix(first, second)
    assert [int(row[2]) for row in overlaps] == sorted(counts[counts > 0].tolist(), reverse=True)
    paired = [row for row in overlaps if row[5] == "yes"]
    assert len(paired) == 4 and all(row[0] == row[1] for row in paired)
    assert agreed[2][1] == f"{100 * np.mean(first == second):.2f}"
    assert f"Texts on which they part: {(first != second).sum()}" in tab.inner_text("#opened")
    assert all(a != b for _, a, b, _ in texts) and 50 < len(texts) <= 100 and tab.title() != "taken over"
    alone = cells(opened(browser, store, "compare=km,lone"), 1)  # one cluster says nothing
    assert [row[1] for row in alone[:2]] == ["0.00", "0.00"]


@pytest.mark.slow
@in_a_browser
@pytest.mark.parametrize("width", [1400, 400])
def test_no_part_of_the_board_is_wider_than_its_window(clusterings, two_runs, browser, width):
    store, *_ = clusterings
    for address in ("run=ce", "compare=ce,scl", "run=tree", "compare=km,tree"):
        tab = opened(browser, store, address, width)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, address


@pytest.mark.slow
@in_a_browser
def test_figures_of_validation_rows_and_what_a_run_read_are_said(clusterings, two_runs, browser):
    store, *_ = two_runs
    few = write_run(store, "few", [0, 1], [0, 1])
    columns = ("split", "index", "label", "prediction", "probability")
    few.write_csv("predictions.csv", [("val", 0, NAMES[0], NAMES[0], 1.0)], columns)
    few.write_json("kept_indices.json", {"val": [0]})
    metrics = {key.replace("test/", "val/"): value for key, value in few.read_metrics().items()}
    few.write_json("metrics.json", metrics | {"reads": "NU"})
    lines = opened(browser, store, "run=ce").locator("#runs tbody tr").all()
    cells_of = [row.locator("td").all_text_contents() for row in lines]
    shown = {line[1]: line[8] for line in cells_of}
    assert shown["few"] == "100.00 on val"  # and not a figure beside those of 200 rows
    assert not any("val" in shown[name] for name in ("ce", "scl", "km"))
    assert all(line[2] == ("few (N U)" if line[1] == "few" else line[1]) for line in cells_of)
