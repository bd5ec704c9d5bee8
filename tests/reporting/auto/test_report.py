"""The whole report over a folder: its files, its sentence, and a page that runs nothing and asks for nothing."""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score

from reporting.auto.report import write_report
from reporting.auto.sentence import at_least
from tests.reporting.auto.folders import CANDIDATES, write_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = write_folder(tmp_path_factory.mktemp("auto") / "auto-my-1")
    write_report(folder)
    return folder


def test_tables_agree_with_each_other(folder):
    ranking = pd.read_csv(folder / "ranking.csv")
    assert ranking["candidate"].tolist()[-1] == "sharprecl" and ranking["reason"].tolist()[-1].startswith("would take")
    assert ranking["recommended"].sum() == 1 and ranking["macro_f1"].dropna().is_monotonic_decreasing
    answers, errors = pd.read_csv(folder / "out_of_fold.csv"), pd.read_csv(folder / "errors.csv")
    assert len(errors) == (answers["label"] != answers["predicted"]).sum()
    counts = pd.read_csv(folder / "confusion.csv", index_col="label").to_numpy()
    assert (np.trace(counts), counts.sum()) == (len(answers) - len(errors), len(answers))
    assert answers.filter(like="p_").sum(axis=1).round(4).eq(1).all()
    pairs = pd.read_csv(folder / "duplicates.csv")
    assert pairs[["line_a", "line_b"]].values.tolist() == [["my.csv:2", "my.csv:301"], ["my.csv:7", "my.csv:11"]]


def test_the_page_runs_nothing_and_asks_for_nothing(folder):
    page = (folder / "index.html").read_text()
    assert "alert(1)" in page and not re.search(r"<script|<b>, |World <b>", page)
    assert not re.search(r"""(?:src|href)\s*=|https?:|@import|url\(""", page)
    assert "fine-tuning, as far as there was time for it, is not shown to be better" in page
    assert "logistic regression, trained on fewer rows." in page  # the recommended one, of which it is
    assert "would take 14 minutes" in page


@pytest.mark.parametrize("place", [".", ".."])
def test_the_page_says_where_its_model_lies(folder, monkeypatch, place):
    """From the working folder where it lies below that, whatever `paths.runs` was."""
    below = folder / "elsewhere"
    below.mkdir(exist_ok=True)
    monkeypatch.chdir(folder.parent.parent if place == "." else below)
    write_report(folder)
    where = f"{folder.parent.name}/{folder.name}" if place == "." else str(folder)
    (line,) = re.findall(r"<code>(.* task=predict .*)</code>", (folder / "index.html").read_text())
    assert f" run={where} input=NEW.csv" in line and "header" not in line and "text_column" not in line
    assert f" task=evaluate run={where} input=TEST.csv</code>" in (folder / "index.html").read_text()


def test_a_table_that_a_join_multiplied_is_no_surer(folder, tmp_path):
    copied = shutil.copytree(folder, tmp_path / "auto-joined")
    (copied / "embeddings.npy").unlink()
    for file in [copied / "rows.parquet", *(copied / "out_of_fold").iterdir()]:
        table = pd.read_parquet(file)
        number = table["row"].max() + 1
        pd.concat([table.assign(row=table["row"] + copy * number) for copy in range(4)]).to_parquet(file)
    before, after = json.loads((folder / "metrics.json").read_text()), write_report(copied)
    first, second = (pd.read_csv(where / "ranking.csv").select_dtypes("number") for where in (folder, copied))
    assert second.to_numpy() == pytest.approx(first.to_numpy(), nan_ok=True, abs=1e-9)
    assert after["abstention"] == pytest.approx(before["abstention"])
    assert after["calibration"]["ece_by_chance"] == pytest.approx(before["calibration"]["ece_by_chance"], rel=0.1)
    advice = [re.findall(r"label about \d+ more", metrics["sentence"]) for metrics in (before, after)]
    assert advice[0] and advice[0] == advice[1]


def test_the_same_folder_gives_the_same_files(folder):
    names = ["ranking.csv", "metrics.json", "suspect_labels.csv", "index.html"]
    before = [(folder / name).read_bytes() for name in names]
    write_report(folder)
    assert [(folder / name).read_bytes() for name in names] == before


def test_a_report_that_rests_on_some_of_the_folds_says_so(tmp_path):
    folder = write_folder(tmp_path / "auto-part", rows=400)
    file = folder / "out_of_fold" / "ce.parquet"
    table = pd.read_parquet(file)
    probabilities = table.filter(like="p_").columns
    table.loc[:, probabilities] = np.eye(4)[np.where(table["row"] % 9 == 0, 0, table["label"])]
    is_rare = table["label"] == 3
    table[(table["row"] % 2 == 0) & ~is_rare].to_parquet(file)
    metrics, page = write_report(folder), (folder / "index.html").read_text()
    assert metrics["recommended"] == "ce" and "Its figures rest on 191 of 400 rows" in page
    assert "logistic regression, trained on fewer rows: a cheap candidate, not the recommended one" in page
    rows = {entry["label"]: (entry["rows"], entry["predicted_rows"]) for entry in metrics["per_class"]}
    assert rows["Sci/Tech"] == (18, 0) and rows["Business"] == (54, 27)
    assert re.search(r"Sci/Tech: 0 of its \d+ rows, its F1 lies anywhere from 0 % to 100 %", page)
    assert metrics["duplicates"]["macro_f1_without"] is None
    assert len(pd.read_csv(folder / "out_of_fold.csv")) == 191


@pytest.mark.slow
def test_the_sentence_says_what_macro_f1_is_without_a_label_that_is_mistyped_once(tmp_path):
    folder = write_folder(tmp_path / "auto-mistyped", rows=400)
    data, rows = json.loads((folder / "data.json").read_text()), pd.read_parquet(folder / "rows.parquet")
    data["classes"].append({"label": "Wolrd", "rows": 1})
    (folder / "data.json").write_text(json.dumps(data))
    rows.loc[3, "label"] = "Wolrd"
    rows.to_parquet(folder / "rows.parquet")
    for file in (folder / "out_of_fold").iterdir():
        table = pd.read_parquet(file).assign(p_4=0.0)
        table.loc[table["row"] == 3, "label"] = 4
        table.to_parquet(file)
    sentence, name = (write_report(folder)[key] for key in ("sentence", "recommended"))
    table = pd.read_parquet(folder / "out_of_fold" / f"{name}.parquet")
    answers = table[[f"p_{c}" for c in range(5)]].to_numpy().argmax(axis=1)
    repeats = [table["repeat"] == repeat for repeat in table["repeat"].unique()]
    expected = np.mean([f1_score(table["label"][part], answers[part], average=None)[:4].mean() for part in repeats])
    assert f"), without classes of one row {100 * expected:.0f} %, accuracy" in sentence
    assert "macro-F1 without classes of one row" in (folder / "index.html").read_text()


def test_no_rows_are_to_be_labelled_where_the_file_has_more_than_were_read(tmp_path):
    folder = write_folder(tmp_path / "auto-sampled")
    data = json.loads((folder / "data.json").read_text())
    rare = data["classes"][-1]
    for entry in data["classes"]:
        entry["rows_in_file"] = 100 * entry["rows"]
    (folder / "data.json").write_text(json.dumps(data | {"sampled_from": 30_000}))
    sentence = write_report(folder)["sentence"]
    assert f"Sci/Tech is unreliable, {rare['rows']} of its {100 * rare['rows']:,} rows were read" in sentence
    page = (folder / "index.html").read_text()
    assert f"Sci/Tech: {rare['rows']} of its {100 * rare['rows']:,} rows, its F1 lies" in page
    assert f'data-head="rows">{rare["rows"]} of {100 * rare["rows"]:,}<' in page
    assert not re.search(r"label about \d|\d+ more<|twice the labels|more labels bring", sentence + page)
    assert "With twice the rows that were read (600; the file has 30,000) its macro-F1" in page
    assert "Pairs that are equal or nearly so among the 300 rows drawn: 2," in page


def test_a_sum_that_is_recommended_below_its_part_says_why(tmp_path):
    folder = write_folder(tmp_path / "auto-sum")
    candidates = json.loads((folder / "candidates.json").read_text())
    next(entry for entry in candidates if entry["candidate"] == "ce")["parts"] = ["logistic"]
    (folder / "candidates.json").write_text(json.dumps(candidates))
    metrics = write_report(folder)
    why = "; a sum, which goes before its part MiniLM, frozen, with logistic regression; "
    assert metrics["recommended"] == "ce" and why in metrics["sentence"]


def test_a_class_that_is_called_like_another_is_not_to_be_labelled_more(tmp_path):
    folder = write_folder(tmp_path / "auto-alike")
    data = json.loads((folder / "data.json").read_text())
    data["classes"][-1]["alike"] = ["sci/tech"]
    (folder / "data.json").write_text(json.dumps(data))
    sentence = write_report(folder)["sentence"]
    rows = data["classes"][-1]["rows"]
    assert f"Sci/Tech is unreliable, {rows} rows: it may be one class with sci/tech (one spelling in" in sentence
    assert not re.search(r"\b1 (rows|more classes)\b", sentence)


@pytest.mark.slow
def test_the_page_says_which_texts_that_stand_twice_were_looked_for(tmp_path):
    folder = write_folder(tmp_path / "auto-twice")
    data = json.loads((folder / "data.json").read_text())
    (folder / "data.json").write_text(json.dumps(data | {"most_tokens": 128, "cut_texts": 7}))
    write_report(folder)
    assert "Those of more than 128 tokens, which are read in part, were" in (folder / "index.html").read_text()
    rows = pd.read_parquet(folder / "rows.parquet")
    rows.assign(text=[f"text {n}" for n in rows["row"]]).to_parquet(folder / "rows.parquet")
    (folder / "embeddings.npy").unlink()
    write_report(folder)
    page = (folder / "index.html").read_text()
    assert "No two are equal." in page and "Nearly equal ones were not looked for" in page


def test_entries_of_an_array_are_called_so_and_another_encoding_is_to_mind(tmp_path):
    folder = write_folder(tmp_path / "auto-array")
    data = json.loads((folder / "data.json").read_text())
    data["files"][0] |= {"entries": True, "likely_encoding": "cp1251"}
    (folder / "data.json").write_text(json.dumps(data))
    write_report(folder)
    pairs, page = pd.read_csv(folder / "duplicates.csv"), (folder / "index.html").read_text()
    assert pairs["line_a"].tolist() == ["my.csv: entry 2", "my.csv: entry 7"]
    assert "my.csv: entry " in page and "my.csv:2" not in page and "<th>entry</th>" in page
    assert "The file was read as utf-8 and looks to be cp1251: encoding=cp1251 reads it so." in page


def test_nothing_finished(tmp_path):
    folder = write_folder(tmp_path / "auto-none", candidates=CANDIDATES[:0])
    (folder / "learning_curve.csv").unlink()
    metrics = write_report(folder)
    assert metrics["recommended"] is None and "Nothing can be recommended" in (folder / "index.html").read_text()
    assert "the same line with more minutes goes on" in metrics["sentence"]
    question = json.loads((folder / "question.json").read_text())
    (folder / "question.json").write_text(json.dumps(question | {"used_minutes": 0.4}))
    entries = json.loads((folder / "candidates.json").read_text())
    told = [entry | {"needed_seconds": seconds} for entry, seconds in zip(entries * 2, (90.0, 30.0), strict=True)]
    (folder / "candidates.json").write_text(json.dumps(told))
    assert "the same line with minutes=3 goes on" in write_report(folder)["sentence"]
    dropped = entries[0] | {"status": "dropped", "reason": "the labels are codes"}
    (folder / "candidates.json").write_text(json.dumps([dropped]))
    assert write_report(folder)["sentence"].endswith(" has finished; MiniLM with SharpReCL: the labels are codes.")


def test_without_a_learning_curve_the_page_says_why(tmp_path):
    folder = write_folder(tmp_path / "auto-short", rows=100)
    (folder / "learning_curve.csv").unlink()
    write_report(folder)
    why = "There is no learning curve: no time was left to fit MiniLM, frozen, with logistic regression"
    assert why in (folder / "index.html").read_text()


@pytest.mark.parametrize(("threshold", "shown"), [(0.97461, "0.9747"), (0.99998, "0.99998"), (1.0, "1"), (0.5, "0.5")])
def test_a_threshold_is_shown_rounded_up(threshold, shown):
    assert at_least(threshold) == shown
