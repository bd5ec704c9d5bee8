"""Evaluate and predict on a finished run; what each task takes."""

import csv
import io
import json
import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from attack.toy import small_options, write_csv_files
from datamodules.builders.user_files import Csv
from engine.finished import _read_alike
from storage.errors import ReportError
from storage.journal import kept_answers
from storage.tables import open_table
from tasks import predict
from tasks.sure import COPIES
from tests.command_lines import command, rows

TEXTS = ["the copper near a zinc", 'a "quoted" apple,\nand a pear', "snow  and\thail", "ÄÖ 日本 tiger"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_encoder_dir):
    """A run that the tests here have copies of: training it for each of them would take minutes."""
    folder = tmp_path_factory.mktemp("trained")
    files = write_csv_files(folder)
    words = ["dataset=csv", *(f"dataset.{split}={path}" for split, path in files.items()), "trainer.max_epochs=3"]
    paths = ["paths.source_mirror=null", *(f"paths.{name}={folder / name}" for name in ("runs", "data", "cache"))]
    result = command([*words, *paths, *small_options(tiny_encoder_dir)])
    assert result.code == 0, result.err
    return result


@pytest.fixture
def run(trained, tmp_path):
    for name in ("runs", "data", "cache"):
        shutil.copytree(trained.folder.parents[1] / name, tmp_path / name)
    return replace(trained, out=str(tmp_path / "runs" / trained.folder.name))


def csv_of(table: list[dict]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return stream.getvalue()


def test_a_run_of_a_gpu_in_half_precision_predicts_without_one(run, use, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    file = run.folder / "config.yaml"
    config = yaml.safe_load(file.read_text())
    config["trainer"] |= {"accelerator": "gpu", "precision": "16-mixed"}
    file.write_text(yaml.safe_dump(config))
    assert use("predict", run, "input=-", "output=-", stdin="text\na red apple\n").code == 0


def test_evaluate_gives_the_stored_figures(run, use):
    predictions = (run.folder / "predictions.csv").read_text()
    again = use("evaluate", run)
    figures = json.loads((again.folder / "evaluation.json").read_text())
    assert again.folder == run.folder
    assert figures == {key: run.metrics[key] for key in figures}
    assert {"test/accuracy", "val/macro_f1", "test/macro_f1_tail"} <= set(figures)
    assert (run.folder / "predictions.csv").read_text() == predictions


@pytest.mark.slow
def test_evaluate_refuses_rows_that_the_run_did_not_learn_from_and_a_model_of_auto(fit, use, toy_csv):
    run = fit("trainer.max_epochs=1")
    predictions = (run.folder / "predictions.csv").read_text()
    source = toy_csv["train"].read_text()
    toy_csv["train"].write_text(source + "another copper,metal\n")
    changed = f"{toy_csv['train']}: found other rows than {run.folder.name} learned from"
    assert use("evaluate", run).error == f"{changed}; allowed: the file as it was, or input=FILE"
    assert (run.folder / "predictions.csv").read_text() == predictions
    toy_csv["train"].write_text(source)
    (run.folder / "environment.json").unlink()  # of a run that does not say what it learned from
    assert use("evaluate", run).code == 0

    answer = run.folder.with_name("auto-toy")
    answer.mkdir()
    run.folder.rename(answer / "model")
    for name in ("question.json", "metrics.json"):
        (answer / name).write_text("{}")
    assert use("evaluate", "auto-toy").error == (
        "run=auto-toy: a model of task=auto, fitted to all rows (ranking.csv and out_of_fold.csv there are of rows "
        "that were not seen); allowed: input=FILE"
    )


@pytest.mark.slow
def test_a_labelled_file_as_test_rows_gives_the_figures_of_those_rows(run, use, toy_csv, tmp_path):
    again = use("evaluate", run, f"input={toy_csv['test']}")
    figures = json.loads((again.folder / "evaluation-input.json").read_text())
    keys = [f"test/{name}{end}" for name in ("accuracy", "macro_f1") for end in ("", "_low", "_high")]
    assert [figures[f"test/{name}"] for name in ("ece", "brier")] == pytest.approx(
        [run.metrics[f"test/{name}"] for name in ("ece", "brier")], abs=1e-6
    )
    assert {key: figures[key] for key in keys} == {key: run.metrics[key] for key in keys}
    assert [sum(row) for row in figures["confusion"]] == [row["rows"] for row in figures["classes"]]

    table = rows(toy_csv["test"])
    source = tmp_path / "labelled.csv"
    source.write_text(csv_of([{**row, "label": "never seen"} for row in table[:3]] + table))
    more = use("evaluate", run, f"input={source}")
    warning = f"warning: {source}:2: the run does not know every label; left out of all figures: 'never seen' (3 rows)"
    assert warning in more.err.splitlines()
    with_unknown = json.loads((more.folder / "evaluation-input.json").read_text())
    left_out = {"rows_of_unknown_labels": {"never seen": 3}, "rows_left_out_for_labels": 3}
    assert with_unknown == figures | {"input": str(source)} | left_out
    emptied = use("evaluate", run, f"input={source}", "missing=['never seen']").err.splitlines()
    assert f"warning: {source}:2: 3 rows without a label are left out" in emptied and warning not in emptied
    source.write_text(csv_of([row for row in table if row["label"] != table[0]["label"]]))
    absent = use("evaluate", run, f"input={source}").err
    assert f"{source}: no row is of '{table[0]['label']}'; some are predicted so, which macro-F1 counts as 0" in absent
    source.write_text("text\na text\n")
    error = use("evaluate", run, f"input={source}").error
    assert "labelled.csv:1: no column 'label' (set label_column=NAME), allowed" in error


def test_figures_of_a_file_are_shown_where_nothing_can_be_written(run, use, toy_csv, monkeypatch):
    def refuse(*_):
        raise ReportError("cannot write evaluation-input.json: Read-only file system")

    monkeypatch.setattr("storage.run_store.write_text", refuse)
    result = use("evaluate", run, f"input={toy_csv['test']}")
    assert result.code == 0 and "accuracy" in result.out
    warning = "warning: evaluation-input.json is not kept: cannot write evaluation-input.json: Read-only file system"
    assert warning in result.err.splitlines()


@pytest.mark.slow
def test_objects_may_lack_a_text_or_a_label_but_not_all_of_them(run, use, toy_csv, tmp_path):
    table, source, output = rows(toy_csv["test"]), tmp_path / "new.jsonl", tmp_path / "pred.jsonl"
    source.write_text("\n".join(map(json.dumps, [{"text": "a"}, {"label": table[0]["label"]}, *table])))
    evaluated = use("evaluate", run, f"input={source}")
    for line, what in ((1, "label"), (2, "text")):
        assert f"warning: {source}:{line}: 1 rows without a {what} are left out" in evaluated.err.splitlines()
    assert use("predict", run, f"input={source}", f"output={output}").code == 0
    answers = [json.loads(line).get("prediction") for line in output.read_text().splitlines()]
    assert len(answers) == len(table) + 2 and [bool(answer) for answer in answers[:3]] == [True, False, True]
    output.unlink()
    assert use("predict", run, f"input={source}", f"output={output}", "text_column=txt").error.startswith(
        f"{source}:1: no key 'txt' (set text_column=NAME; the run learned from text)"
    )
    assert not output.exists()
    unlabelled = use("evaluate", run, f"input={source}", "label_column=kind").error
    assert unlabelled == f"{source}: no row has a key 'kind'; set label_column=NAME"


def test_predictions_of_the_test_file_are_those_of_the_run(run, use, toy_csv, tmp_path, monkeypatch):
    output = tmp_path / "pred.csv"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert use("predict", run, f"input=~/{toy_csv['test'].name}", "output=~/pred.csv").folder == run.folder
    stored = [row for row in rows(run.folder / "predictions.csv") if row["split"] == "test"]
    predicted = rows(output)
    assert [row["text"] for row in predicted] == [row["text"] for row in rows(toy_csv["test"])]
    assert [(row["label"], row["prediction"]) for row in predicted] == [
        (row["label"], row["prediction"]) for row in stored
    ]
    for row, expected in zip(predicted, stored, strict=True):
        assert float(row["probability"]) == pytest.approx(float(expected["probability"]), abs=2e-6)


@pytest.mark.slow
def test_a_row_without_a_text_is_kept_and_not_answered(run, use, toy_csv, tmp_path):
    table = rows(toy_csv["test"])
    blank = [*table[:2], {"text": " \u200b", "label": "metal"}, *table[2:]]
    unlabelled = {"text": "a text", "label": " "}
    (tmp_path / "in.csv").write_text(csv_of(blank))
    predicted = use("predict", run, f"input={tmp_path}/in.csv", f"output={tmp_path}/out.csv")
    assert predicted.err.splitlines()[-1].endswith("; not answered, without a text: 1")
    answered = rows(tmp_path / "out.csv")
    assert [row["text"] for row in answered] == [row["text"] for row in blank]
    assert [row["prediction"] for row in answered if not row["prediction"]] == [""] == [answered[2]["probability"]]
    use("predict", run, f"input={toy_csv['test']}", f"output={tmp_path}/whole.csv")
    assert [row["prediction"] for row in answered[:2] + answered[3:]] == [
        row["prediction"] for row in rows(tmp_path / "whole.csv")
    ]
    (tmp_path / "in.csv").write_text(csv_of([row | {"text": row["text"].replace(" \u200b", "n/a")} for row in blank]))
    use("predict", run, f"input={tmp_path}/in.csv", f"output={tmp_path}/out.csv", "missing=[N/A,metal]")
    assert rows(tmp_path / "out.csv") == [row | {"text": row["text"].replace(" \u200b", "n/a")} for row in answered]
    (tmp_path / "in.csv").write_text(csv_of([*blank, unlabelled]))
    evaluated = use("evaluate", run, f"input={tmp_path}/in.csv")
    for line, what in ((4, "text"), (len(blank) + 2, "label")):
        assert f"warning: {tmp_path}/in.csv:{line}: 1 rows without a {what} are left out" in evaluated.err.splitlines()
    assert json.loads((run.folder / "evaluation-input.json").read_text())["rows"] == len(table)


@pytest.mark.slow
def test_order_columns_quotes_and_line_ends_are_kept(run, use, tmp_path):
    table = [{"id": str(7 * number), "text": text, "note": "a,b"} for number, text in enumerate(TEXTS * 3)]
    source, output = tmp_path / "new.csv", tmp_path / "deep" / "pred.csv"
    source.write_bytes(b"\xef\xbb\xbf" + csv_of(table).encode())
    assert use("predict", run, f"input={source}", f"output={output}").code == 0
    predicted = rows(output)
    assert [{key: row[key] for key in ("id", "text", "note")} for row in predicted] == table
    assert len({(row["text"], row["prediction"], row["probability"]) for row in predicted}) == len(TEXTS)
    assert {row["prediction"] for row in predicted} <= set(run.metrics["label_names"])

    lines = tmp_path / "new.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in table), encoding="utf-8")
    assert use("predict", run, f"input={lines}", f"output={tmp_path}/pred.jsonl").code == 0
    from_lines = [json.loads(line) for line in (tmp_path / "pred.jsonl").read_text(encoding="utf-8").splitlines()]
    assert from_lines == [row | {"probability": float(row["probability"])} for row in predicted]


@pytest.mark.slow
def test_a_pipe_carries_nothing_but_the_csv(run, use):
    result = use("predict", run, "input=-", "output=-", "text_column=title", stdin=csv_of([{"title": TEXTS[1]}]))
    assert result.code == 0, result.err
    (row,) = csv.DictReader(io.StringIO(result.out))
    assert list(row) == ["title", "prediction", "probability"] and row["title"] == TEXTS[1]
    assert result.err.splitlines()[-1] == str(run.folder)
    text = use("predict", run, "input=-", "output=-", stdin="a text, of commas\n")
    assert list(csv.reader(io.StringIO(text.out)))[1][0] == "a text, of commas"


@pytest.mark.slow
def test_columns_that_are_joined_train_and_predict_as_one(fit, use, toy_csv, tmp_path):
    joined = fit("method=ce", "trainer.max_epochs=2", "callbacks.early_stopping=null")
    for file in toy_csv.values():
        table = [{"body": body, "title": title, "label": row["label"]} for row in rows(file)
                 for title, _, body in [row["text"].partition(" ")]]  # fmt: skip
        file.write_text(csv_of(table))
    apart = fit("method=ce", "trainer.max_epochs=2", "callbacks.early_stopping=null", "dataset.text_column=title+body")
    assert apart.metrics["test/accuracy"] == joined.metrics["test/accuracy"] and apart.folder != joined.folder
    output = tmp_path / "out.csv"
    result = use("predict", apart, f"input={toy_csv['test']}", f"output={output}", "text_column=title+body")
    assert result.code == 0, result.err
    assert list(rows(output)[0]) == ["body", "title", "label", "prediction", "probability"]
    stored = [row["prediction"] for row in rows(joined.folder / "predictions.csv") if row["split"] == "test"]
    assert [row["prediction"] for row in rows(output)] == stored
    error = use("predict", apart, f"input={toy_csv['test']}", f"output={output}", "text_column=title+text").error
    told = "(set text_column=NAME; the run learned from title+body)"
    assert error.startswith(f"{toy_csv['test']}:1: no column 'text' {told}")
    typo = use("predict", apart, f"input={toy_csv['test']}", f"output={output}", "text_column=text").error
    assert typo.startswith(f"{toy_csv['test']}:1: no column 'text' {told}"), "what is typed is not replaced"
    idle = use("evaluate", apart, "label_column=title").error
    assert idle == "label_column: has no effect without a file; allowed with task=evaluate: input=FILE beside it"
    separated = use("evaluate", apart, f"input={toy_csv['test']}", "label_separator=/", "text_column=title+body").error
    assert separated == "label_separator: found '/', and a text has one label in this run; allowed: null"
    remembered = use("predict", apart, f"input={toy_csv['test']}", f"output={output}")
    assert f"{toy_csv['test']}: text_column=title+body, as the run learned from\n" in remembered.err
    assert [row["prediction"] for row in rows(output)] == stored
    toy_csv["test"].write_text(csv_of([{"text": "no word of it", **row} for row in table]))
    use("predict", apart, f"input={toy_csv['test']}", f"output={output}")
    assert [row["prediction"] for row in rows(output)] == stored, "a column called text comes after the run's own"
    piped = use("predict", apart, "input=-", "output=-", stdin=csv_of(table))
    assert "stdin: text_column=title+body, as the run learned from\n" in piped.err
    assert [row["prediction"] for row in csv.DictReader(io.StringIO(piped.out))] == stored


@pytest.mark.slow
def test_without_a_header_a_table_is_read_as_the_run_learned_from_its_own(solve, use, toy_csv, tmp_path):
    lines = {split: file.read_text() for split, file in toy_csv.items()}
    for split, file in toy_csv.items():
        file.write_text(lines[split].partition("\n")[2])
    columns = ["dataset.text_column=column_1", "dataset.label_column=column_2"]
    run = solve("method=logistic", "dataset.header=false", *columns)
    stored = [row["prediction"] for row in rows(run.folder / "predictions.csv") if row["split"] == "test"]
    source, output = toy_csv["test"], tmp_path / "out.csv"
    said = "header=false, as the run learned from; header=true: its first row is one\n"
    predicted = use("predict", run, f"input={source}", f"output={output}")
    assert predicted.code == 0 and f"{source}: {said}" in predicted.err
    assert [row["prediction"] for row in rows(output)] == stored
    evaluated = use("evaluate", run, f"input={source}")
    assert evaluated.code == 0 and f"{source}: {said}" in evaluated.err
    assert json.loads((run.folder / "evaluation-input.json").read_text())["rows"] == len(stored)
    source.write_text(lines["test"])
    with_header = use("predict", run, f"input={source}", f"output={output}", "header=true", "text_column=text")
    assert with_header.code == 0 and said not in with_header.err
    assert [row["prediction"] for row in rows(output)] == stored
    source = tmp_path / "new.jsonl"  # names its columns itself
    source.write_text('{"column_1": "hail"}\n')
    assert use("predict", run, f"input={source}", f"output={output}").code == 0


@pytest.mark.slow
def test_a_sheet_that_the_run_learned_from_is_read_where_the_new_book_has_it(solve, use, toy_csv, tmp_path, caplog):
    import openpyxl

    def book(name, sheets):
        book = openpyxl.Workbook()
        for title, table in sheets.items():
            sheet = book.create_sheet(title)
            for row in table:
                sheet.append(row)
        book.save(tmp_path / name)
        return tmp_path / name

    tables = {split: list(csv.reader(file.read_text().splitlines())) for split, file in toy_csv.items()}
    other = [("text", "label"), ("no word of it", "x")]
    files = {split: book(f"{split}.xlsx", {"Notes": other, "Data": table}) for split, table in tables.items()}
    run = solve("method=logistic", "dataset.sheet=Data", *(f"dataset.{split}={file}" for split, file in files.items()))
    stored = [row["prediction"] for row in rows(run.folder / "predictions.csv") if row["split"] == "test"]
    source, output, said = files["test"], tmp_path / "out.csv", "sheet=Data, as the run learned from\n"
    predicted = use("predict", run, f"input={source}", f"output={output}")
    assert f"{source}: {said}" in predicted.err and "sheet=NAME" not in caplog.text
    assert [row["prediction"] for row in rows(output)] == stored
    assert f"{source}: {said}" in use("evaluate", run, f"input={source}").err
    chosen = use("predict", run, f"input={source}", f"output={output}", "sheet=Notes")
    assert said not in chosen.err and len(rows(output)) == 1
    lacking = book("new.xlsx", {"May": tables["test"], "June": other})
    first = use("predict", run, f"input={lacking}", f"output={output}")
    assert said not in first.err and "'May'; sheet=NAME reads another" in caplog.text
    assert [row["prediction"] for row in rows(output)] == stored


def test_neither_the_file_that_is_read_nor_another_of_people_is_written_over(run, use, tmp_path):
    source = tmp_path / "new.csv"
    source.write_text("text\nhail\n")
    error = use("predict", run, f"input={source}", f"output={tmp_path}/../{tmp_path.name}/new.csv").error
    assert "the input itself, allowed: another file" in error and source.read_text() == "text\nhail\n"
    output = tmp_path / "labelled.csv"
    output.write_text("text,label\nhail,weather\n")
    error = use("predict", run, f"input={source}", f"output={output}").error
    assert "a file that holds something else" in error and output.read_text() == "text,label\nhail,weather\n"


def test_probabilities_of_all_labels_and_the_lines(run, use, tmp_path):
    source, output = tmp_path / "new.csv", tmp_path / "pred.csv"
    source.write_text('text\n"two\nlines"\nhail\n')
    result = use("predict", run, f"input={source}", f"output={output}", "probabilities=true")
    predicted, names = rows(output), run.metrics["label_names"]
    assert [row["line"] for row in predicted] == ["2", "4"]
    for row in predicted:
        scores = {name: float(row[f"p_{name}"]) for name in names}
        assert sum(scores.values()) == pytest.approx(1, abs=1e-5)
        assert (row["prediction"], float(row["probability"])) == max(scores.items(), key=lambda item: item[1])
    assert result.err.splitlines()[-1].startswith("2 rows, ")


@pytest.mark.slow
def test_answers_are_sure_from_where_validation_rows_show_the_precision_on(run, use, toy_csv, tmp_path):
    line = ("predict", run, f"input={toy_csv['test']}", f"output={tmp_path}/pred.csv")
    use(*line)
    plain = rows(tmp_path / "pred.csv")
    middle = sorted(float(row["probability"]) for row in plain)[len(plain) // 2]
    file = run.folder / "predictions.csv"
    kept = [{"split": split, "index": number, "label": "a", "prediction": "a" if right else "b", "probability": sure}
            for split, right, sure, numbers in [("test", False, 1.0, range(90)), ("val", True, middle, range(30)),
            ("val", False, middle - 0.01, range(30, 60))] for number in numbers]  # fmt: skip
    file.write_text(csv_of(kept))
    assert f"from probability {middle:.6f} on; 50 % of 60 validation rows" in use(*line, "sure=0.9").err
    expected = [row | {"sure": "yes" if float(row["probability"]) >= middle else "no"} for row in plain]
    assert rows(tmp_path / "pred.csv") == expected and {row["sure"] for row in expected} == {"yes", "no"}

    (run.folder / COPIES).write_text(json.dumps([[place, 0] for place in range(1, 10)]))
    assert use(*line, "sure=0.9").error.startswith("sure: found 0.9; allowed: less, or null; the 51 validation rows")
    (run.folder / COPIES).unlink()  # as a run of an older version
    assert "50 % of 60 validation rows, those of equal texts counted singly, 100" in use(*line, "sure=0.9").err
    assert use(*line, "sure=0.99").error.startswith("sure: found 0.99; allowed: less, or null; the 60 validation rows")
    file.write_text(csv_of(kept[:1]))
    assert use(*line, "sure=0.9").error.endswith(f"allowed: null, for {run.folder.name} has no validation rows")
    (run.folder / "metrics.json").write_text(json.dumps(run.metrics | {"abstention/threshold": 0.5}))
    assert use(*line, "sure=0.9").error.startswith("sure: found 0.9; allowed: null; a model of task=auto")


@pytest.mark.slow
def test_what_was_stopped_goes_on_after_its_answers(run, use, tmp_path, monkeypatch):
    source, whole, output = tmp_path / "new.csv", tmp_path / "whole.csv", tmp_path / "pred.csv"
    source.write_text(csv_of([{"text": f"{text} {number}"} for number, text in enumerate(TEXTS * 5)]))
    monkeypatch.setattr(predict, "PIECE", 6)
    use("predict", run, f"input={source}", f"output={whole}")
    scores, asked = predict.Predictor.scores, []

    def counted(predictor, texts):
        asked.append(len(texts))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return scores(predictor, texts)

    monkeypatch.setattr(predict.Predictor, "scores", counted)
    line = ("predict", run, f"input={source}", f"output={output}")
    assert use(*line).code == 130 and not output.exists()
    again = use(*line)
    assert asked == [6, 6, 6, 6, 2] and output.read_bytes() == whole.read_bytes()
    assert "20 rows, 12 of them by an earlier start" in again.err
    assert not list(tmp_path.glob(".*"))


def test_answers_are_kept_for_the_same_question_and_as_far_as_they_are_whole(tmp_path):
    output, journal = tmp_path / "out.csv", tmp_path / ".out.csv.answers"

    def ask(question, stops=True):
        with pytest.raises(RuntimeError) if stops else nullcontext(), kept_answers(output, question) as answers:
            pieces = [answers.answers(lambda number=number: [number, question]) for number in range(2)]
            if stops:
                raise RuntimeError
        return [(number, kept) for (number, _), kept in pieces] if not stops else None

    ask("a")
    journal.write_bytes(journal.read_bytes()[:-3])  # the last piece is torn
    assert ask("a", stops=False) == [(0, True), (1, False)] and not journal.exists()
    ask("a")
    assert ask("b", stops=False) == [(0, False), (1, False)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content", "finding"),
    [
        ("a.csv", "title\nx\n", ":1: no column 'text' (set text_column=NAME), allowed with"),
        ("a.csv", "text\n", ": no rows"),
        ("a.csv", "sep=,\n\ntext,prediction\nx,mine\n", ":3: column 'prediction' would be overwritten"),
        ("a.csv", "", ": the file is empty"),
        ("a.csv", "text,b\nx\n", ":2: 1 fields"),
        ("a.csv", "text\nx,y\n", ":2: 2 fields"),
        ("a.csv", 'text\n"open\n', ":2: not CSV"),
        ("a.csv", b"text\nok \xc3\xa9\n\xff\xfe\n", "is not UTF-8"),
        ("a.jsonl", '{"text": "x"}\n[]\n', ":2: "),
        ("a.jsonl", '{"text": "x"}\n{"text": 3}\n', ":2: "),
        ("a.jsonl", '{"text": "x"}\n{"text"\n', ":2: "),
        ("a.csv", "PK\x03\x04", ": found a ZIP archive, as XLSX is, allowed: text, as CSV"),
    ],
)
def test_bad_input_is_named_by_file_and_line_and_leaves_no_output(run, use, tmp_path, name, content, finding):
    source, output = tmp_path / name, tmp_path / "pred.csv"
    source.write_bytes(content if isinstance(content, bytes) else content.encode())
    output.write_text("prediction\nearlier\n")
    error = use("predict", run, f"input={source}", f"output={output}").error
    assert error.startswith(str(source)) and finding in error
    assert output.read_text() == "prediction\nearlier\n"
    assert not list(tmp_path.glob(".*.tmp"))


@pytest.mark.parametrize(
    ("task", "options", "finding"),
    [
        ("predict", [], "input, output: task=predict needs both"),
        ("predict", ["input=-"], "input, output: task=predict needs both"),
        ("predict", ["input=none.csv", "output=-"], "input: found 'none.csv', no such file"),
        ("predict", ["input=.", "output=-"], "input: found '.', no such file"),
        ("predict", ["input=-", "output=''"], "output: found ''"),
        ("predict", ["input=-", "output=a.xlsx"], "output: found 'a.xlsx'"),
        ("predict", ["input=-", "output=/dev/full"], "no space left in /dev for full"),
        ("export", ["output=''"], "output: found ''"),
        ("export", ["output=/dev/null"], "output: '/dev/null' is no folder"),
        ("predict", ["input=-", "output=-", "seed=1"], "seed: task=predict takes everything else from the run"),
        ("evaluate", ["output=x"], "output: task=evaluate takes everything else from the run"),
        ("export", ["output=tests"], "output: tests holds something else"),
    ],
)
def test_what_a_task_needs_and_takes(run, use, task, options, finding, monkeypatch):
    monkeypatch.chdir(Path(__file__).resolve().parents[2])
    assert finding in use(task, run, *options, stdin="a text\n").error


def test_an_input_that_is_not_there_is_told_before_anything_is_loaded(monkeypatch, use):
    monkeypatch.setattr("tasks.dispatch._loaded", None)
    assert use("predict", "nowhere", "input=none.csv", "output=-").error == (
        "input: found 'none.csv', no such file; allowed: a file with rows, or - for stdin")  # fmt: skip


@pytest.mark.parametrize(("typed", "delimiter"), [({}, None), ({"delimiter": "tab"}, "\t"), ({"delimiter": "|"}, "|")])
def test_a_model_of_auto_reads_new_files_with_the_delimiter_that_was_typed(tmp_path, typed, delimiter):
    dataset, file = Csv(train="a.csv"), tmp_path / "b.csv"
    _read_alike(dataset, {"text_columns": ["text"], "label_column": "kind", "typed": typed})
    assert dataset.delimiter == delimiter and dataset.learned_columns == {"text": "text", "label": "kind"}
    file.write_text((delimiter or ",").join(["text", "a,b" if delimiter else "b"]) + "\n")  # by itself a comma
    assert open_table(file, delimiter=dataset.delimiter).columns[0] == "text"


@pytest.mark.slow
def test_a_run_that_is_not_there_or_not_finished(run, use):
    assert "nearest: " + run.folder.name in use("predict", "sharprecl-cvs-1", "input=-", "output=-").error
    metrics = run.metrics | {"status": "failed"}
    (run.folder / "metrics.json").write_text(json.dumps(metrics))
    assert "its status is failed; needed: finished" in use("evaluate", run.folder.name).error


@pytest.mark.slow
def test_a_damaged_checkpoint_is_refused(run, use):
    best = run.folder / "checkpoints" / "best.ckpt"
    best.write_bytes(best.read_bytes()[:1000])
    assert "best.ckpt: found other bytes than the run wrote" in use("evaluate", run.folder.name).error
    folder = use("predict", run.folder.name, "input=.", "output=-").error  # told before the model is loaded
    assert folder == "input: found '.', no such file; allowed: a file with rows, or - for stdin"
    best.write_text("garbage\n")
    assert "best.ckpt: found other bytes than the run wrote" in use("evaluate", run.folder.name).error
