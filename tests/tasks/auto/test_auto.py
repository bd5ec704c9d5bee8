"""`task=auto` end to end on a small file, killed on the way, and what is done with its answer."""

import csv
import json
import shutil
from functools import partial

import pandas as pd
import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf
from scipy.special import logit

import kontrast
from attack.toy import FILLERS
from engine.identify import compose_config
from engine.plan import Plan
from reporting.auto import ranking
from storage.errors import InputError
from storage.run_store import RunFolder
from tasks.auto.candidates.calibration import calibrated_labels
from tasks.auto.model import last_fit
from tasks.predict import classifier_predictor
from tests.command_lines import command, rows
from tests.own_process import context, die_at_write, run_alone

CANDIDATES = "methods=[tfidf_linear,logistic,neighbours,prototypes,ce]"


@pytest.fixture
def words(store, toy_csv, tiny_encoder_dir):
    """The line, with a tiny encoder."""
    encoder = [f"encoder.path={tiny_encoder_dir}", "encoder.sha256=null", "trainer.precision=32"]
    return ["task=auto", f"input={toy_csv['train']}", "minutes=3", CANDIDATES, *encoder, *store]


def tables(folder):
    """What must not depend on when and how often the study was started."""
    return {file.name: pq.read_table(file) for file in sorted((folder / "out_of_fold").iterdir())}


@pytest.mark.slow
def test_the_answer_is_the_same_after_a_kill_and_its_model_predicts(
    words, use, tmp_path, toy_csv, tiny_encoder_dir
):
    whole = command([*words, f"paths.runs={tmp_path / 'whole'}"])
    expected = tables(whole.folder)
    assert set(expected) >= {"majority.parquet", "logistic.parquet", "tfidf_linear.parquet", "ce.parquet"}

    for number in (20, 60):  # files written before the end comes
        dies = partial(die_at_write, number, "after")
        process = context.Process(target=run_alone, args=(words, tmp_path / "output", dies))
        process.start()
        process.join()
        assert process.exitcode == -9
    half = the_run_of_auto(tmp_path / "runs")
    before = {file.name: file.stat().st_mtime_ns for file in (half / "folds").iterdir()}
    result = command(words)
    assert result.folder == half and tables(half) == expected
    again = {file.name: file.stat().st_mtime_ns for file in (half / "folds").iterdir()}
    assert before and before.items() <= again.items()  # what had ended was not done again

    titles = {entry["candidate"]: entry["title"] for entry in json.loads((half / "candidates.json").read_text())}
    assert titles["ce"] == f"{tiny_encoder_dir.name}, fine-tuned, cross-entropy"
    assert question_of(half)["encoder"] == tiny_encoder_dir.name
    metrics = result.metrics
    assert metrics["status"] == "finished" and f"{metrics['recommended']}.parquet" in expected
    assert metrics["minutes"]["used"] < 3.3
    page = (half / "index.html").read_text()
    assert metrics["sentence"].split(":")[0] in page
    assert "answered already" in command(words).out

    predicted = use("predict", str(half), f"input={toy_csv['test']}", f"output={tmp_path / 'out.csv'}")
    assert predicted.code == 0, predicted.err
    table = rows(tmp_path / "out.csv")
    assert sum(row["prediction"] == row["label"] for row in table) > 0.7 * len(table)
    assert all(0.25 <= float(row["probability"]) <= 1 for row in table)

    other_wishes_redo_the_report_alone(half, words)

    before = statuses(half)  # killed with no time left, it goes on with all that had ended
    (half / "question.json").write_text(json.dumps(question_of(half) | {"compared_minutes": None}))
    RunFolder(half).write_metrics(status="running", minutes={"asked": 3, "used": 2.99})
    assert command(words).code == 0 and statuses(half) == before and tables(half) == expected


def other_wishes_redo_the_report_alone(folder, words):
    """What `precision=` and `prefer=` change: the threshold, and the model where another is recommended."""
    files = [*folder.glob("folds/*"), folder / "model" / "checkpoints" / "best.ckpt"]
    before = {file: file.stat().st_mtime_ns for file in files}
    entries, first = statuses(folder), json.loads((folder / "metrics.json").read_text())["recommended"]
    sure = command([*words, "precision=0.6"])
    model = json.loads((folder / "model" / "metrics.json").read_text())
    assert sure.folder == folder and sure.metrics["abstention"]["precision"] == question_of(folder)["precision"] == 0.6
    assert sure.metrics["recommended"] == first and model["abstention/threshold"] is not None
    assert before == {file: file.stat().st_mtime_ns for file in files} and statuses(folder) == entries
    kept = (folder / "candidates.json").read_text()  # without the first one another is recommended
    skipped = {"status": "skipped", "macro_f1": None}
    others = [entry | (skipped if entry["candidate"] == first else {}) for entry in json.loads(kept)]
    (folder / "candidates.json").write_text(json.dumps(others))
    fast = command([*words, "prefer=speed"])
    model = json.loads((folder / "model" / "metrics.json").read_text())
    assert fast.folder == folder and fast.metrics["recommended"] == model["candidate"] != first
    assert list(before.items())[:-1] == [(file, file.stat().st_mtime_ns) for file in files[:-1]]
    (folder / "candidates.json").write_text(kept)
    assert "answered already" in command([*words, "prefer=speed"]).out


def question_of(folder):
    return json.loads((folder / "question.json").read_text())


def statuses(folder):
    """How each candidate ended."""
    return {entry["candidate"]: entry["status"] for entry in json.loads((folder / "candidates.json").read_text())}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linear_words", "tfidf_linear"])
def test_rows_that_were_not_compared_are_learned_from(words, use, tmp_path, toy_csv, monkeypatch, name):
    for module in ("reading.rows", "answer"):
        monkeypatch.setattr(f"tasks.auto.{module}.MOST_ROWS", 40)
    number = len(rows(toy_csv["train"]))
    result = command([word for word in words if word != CANDIDATES] + [f"methods=[{name}]"])
    assert f" of {number} rows, drawn at random, are compared" in result.out and " on all rows\n" in result.out
    model = result.folder / "model"
    assert sum(json.loads((model / "metrics.json").read_text())["class_counts"]) == number
    predicted = use("predict", str(result.folder), f"input={toy_csv['test']}", f"output={tmp_path / 'out.csv'}")
    assert predicted.code == 0, predicted.err
    table = rows(tmp_path / "out.csv")
    assert sum(row["prediction"] == row["label"] for row in table) > 0.7 * len(table)


@pytest.mark.slow
def test_headlines_are_joined_and_the_line_that_predicts_says_so(words, use, tmp_path, toy_csv):
    table = [(f"so {row['text']}"[:12], row["text"], row["label"]) for row in rows(toy_csv["train"])]
    source = tmp_path / "2024-05-01.csv"  # no number for Hydra
    with source.open("w", newline="") as file:
        csv.writer(file).writerows([("title", "body", "label"), *table])
    result = command([*words, "methods=[tfidf_linear]", f"input={source}"])
    joined = "text 'title+body', label 'label', guessed (text_column=, label_column= say others), text_column=body"
    assert f"{joined} reads that alone; utf-8, delimiter ','" in result.err + result.out
    assert "text_column=body reads that alone" in (result.folder / "index.html").read_text()
    output = f"output={tmp_path / 'o.csv'}"
    untold = use("predict", str(result.folder), f"input={source}", output)
    assert f"{source}: text_column=title+body, as the run learned from\n" in untold.err and untold.code == 0
    (line,) = [line for line in result.out.splitlines() if "task=predict" in line]
    assert line.endswith(" text_column=title+body")
    assert use("predict", str(result.folder), f"input={source}", output, line.split()[-1]).code == 0
    figures = ("evaluate", str(result.folder), f"input={source}", line.split()[-1])
    assert use(*figures).code == 0
    model, frame = kontrast.load(result.folder), pd.read_csv(source)
    assert model.predict(frame).tolist() == [row["prediction"] for row in rows(tmp_path / "o.csv")]
    assert model.score(frame, frame["label"]) > 0.7
    with pytest.raises(InputError, match="X: found no column 'title', allowed: a frame with title.body, or"):
        model.predict(frame[["body", "label"]])


def test_without_labels_the_answer_is_topics(words, tmp_path, toy_csv, monkeypatch):
    asked = []
    monkeypatch.setattr("tasks.cluster.cluster", lambda config, words: asked.append(config) or tmp_path)
    table = [(number, row["text"]) for number, row in enumerate(rows(toy_csv["train"]))]
    source = tmp_path / "texts.csv"
    with source.open("w", newline="") as file:
        csv.writer(file).writerows([("no", "body"), *table])
    options = [word for word in words if not word.startswith(("input=", "methods="))]
    result = command([*options, f"input={source}", "seed=3"])
    names = "(label_column=NAME of 'no', 'body' says which)"
    assert result.out.splitlines()[1].startswith(f"{source}: no column looks like labels {names}")
    typed = f"method=sbert_words dataset=csv dataset.train={source} dataset.text_column=body method.num_clusters=auto"
    said = result.out.splitlines()[1]
    assert f"task=cluster {typed}" in said and said.endswith(" seed=3")
    line = [word for word in options if not word.startswith(("task=", "minutes="))]
    assert [*asked, result.folder] == [compose_config(["task=cluster", *typed.split(), *line, "seed=3"]), tmp_path]
    refused = command([*options, f"input={source}", "methods=[logistic]"])
    assert "no column looks like labels" in refused.error
    assert "no column looks like labels" in command([*options, f"input={source}", "missing=[NA]"]).error


@pytest.mark.slow
def test_a_last_fit_that_takes_too_long_gives_way_to_what_trains_no_encoder(words, use, tmp_path, toy_csv, monkeypatch):
    def recommend(eligible, *_):
        return "ce" if "ce" in set(eligible["candidate"]) else eligible["candidate"].iloc[0]

    monkeypatch.setattr(ranking, "recommend", recommend)
    monkeypatch.setattr(last_fit, "MOST_OVERTIME", -9.0)
    options = [word for word in words if not word.startswith("minutes=")] + ["methods=[tfidf_linear,ce]", "minutes=20"]
    result = command(options)
    assert (result.metrics["recommended"], result.metrics["not_fitted"]) == ("tfidf_linear", "ce")
    why = "cross-entropy, which would have been recommended, could not be fitted to all rows"
    assert why in result.metrics["sentence"]
    assert json.loads((result.folder / "model" / "metrics.json").read_text())["candidate"] == "tfidf_linear"
    assert "answered already" in command(options).out
    predicted = use("predict", str(result.folder), f"input={toy_csv['test']}", f"output={tmp_path / 'out.csv'}")
    assert predicted.code == 0, predicted.err


@pytest.mark.slow
def test_a_test_file_judges_the_model_and_chooses_nothing(words, use, tmp_path, toy_csv, monkeypatch):
    def fail(*_):
        raise InputError("no room")

    options, test = [*words, "methods=[tfidf_linear]", "missing=[N/A]"], tmp_path / "own test.csv"
    own, (known, *_) = rows(toy_csv["test"]), rows(toy_csv["train"])
    with test.open("w", newline="") as file:
        table = [(row["text"], row["label"]) for row in own]
        more = [(known["text"].upper(), known["label"]), ("of another kind", "unheard of")]
        csv.writer(file).writerows([("text", "label"), *table, *more])
    result = command([*options, f"test={test}"])
    figures = result.metrics["test"]
    assert (figures["rows"], figures["rows_of_input"]) == (len(own) + 1, 1)
    assert figures["rows_of_unknown_labels"] == {"unheard of": 1}
    assert figures["macro_f1_low"] <= figures["macro_f1"] <= figures["macro_f1_high"]
    line = f"On {test}, {len(own) + 1} rows that chose nothing: macro-F1 "
    page = (result.folder / "index.html").read_text()
    assert line in result.out and line in page and "task=evaluate" not in result.out + page
    counted = "; left out, of labels that the model does not know: 1; with a text that stands in the input, too: 1."
    assert counted in result.out
    without = command(options)
    assert without.folder == result.folder and without.metrics["test"] == figures and "answered already" in without.out
    assert use("evaluate", str(result.folder), f"input={test}").code == 0
    evaluated = json.loads((result.folder / "model" / "evaluation-input.json").read_text())
    assert evaluated["test/macro_f1"] == figures["macro_f1"]
    with test.open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *table])
    assert command([*options, f"test={test}"]).metrics["test"]["rows"] == len(own)
    test = test.rename(tmp_path / "renamed.csv")
    assert command([*options, f"test={test}"]).metrics["test"]["file"] == str(test)
    new, predictions = tmp_path / "new.csv", tmp_path / "predictions.csv"
    new.write_text("text,note\nn/a,N/A\na text,\n")
    predicted = use("predict", str(result.folder), f"input={new}", f"output={predictions}")
    assert f"{new}: texts of 'N/A' are empty, as the run learned" in predicted.err.splitlines()
    assert "not answered, without a text: 1" in predicted.err
    assert [*rows(predictions)[0].values()][:4] == ["n/a", "N/A", "", ""], "the file's own cells stay"
    options[-1] = "missing=[of_neither]"
    assert command([*options, f"test={test}"]).metrics["test"]["reading"][-1] == "missing=[of_neither]"
    with monkeypatch.context() as patch:
        patch.setattr("tasks.evaluate.evaluate", fail)
        failed = command([*options[:-1], f"test={test}"])
    assert failed.code == 0 and f"warning: test={test}: the model is not judged by it: no room" in failed.out
    assert "task=serve run=" in failed.out
    assert command([*options, "test=no.csv"]).error.startswith("test=no.csv: no such file; allowed: CSV")
    test.write_text("text,label\na text,unheard of\n")
    assert "renamed.csv: found no label of " in command([*options, f"test={test}"]).error


@pytest.mark.slow
def test_without_a_header_new_tables_are_read_as_its_own_was(words, use, tmp_path, toy_csv):
    source = toy_csv["train"]
    source.write_text(source.read_text().partition("\n")[2])
    result = command([*words, "methods=[tfidf_linear]", "header=false"])
    predicted = use("predict", str(result.folder), f"input={source}", f"output={tmp_path / 'o.csv'}")
    assert predicted.code == 0 and f"{source}: header=false, as the run learned from; " in predicted.err
    assert len(rows(tmp_path / "o.csv")) == len(source.read_text().splitlines())
    assert use("evaluate", str(result.folder), f"input={source}").code == 0
    assert kontrast.load(result.folder).run_ == result.folder.name
    alone = shutil.copytree(result.folder / "model", tmp_path / "alone")
    predicted = use("predict", str(alone), f"input={source}", f"output={tmp_path / 'alone.csv'}")
    assert predicted.code == 0 and f"{source}: header=false, as the run learned from; " in predicted.err
    assert rows(tmp_path / "alone.csv") == rows(tmp_path / "o.csv")
    assert "encoder_weights_sha256" in json.loads((alone / "environment.json").read_text())


@pytest.mark.slow
def test_the_sheet_that_was_named_is_said_and_read_of_new_books(words, use, tmp_path, toy_csv):
    import openpyxl

    source, book = tmp_path / "a.xlsx", openpyxl.Workbook()
    book.active.append(("no", "table"))
    sheet = book.create_sheet("My data")
    for row in csv.reader(toy_csv["train"].read_text().splitlines()):
        sheet.append(row)
    book.save(source)
    result = command([*words, "methods=[tfidf_linear]", f"input={source}", "sheet='My data'"])
    assert result.code == 0 and "; sheet 'My data'" in result.err + result.out
    assert "xlsx, sheet My data;" in (result.folder / "index.html").read_text()
    predicted = use("predict", str(result.folder), f"input={source}", f"output={tmp_path / 'o.csv'}")
    assert predicted.code == 0 and f"{source}: sheet=My data, as the run learned from\n" in predicted.err
    csv_input = use("predict", str(result.folder), f"input={toy_csv['test']}", f"output={tmp_path / 'o.csv'}")
    assert csv_input.code == 0, csv_input.err


@pytest.mark.slow
def test_codes_that_are_described_are_known_by_their_names_wherever_the_answer_lies(words, use, tmp_path, toy_csv):
    options = [*words, "methods=[nearest_name]"]
    by_names = {row["candidate"]: row["macro_f1"] for row in rows(command(options).folder / "ranking.csv")}
    source, descriptions = toy_csv["train"], tmp_path / "what.csv"
    names = sorted({row["label"] for row in rows(source)})
    codes = {name: f"C{number:02}" for number, name in enumerate(names)}
    table = [(row["text"], codes[row["label"]]) for row in rows(source)]
    for file, content in ((source, [("text", "label"), *table]), (descriptions, [(codes[n], n) for n in names])):
        with file.open("w", newline="") as stream:
            csv.writer(stream).writerows(content)
    answer = command([*options, f"class_descriptions={descriptions}"])
    by_codes = {row["candidate"]: row["macro_f1"] for row in rows(answer.folder / "ranking.csv")}
    assert by_names["nearest_name"] and by_codes == by_names
    moved = answer.folder.rename(tmp_path / "moved")
    descriptions.unlink()
    assert use("predict", str(moved), f"input={source}", f"output={tmp_path / 'o.csv'}").code == 0


def the_run_of_auto(store):
    (folder,) = [path for path in store.iterdir() if path.name.startswith("auto-")]
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["tfidf_linear", "nearest_name", "neighbours", "prototypes", "linear_words", "ce", "discriminant_unlabelled",
     "words_unlabelled", "kontrast", "setfit_pairs"],  # fmt: skip
)
def test_every_kind_of_candidate_becomes_a_model(words, use, tmp_path, toy_csv, name):
    """Recommended alone, each is fitted on all rows, and predicts what its folds would lead one to expect."""
    options = [word for word in words if not word.startswith(("methods", "minutes"))] + ["minutes=20"]  # a busy machine
    if name in ("discriminant_unlabelled", "words_unlabelled", "kontrast"):
        texts = [f"{row['text']} {filler}," for row in rows(toy_csv["train"]) for filler in FILLERS]
        with toy_csv["train"].open("a") as file:
            file.write("".join(f"{text}\n" for text in texts))
    result = command([*options, f"methods=[{name}]"])
    candidates = {entry["candidate"]: entry for entry in json.loads((result.folder / "candidates.json").read_text())}
    assert candidates[name]["status"] == "finished", candidates[name]["reason"]
    if name == "kontrast":  # 43 labelled rows alone would be 2 steps an epoch
        (history,) = tmp_path.glob(f"runs/{candidates[name]['run_ids'][0]}/history.csv")
        assert int(rows(history)[0]["step"]) == -(-(43 + 68 * len(FILLERS)) // 32)
    if name == "neighbours":
        refused = use("export", str(result.folder), "retrieval=none").error
        assert refused.startswith("retrieval: found none; this model of task=auto, neighbours, answers by its ")
    is_exported_where_a_line_says_so(result, use)
    if name == "setfit_pairs":
        nothing_validates([tmp_path / "runs" / run for run in candidates[name]["run_ids"]], tmp_path / "runs")
    model = json.loads((result.folder / "model" / "metrics.json").read_text())
    assert model["candidate"] == name
    predicted = use("predict", str(result.folder), f"input={toy_csv['train']}", f"output={tmp_path / 'out.csv'}")
    assert predicted.code == 0, predicted.err
    table = [row for row in rows(tmp_path / "out.csv") if row["label"]]
    right = sum(row["prediction"] == row["label"] for row in table) / len(table)
    assert right > 0.9 * candidates[name]["macro_f1"]


def is_exported_where_a_line_says_so(result, use):
    is_said = any("task=export" in line for line in result.out.splitlines())
    assert (use("export", str(result.folder)).code == 0) == is_said


def nothing_validates(folds, runs):
    """All rows but those of a fold train it, and all rows the model."""
    kept = {file.parent: json.loads(file.read_text()) for file in runs.glob("pairs_words-*/kept_indices.json")}
    whole = set(range(68))
    for fold in folds:
        assert kept[fold].keys() == {"train", "test"}
        assert set(kept[fold]["train"]) == whole - set(kept[fold]["test"])
    (model,) = kept.keys() - set(folds)
    assert kept[model].keys() == {"train"} and set(kept[model]["train"]) == whole


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["tfidf_linear", "logistic", "neighbours", "linear_words", "knn_mltc", "kontrast_labels"]
)
def test_texts_of_several_labels_get_a_model_that_gives_several(words, use, tmp_path, toy_csv, name):
    """Pairs of texts joined have the labels of both; a third of the texts has one."""
    table = rows(toy_csv["train"])
    joined = [(f"{a['text']} {b['text']}", {a["label"], b["label"]}) for a, b in zip(table, table[7:], strict=False)]
    joined += [(row["text"], {row["label"]}) for row in table[::2]]
    lines = [f'"{text}",{"|".join(sorted(labels))}' for text, labels in joined]
    toy_csv["train"].write_text("\n".join(["text,label", *lines]) + "\n")
    options = [word for word in words if not word.startswith("methods")]
    if name == "kontrast_labels":
        more = [f"{a['text']} {b['text']}" for a, b in zip(table, table[9:], strict=False)]
        (tmp_path / "more.csv").write_text("\n".join(["text", *more, *more[::2]]) + "\n")
        options.append(f"unlabelled={tmp_path / 'more.csv'}")
    result = command([*options, f"methods=[{name}]"])
    candidates = {entry["candidate"]: entry for entry in json.loads((result.folder / "candidates.json").read_text())}
    assert candidates[name]["status"] == "finished", candidates[name]["reason"]
    assert candidates[name]["macro_f1"] > candidates["majority"]["macro_f1"]
    predicted = use("predict", str(result.folder), f"input={toy_csv['train']}", f"output={tmp_path / 'out.jsonl'}")
    assert predicted.code == 0, predicted.err
    given = [json.loads(line)["prediction"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    hits = sum(len(set(answer) & labels) for answer, (_, labels) in zip(given, joined, strict=True))
    micro_f1 = 2 * hits / sum(len(answer) + len(labels) for answer, (_, labels) in zip(given, joined, strict=True))
    assert micro_f1 > 0.9 * candidates[name]["macro_f1"] and max(map(len, given)) > 1
    is_exported_where_a_line_says_so(result, use)
    if name == "tfidf_linear":  # what stands between the labels is guessed as it was
        evaluated = use("evaluate", str(result.folder), f"input={toy_csv['train']}")
        assert f"{len(joined)} rows of" in evaluated.out, evaluated.err
    if name in ("tfidf_linear", "knn_mltc"):
        thresholds_are_of_its_own_validation_rows(RunFolder(result.folder / "model"))


def thresholds_are_of_its_own_validation_rows(run):
    """As those of a fold are: what suits the scores of another run need not suit its own."""
    plan = Plan.make(OmegaConf.load(run.path / "config.yaml"))
    datamodule = plan.datamodule(plan.corpus())
    predictor = classifier_predictor(run, plan, explain=False)
    probabilities = predictor.scores(datamodule.texts("val"))[0]
    own = calibrated_labels(logit(probabilities.astype(float)), datamodule.labels["val"], rescale=False)
    assert predictor.threshold == pytest.approx(own.thresholds.tolist(), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("encoder", [[], ["encoder=pixels"]])
def test_images_are_refused_whichever_encoder_is_named(store, encoder):
    refused = command(["task=auto", "dataset=digits", *encoder, *store])
    assert refused.error.startswith("task: found auto; allowed with dataset=digits, which holds images: fit, ")
