"""Kontrast from Python: scikit-learn's conventions, the command's words, the installed package."""

import os
import pickle
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline

import kontrast
from kontrast.answer import _label
from kontrast.command_line import main, run_words
from kontrast.estimators import _array, labels_by_name
from kontrast.runs import checked_texts, config_of, overrides, unseeded
from storage.errors import InputError
from tasks.auto.reading.table import read_labelled

ROOT = Path(__file__).resolve().parents[2]


def test_settings_are_the_command_lines_words():
    nasty = "it's a, b=c {x}: 'y' \\ $z"
    settings = {
        "method": "sharprecl",
        "seed": np.int64(3),
        "loss__tau": 0.1,
        "paths__runs": nasty,
        "paths__data": "größe",
        "paths__cache": "null",
        "start_from": None,
    }
    config = config_of(overrides(settings))
    assert (config.paths.data, config.paths.cache) == ("größe", "null")
    assert (config.paths.runs, config.seed, config.loss.tau) == (nasty, 3, 0.1)
    with pytest.raises(InputError, match=r"loss\.tauu: unknown key; allowed under loss: tau, .*did you mean tau"):
        config_of(["method=sharprecl", *overrides({"loss__tauu": 1})])
    with pytest.raises(InputError, match=r"method=cee: unknown choice; allowed: .*did you mean ce"):
        kontrast.TextClassifier("cee").fit(["a", "b"], ["x", "y"])


def test_parameters_are_copied_changed_and_reached_through_a_pipeline():
    classifier = kontrast.TextClassifier("sharprecl", loss__tau=0.5)
    copy = clone(classifier).set_params(loss__tau=0.3, seed=2)
    assert copy.get_params() == {"method": "sharprecl", "encoder": None, "loss__tau": 0.3, "seed": 2}
    assert classifier.get_params()["loss__tau"] == 0.5
    pipeline = Pipeline([("text", clone(classifier))]).set_params(text__loss__tau=0.1)
    assert pipeline["text"].settings == {"loss__tau": 0.1}
    assert clone(kontrast.TextClusterer(n_clusters=7)).set_params(n_clusters=4).get_params()["n_clusters"] == 4


@pytest.mark.parametrize("texts", [["a", "b"], np.array(["a", "b"]), pd.Series(["a", "b"], index=[7, 3])])
def test_texts_come_in_lists_arrays_and_series(texts):
    assert checked_texts(texts) == ["a", "b"]


def test_of_a_frame_the_columns_are_read_that_a_model_learned_from():
    frame = pd.DataFrame({"title": ["one", None, pd.NA], "label": [1, 2, 3], "body": ["x", "y", "z"]})
    assert checked_texts(frame, column="body") == ["x", "y", "z"]
    assert checked_texts(frame, column="title+body") == ["one\nx", "y", "z"]
    with pytest.raises(InputError, match="^X: found no column 'text', 'head', allowed: a frame with text.body.head, "):
        checked_texts(frame, column="text+body+head")
    with pytest.raises(InputError, match="^X: found several columns 'body', allowed: one of the name, or texts alone"):
        checked_texts(frame.iloc[:, [0, 2, 2]], column="body")
    with pytest.raises(InputError, match="^X: found 3 columns, allowed: one, of texts"):
        checked_texts(frame)


LISTS_OF_LABELS = (
    "y: found lists of labels, allowed: one label a text, or an array (N, C) of 0 and 1, "
    "which scikit-learn's MultiLabelBinarizer makes of lists"
)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.eye(3), "y: found shape (3, 3), allowed: a label, or 0s and 1s, for each of 2"),
        (np.array([[1, 0], [2, 1]]), "y: found '2' in an array (2, 2), allowed there: 0 and 1"),
        (np.array([[1, 0], [1, 0]]), "y: found the labels '0', allowed: at least 2 that differ as text"),
        (["a", "a"], "y: found the labels 'a', allowed: at least 2 that differ as text"),
        (["a ", "a"], "y: found the labels 'a', allowed: at least 2 that differ as text"),
        (["a", None], "y[1]: found None, allowed: a label of each text"),
        (np.array(["a", 1], object), "y: found labels of the types int, str, allowed: of one type"),
        (["a", 1], "y: found labels of the types int, str, allowed: of one type"),
        (["a", float("nan")], "y[1]: found nan, allowed: a label of each text"),
        ([["a"], ["a", "b"]], LISTS_OF_LABELS),
        (pd.Series([["a"], ["b"]]), LISTS_OF_LABELS),
        (["a", "b\ud800"], "y[1]: found half a surrogate pair, allowed: Unicode text"),
    ],
)
def test_labels_that_cannot_be_learned_are_refused(y, message):
    with pytest.raises(InputError) as error:
        kontrast.TextClassifier().fit(["a", "b"], y)
    assert str(error.value) == message


def test_labels_of_one_name_are_one():
    pairs = [("yes", "yes "), ("no", "no"), ("yes", "yes"), ("1", 1)]
    assert labels_by_name(pairs) == {"yes": "yes", "no": "no", "1": 1}


def test_a_column_of_labels_is_taken_as_its_labels():
    with pytest.warns(DataConversionWarning):
        assert _array(np.array([["a"], ["b"]])).tolist() == ["a", "b"]


def test_what_is_no_table_is_refused_by_its_type():
    with pytest.raises(InputError, match="^data: found Series, allowed: a pandas DataFrame, or the path of a file$"):
        kontrast.auto(pd.Series(["a", "b"]))


def test_columns_of_a_frame_are_guessed_as_of_a_file(tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr("tasks.auto.answered", lambda config, words: asked.append(config) or tmp_path)
    pairs = [(first, second) for first in ("war", "game", "bank", "vote") for second in ("ends", "goes on", "is lost")]
    frame = pd.DataFrame({
        "subject": [f"the {first} {second}" for first, second in pairs],
        "body": [f"again they say that a {first} of theirs {second}" for first, second in pairs],
        "team": ["x", "y"] * 6,
    })  # fmt: skip
    of_polars = SimpleNamespace(to_pandas=lambda: frame)
    for data, names in ((frame, {}), (of_polars, {"label": "team"})):
        kontrast.auto(data, paths__data=str(tmp_path), **names)
    guessed = "data: text 'subject+body', label 'team', guessed: text and label (text=, label= say others)\n"
    assert guessed in capsys.readouterr().out
    assert asked[0].input == asked[1].input and asked[0].label_column == "team"
    kontrast.auto(frame.assign(late=[0, 1] * 6, rude=[1, 0, 1] * 4, kind=list("pq") * 6), paths__data=str(tmp_path))
    said = capsys.readouterr().out
    assert "data: labels may also stand in " in said
    assert "of 0 and 1 may each be a label; label=['late', 'rude'] learns several a text\n" in said
    frame.to_csv(tmp_path / "a.csv", index=False)
    of_file, of_frame = (read_labelled(file, label_column="team") for file in (str(tmp_path / "a.csv"), asked[0].input))
    assert of_frame.texts == of_file.texts and of_frame.labels == of_file.labels
    assert of_frame.about["text_columns"] == ["subject+body"]


def test_columns_of_a_file_are_handed_on_and_what_is_missing_in_a_table_is_no_text(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("tasks.auto.answered", lambda config, words: asked.append(config) or tmp_path)
    kontrast.auto(str(tmp_path / "a.csv"), text="body", label="kind")
    assert (asked[0].text_column, asked[0].label_column) == ("body", "kind")
    answer = kontrast.auto(pd.DataFrame({"text": [None, "one"], "label": [1, 2]}), paths__data=str(tmp_path), seed=1)
    assert answer.opening == {"paths__data": str(tmp_path)}, "which its model is loaded with"
    assert pd.read_parquet(asked[1].input)["text"].tolist() == ["", "one"]
    assert read_labelled(asked[1].input, "text", "label").lines == [2], "a row without a text is counted too"
    with pytest.raises(InputError, match=r"^data.iloc\[1\], column 'text': found 3, allowed: texts, or nothing"):
        kontrast.auto(pd.DataFrame({"text": ["one", 3], "label": [1, 2]}), text="text", paths__data=str(tmp_path))
    kontrast.auto(pd.DataFrame([["one", 1], ["two", 2]]), text=0, label=1, paths__data=str(tmp_path))
    assert pd.read_parquet(asked[2].input).to_dict("list") == {"0": ["one", "two"], "1": ["1", "2"]}
    with pytest.raises(InputError, match="data: found no column 'größe', allowed: text=NAME of '0', '1'"):
        kontrast.auto(pd.DataFrame([["one", 1], ["two", 2]]), text="größe", label=1)
    with pytest.raises(InputError, match="label: found an empty list, allowed: the name of a column"):
        kontrast.auto(pd.DataFrame([["one", 1], ["two", 2]]), text=0, label=[])
    flags = pd.DataFrame({"text": list("abc"), "rude": [1, 0, None], "threat": [True, False, None]})
    kontrast.auto(flags, label=["rude", "threat"], paths__data=str(tmp_path))
    assert asked[3].label_column == "rude+threat"
    assert pd.read_parquet(asked[3].input)["rude+threat"].tolist() == ['["rude", "threat"]', "[]", ""]
    with pytest.raises(InputError, match=r"data.iloc\[0\]: found 2.0 in column 'rude'; allowed: 0 and 1, or false"):
        kontrast.auto(flags.replace({"rude": 1}, 2), label=["rude", "threat"], paths__data=str(tmp_path))


NAMED = {"text": "text", "label": "kind"}


@pytest.mark.parametrize(
    ("columns", "row", "settings", "message"),
    [
        (["text", "label"], ["a", "x"], {"prefer": "fast"}, "prefer: found 'fast'"),
        (["text", "label"], ["a", "x"], {"precision": 95}, "precision: found 95"),
        (["text"], ["a"], {}, "data: no column looks like labels; allowed: label=NAME of 'text', or topics of the"),
        (["n", "label"], [3, "x"], {}, "data: no column looks like texts; allowed: text=NAME of 'n', 'label'"),
        (["text", "kind"], ["a", "x"], {"label": "l"}, "data: found no column 'l', allowed: label=NAME of 'text', 'k"),
        (["text", "label", "label"], ["a", "x", "y"], {}, "data: found 2 columns 'label', allowed: label=NAME of"),
        (["text", "label"], ["a \ud800", "x"], {}, r"data.iloc\[0\], column 'text': found half a surrogate pair"),
        (["text", "label"], ["a", ["x", None]], {}, r"data.iloc\[0\], column 'label': found None in a list of labels"),
        (["text", "label"], ["a", ["x", "\ud800"]], {}, r"data.iloc\[0\], column 'label': found half a surrogate pair"),
        (["text", "kind"], ["a", {"x": 1}], NAMED, r"data.iloc\[0\], column 'kind': found {'x': 1}, allowed: a text"),
        (["text", "kind"], ["a", b"x"], NAMED, r"data.iloc\[0\], column 'kind': found b'x', allowed: a text, a number"),
        (["text", "kind"], ["a", ["y", ["x"]]], NAMED, r"data.iloc\[0\], column 'kind': found \['x'\], allowed: a"),
        (["text", "kind"], ["a", ["x", ""]], NAMED, r"data.iloc\[0\]: found an empty label, allowed: a name"),
        (["text", "kind"], ["a", "x"], NAMED, "data: one class only in column 'kind', 'x'; allowed: at least 2"),
        (["text", "kind"], ["a", None], NAMED, "data: no row has a label in column 'kind'; topics of .*TextClusterer"),
    ],
)
def test_a_table_or_a_setting_that_cannot_be_used_is_refused_at_once(tmp_path, columns, row, settings, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        kontrast.auto(pd.DataFrame([row] * 20, columns=columns, dtype=object), paths__data=str(tmp_path), **settings)


TWO_COLUMNS = pd.DataFrame({"title": ["a", "b"], "body": ["c", "d"]})  # which gives its names one by one


@pytest.mark.parametrize(
    "texts",
    [[], "one text", ["a", " "], ["a", None], [1.0], ["a \ud800"], TWO_COLUMNS, None, {"a": 1}, np.array("a")],
)
def test_what_is_no_text_is_refused_with_its_place(texts):
    with pytest.raises(InputError, match=r"^X"):
        checked_texts(texts)


def test_a_text_of_markup_alone_is_none_where_markup_is_taken_out():
    classifier, texts = kontrast.TextClassifier("ce", dataset__markup="strip"), ["a<br>", "<br>&nbsp;"]
    for fitted in (classifier, kontrast.TextClusterer(dataset__markup="strip")):
        with pytest.raises(InputError, match=r"^X\[1\]: found '<br>&nbsp;', allowed: .* character outside its markup$"):
            fitted.fit(texts, ["x", "y"])
    classifier.classes_, classifier._model, classifier._markup = np.array(["x", "y"]), None, "strip"
    with pytest.raises(InputError, match=r"^X\[1\]: "):
        classifier.predict(texts)
    assert checked_texts(texts) == texts


def test_each_text_has_a_cluster_and_outliers_are_minus_one(tmp_path, monkeypatch):
    assigner = SimpleNamespace(num_clusters=2, assign=lambda texts: (np.array([2, 0]), None, None))
    monkeypatch.setattr("engine.assign.Assigner", lambda run, plan: assigner)
    rows = [{"cluster": number} for number in "0210"]
    run = SimpleNamespace(read_csv=lambda name: rows, id="hdbscan", path=tmp_path)
    clusterer = kontrast.TextClusterer("hdbscan", dataset__deduplicate="train")
    with pytest.raises(InputError, match="^dataset__deduplicate: found train; allowed: none, for each text"):
        clusterer.fit(["a", "b", "a", "c"])
    clusterer._take(run, SimpleNamespace(plain={"dataset": {}}, dataset=SimpleNamespace(learned_columns={})))
    assert clusterer.labels_.tolist() == [0, -1, 1, 0] and clusterer.predict(["a", "b"]).tolist() == [-1, 0]


def test_the_commands_words(capsys, tmp_path):
    words = ["auto", "my file.csv", "--minutes", "20", "--prefer=speed", "seed=1"]
    assert run_words(words) == ["task=auto", "input='my file.csv'", "minutes=20", "prefer=speed", "seed=1"]
    assert run_words(["auto", "a.csv", "--delimiter", ";"])[2:] == ["delimiter=';'"]
    assert run_words(["auto", "a.xlsx", "--sheet", "Data"])[2:] == ["sheet=Data"]
    assert run_words(["auto", "--force", "a.csv", "--text_column", "Text, lang"])[1:] == [
        "force=true", "input='a.csv'", "text_column=Text, lang"]  # fmt: skip
    file = tmp_path / "lang=en.csv"
    file.touch()
    assert run_words(["auto", str(file)])[1:] == [f"input='{file}'"]
    assert run_words(["auto", "a.csv", "--label-column", "kind"])[2:] == ["label_column=kind"]
    assert run_words(["run", "-m", "method=ce"]) == ["-m", "method=ce"]
    assert run_words(["auto", "my.csv", "--help"]) == ["--help", "auto"]
    assert main(["--version"]) == 0 and re.fullmatch(r"\d+\.\d+\.\d+\n", capsys.readouterr().out)
    for refused in (["autos"], ["auto", "--minutes", "--force"], ["auto", "a.csv", "b.csv"]):
        assert main(refused) == 2
    assert capsys.readouterr().err.count("\n") == 3


def test_the_pages_training_loop_learns():
    page = (ROOT / "docs/python.md").read_text()
    loop = next(block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "losses." in block)
    names: dict = {}
    exec(loop, names)
    assert names["values"][-1] < 0.9 * names["values"][0]


@pytest.mark.slow
def test_a_classifier_learns_is_opened_again_and_is_one_of_scikit_learns(
    tiny_encoder_dir, toy_csv, tmp_path, monkeypatch
):
    train = pd.read_csv(toy_csv["train"])
    numbers = train["label"].map({name: 10 * place for place, name in enumerate(sorted(set(train["label"])))})
    paths = {f"paths__{name}": str(tmp_path / name) for name in ("runs", "data", "cache")}
    encoder = {"encoder__path": str(tiny_encoder_dir), "encoder__sha256": None, "dataset__max_length": 32}
    classifier = kontrast.TextClassifier("logistic", **encoder, **paths)
    classifier.fit(train["text"], numbers)
    assert classifier.classes_.tolist() == sorted(set(numbers)) and classifier.score(train["text"], numbers) > 0.8
    probabilities = classifier.predict_proba(list(train["text"][:5]))
    assert probabilities.shape == (5, 4) and probabilities.sum(axis=1) == pytest.approx(1, abs=1e-12)
    assert pickle.loads(pickle.dumps(classifier)).predict_proba(train["text"][:5]).tolist() == probabilities.tolist()
    opened = kontrast.load(classifier.run_, **paths)
    with pytest.raises(InputError, match=f"run {classifier.run_}: it was loaded to predict; allowed: fit of a Text"):
        opened.fit(train["text"], numbers)
    with pytest.raises(InputError, match="loss__tau: has no effect on a finished run"):
        kontrast.load(classifier.run_, loss__tau=1, **paths)
    assert opened.predict(train["text"]).tolist() == classifier.predict(train["text"]).astype(str).tolist()
    shutil.copytree(classifier.folder_, tmp_path / "answer/model")
    monkeypatch.setattr("tasks.auto.answered", lambda config, words: tmp_path / "answer")
    model = kontrast.auto(pd.DataFrame({"body": train["text"], "kind": numbers}), "body", "kind", **paths).model
    assert model.classes_.tolist() == [0, 10, 20, 30] and model.predict(train["text"]).dtype == numbers.dtype
    assert model.score(train["text"], numbers) > 0.8
    pipeline = Pipeline([("text", classifier)])
    scores = cross_val_score(pipeline, train["text"].to_numpy(), train["label"], cv=2, error_score="raise")
    assert scores.shape == (2,) and scores.mean() > 0.55  # the largest class has 0.47
    with pytest.raises(ValueError, match=r"loss\.tau"):
        kontrast.TextClassifier("ce", loss__tau=1, **encoder, **paths).fit(train["text"], numbers)
    clusterer = kontrast.TextClusterer(n_clusters=4, **encoder, **paths).fit(train["text"])
    assert (clusterer.predict(train["text"]) == clusterer.labels_).mean() > 0.95
    options = {"method__min_cluster_size": 4, "method__num_components": 5, "method__num_neighbours": 6}
    by_density = kontrast.TextClusterer("dense_words", **options, **encoder, **paths).fit(train["text"])
    again = kontrast.load(by_density.run_, **paths)
    assert again.labels_.tolist() == by_density.labels_.tolist()
    assert again.n_clusters == "auto" and (again.predict(train["text"]) == by_density.labels_).mean() > 0.95
    with_outliers = kontrast.TextClusterer("hdbscan", **options, **encoder, **paths).fit(train["text"])
    lacking = with_outliers.labels_ == -1
    assert 0 < lacking.mean() < 0.5 and with_outliers.labels_.max() + 1 == len(set(with_outliers.labels_[~lacking]))
    with pytest.raises(ValueError, match="n_clusters: found 4, allowed: 'auto'"):
        kontrast.TextClusterer("dense_words", n_clusters=4, **encoder, **paths).fit(train["text"])


@pytest.mark.slow
def test_a_fit_leaves_random_numbers_and_warnings_as_they_were(tiny_encoder_dir, toy_csv, tmp_path):
    train = pd.read_csv(toy_csv["train"])
    paths = {f"paths__{name}": str(tmp_path / name) for name in ("runs", "data", "cache")}
    np.random.seed(3)
    expected = [np.random.permutation(9).tolist() for _ in range(2)]
    np.random.seed(3)
    drawn, shown = [np.random.permutation(9).tolist()], warnings.showwarning
    kontrast.TextClassifier("tfidf_linear", **paths).fit(train["text"], train["label"])
    drawn.append(np.random.permutation(9).tolist())
    assert drawn == expected and "PL_GLOBAL_SEED" not in os.environ and warnings.showwarning is shown
    np.random.seed(3)
    with pytest.raises(ZeroDivisionError), unseeded():
        np.random.seed(0)
        raise ZeroDivisionError
    assert np.random.permutation(9).tolist() == expected[0], "nor does a fit that fails"


@pytest.mark.slow
def test_threads_are_those_asked_for_and_then_as_before_and_the_folder_is_known_everywhere(
    toy_csv, tmp_path, monkeypatch
):
    train, before = pd.read_csv(toy_csv["train"]), torch.get_num_threads()
    monkeypatch.chdir(tmp_path)
    settings = {"trainer__num_threads": 1, **{f"paths__{name}": name for name in ("runs", "data", "cache")}}
    torch.set_num_threads(2)
    try:
        classifier = kontrast.TextClassifier("tfidf_linear", **settings).fit(train["text"], train["label"])
        assert torch.get_num_threads() == 2 and classifier.folder_ == tmp_path / "runs" / classifier.run_
        used, scores = [], classifier._model.scores
        monkeypatch.setattr(
            classifier._model, "scores", lambda texts: (used.append(torch.get_num_threads()), scores(texts))[1]
        )
        classifier.predict(train["text"])
        assert used == [1] and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    "setting",
    [
        *({f"dataset__{split}": "a.csv"} for split in ("train", "val", "test")),
        *({f"dataset__{key}": "x"} for key in ("text_column", "label_column", "label_separator", "label_names")),
        *({f"dataset__{key}": "x"} for key in ("header", "encoding")),
        {"dataset": "trec"},
        {"active": "rep_clun"},
    ],
)
def test_a_setting_that_would_stand_in_the_place_of_the_texts_is_refused(setting):
    (name,) = setting
    with pytest.raises(InputError, match=f"^{name}: found .*; allowed: what X and y are"):
        kontrast.TextClassifier("ce", **setting).fit(["a", "b"], ["x", "y"])


@pytest.mark.parametrize(
    ("settings", "name", "val_fraction", "monitor"),
    [
        ({}, "kfold", 0.15, "val/macro_f1"),
        ({"protocol__monitor": "val/loss", "protocol__val_fraction": 0.2}, "kfold", 0.2, "val/loss"),
        ({"protocol": "clean"}, "clean", 0.1, "val/macro_f1"),
    ],
)
def test_a_setting_of_the_protocol_sets_no_test_rows_aside(
    tmp_path, monkeypatch, settings, name, val_fraction, monitor
):
    asked = []
    monkeypatch.setattr("kontrast.estimators._plan", asked.append)
    monkeypatch.setattr("tasks.fit.trained_run", pytest.fail)
    with pytest.raises(pytest.fail.Exception):
        kontrast.TextClassifier("ce", paths__data=str(tmp_path), **settings).fit(["a", "b"], ["x", "y"])
    protocol = config_of(asked[0]).protocol
    assert (protocol.name, protocol.val_fraction, protocol.monitor) == (name, val_fraction, monitor)
    assert protocol.get("fold") is None


@pytest.mark.slow
def test_texts_of_several_labels_are_learned_from_columns_of_0_and_1(tiny_encoder_dir, toy_csv, tmp_path):
    """Each text beside the one 7 rows on has the labels of both."""
    train = pd.read_csv(toy_csv["train"])
    texts = [f"{a} {b}" for a, b in zip(train["text"], train["text"][7:], strict=False)]
    marks = pd.get_dummies(train["label"])
    y = (marks[:-7].to_numpy() | marks[7:].to_numpy()).astype(int)
    paths = {f"paths__{name}": str(tmp_path / name) for name in ("runs", "data", "cache")}
    classifier = kontrast.TextClassifier("tfidf_labels", "bag_of_words", **paths)
    scores = cross_val_score(classifier, np.array(texts), y, cv=2, scoring="f1_micro", error_score="raise")
    assert scores.mean() > 0.8
    rare = np.column_stack([np.arange(len(y)) < 5, y])  # which half of the rows lack
    with pytest.warns(UserWarning, match="y: no text has the label '0', which is never predicted"):
        scores = cross_val_score(classifier, np.array(texts), rare, cv=2, scoring="f1_micro", error_score="raise")
    assert scores.mean() > 0.8
    columns = [f" {name}" for name in marks.columns]  # the space is no part of a label's name
    answers = classifier.fit(texts, pd.DataFrame(y, columns=columns)).predict(texts)
    assert classifier.classes_.tolist() == columns and (answers == y).mean() > 0.9
    probabilities = kontrast.load(classifier.run_, **paths).predict_proba(texts)
    assert probabilities == pytest.approx(classifier.predict_proba(texts))


@pytest.mark.slow
def test_an_installed_package_claims_its_own_name_alone(tmp_path):
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    source = tmp_path / "source"
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    tracked = listing.stdout.split("\n")
    for name in filter(None, tracked):
        if (ROOT / name).is_file() and not name.startswith(("docs/", "reports/", "tests/")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(site), str(source)], check=True, capture_output=True)
    assert {path.name for path in site.iterdir() if path.suffix != ".dist-info"} == {"kontrast", "bin"}
    environment = {**os.environ, "PYTHONPATH": str(site)}

    def python(*words):
        return subprocess.run(
            [sys.executable, *words], cwd=elsewhere, env=environment, capture_output=True, text=True, check=False
        )

    assert "ModuleNotFoundError" in python("-c", "import losses").stderr
    assert python("-c", "import kontrast, losses.scl_hnm as l; print(l.__file__)").stdout.startswith(str(site))
    assert python("-m", "kontrast", "--version").stdout.strip() == kontrast.__version__
    (elsewhere / "engine.py").touch()  # which the command passes over
    refused = python("-m", "kontrast", "run", "method=cee")
    assert refused.returncode == 2 and "did you mean ce" in refused.stderr


@pytest.mark.parametrize(
    ("label", "cell"),
    [
        ({"b", "a"}, '["a", "b"]'),
        (frozenset("b"), '["b"]'),
        (2.0, "2"),
        (2.5, "2.5"),
        (float("nan"), ""),
        ("2.0", "2.0"),
    ],
)
def test_labels_of_a_frame_are_written_alike_each_time(label, cell):
    assert _label(label) == cell


def test_a_plain_label_beside_lists_is_the_only_one_of_its_text(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("tasks.auto.answered", lambda config, words: asked.append(config) or tmp_path)
    labels = [np.array(["a"]), np.array(["a", "b"]), {"b"}, [], None, float("nan"), "nan", 1.0, np.array(["a"])]
    frame = pd.DataFrame({"text": [f"text {n}" for n in range(9)], "label": labels}, dtype=object)
    kontrast.auto(frame, paths__data=str(tmp_path))
    assert pd.read_parquet(asked[0].input)["label"].tolist() == [
        '["a"]', '["a", "b"]', '["b"]', "[]", "", "", "", '["1"]', '["a"]']  # fmt: skip
    data = read_labelled(asked[0].input, "text", "label")
    assert data.labels == [("a",), ("a", "b"), ("b",), (), ("1",), ("a",)] and len(data.unlabelled) == 3


@pytest.mark.parametrize("room", ["labelling", "papers", "losses"])
@pytest.mark.parametrize(("key", "places"), [("__file__", "/other/room.py"), ("__path__", ["/other/room"])])
def test_a_module_of_another_project_with_the_name_of_a_room_is_refused(monkeypatch, room, key, places):
    kontrast._open_rooms()  # those of its own are fine
    module = ModuleType(room)
    setattr(module, key, places)
    monkeypatch.setitem(sys.modules, room, module)
    with pytest.raises(ImportError, match=f"a module '{room}' of another project is loaded"):
        kontrast._open_rooms()


@pytest.mark.parametrize("rooms", ["site", "site/kontrast/_rooms"])  # of a checkout, of an installed package
def test_a_module_beside_a_script_stays_and_what_would_import_it_is_refused(tmp_path, rooms):
    for name in (rooms + "/callbacks", "site/kontrast"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    (tmp_path / rooms / "callbacks/__init__.py").touch()
    (tmp_path / "site/kontrast/__init__.py").write_bytes(Path(kontrast.__file__).read_bytes())
    own = tmp_path / "callbacks.py"
    own.touch()
    script = tmp_path / "script.py"
    script.write_text(
        "import kontrast\n"
        "try:\n    kontrast.auto\nexcept ImportError as error:\n    print(error)\n"
        "import callbacks\nprint(callbacks.__file__)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    shown = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True).stdout
    refused, imported = shown.splitlines()
    assert refused.startswith(f"kontrast: a module 'callbacks' of another project comes first on the path ({own}); ")
    assert refused.endswith("or the command `kontrast`, which runs beside it") and imported == str(own)


def test_the_command_runs_in_a_folder_whose_modules_have_the_names_of_rooms(tmp_path):
    for room in ("engine", "storage", "tasks"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text("raise SystemExit('another project')")
    environment = {**os.environ, "PYTHONPATH": str(kontrast.ROOMS)}
    for words in (["--version"], ["run", "--help", "auto"]):
        line = [sys.executable, "-m", "kontrast", *words]
        subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, check=True)


def test_truth_values_are_those_of_a_run_that_called_them_otherwise():
    for names in (["False", "True"], ["FALSE", "TRUE"]):
        classifier = kontrast.TextClassifier()
        classifier._names = names
        assert classifier._answer_in(["FALSE", "TRUE"], np.array([False, True]))._order.tolist() == [0, 1]
