"""A question as it is typed: how its input is read, the folder's name, lines to type next."""

import json
import shlex
import subprocess

import pytest
from omegaconf import OmegaConf

from engine.identify import compose_run
from reporting.auto.commands import predict_line
from storage.command_words import quoted
from storage.errors import InputError
from storage.run_store import RunFolder
from tasks.auto import _name_of, _read, next_lines, passed_on, safe_name, stem_of
from tasks.auto.candidates.plans import plan_of
from tasks.auto.comparison.clock import Clock
from tasks.auto.reading.guesses import LISTS
from tasks.auto.reading.table import read_labelled
from tests.command_lines import command
from tests.tasks.auto.files import LABELS, TEXTS, TITLES, write


def read_by(*words):
    return _read(OmegaConf.create(dict(compose_run(words).config)), list(words), Clock(1))


def test_words_that_would_do_nothing_are_refused():
    assert passed_on(["task=auto", "input=a.csv", "encoder=tiny", "seed=1"]) == ["encoder=tiny", "seed=1"]
    for word in ("method=ce", "trainer.max_epochs=3", "encoder.train=frozen", "loss.tau=1", "callbacks=none"):
        with pytest.raises(InputError, match=word):
            passed_on([word])
    assert safe_name("Kunden Mails (neu)") == "Kunden_Mails_neu"
    assert safe_name("отзывы 客户.2023") == "отзывы_客户.2023"
    stems = {"tickets.2023.csv": "tickets.2023", "a/b.CSV.gz": "b", "v1.2": "v1.2", "notes.txt": "notes"}
    assert {file: stem_of(file) for file in stems} == stems


def test_what_labels_mean_is_read_with_the_file(tmp_path, store):
    codes = [f"C0{number % 3}" for number in range(12)]
    file, names = write(tmp_path / "a.csv", ("text", "label"), zip(TEXTS, codes, strict=True)), tmp_path / "names.yaml"
    words = "task=auto", f"input={file}", f"class_descriptions={names}", *store
    names.write_text("C00: the sea\nC01: the hills\n")
    with pytest.raises(InputError, match="^class_descriptions=.*: no description of 'C02'; allowed: one of each label"):
        read_by(*words)
    names.write_text("C00: the sea\nC01: the hills\nC02: the sky\n")
    data = read_by(*words)
    assert data.descriptions == {"C00": "the sea", "C01": "the hills", "C02": "the sky"}
    assert data.notes == ["the labels are described, as 'C00' by 'the sea'"]
    with pytest.raises(InputError, match="class_descriptions: has no effect with dataset=csv; allowed with input=FILE"):
        read_by("task=auto", "dataset=csv", f"dataset.train={file}", *words[2:])


def test_a_data_set_of_files_hands_on_how_they_are_read(tmp_path, store):
    texts = [f"<i>{text}</i>" for text in TEXTS]
    file = write(tmp_path / "a.csv", ("body", "kind"), zip(texts, LABELS, strict=True), "cp1252", ";")
    columns = ["dataset.text_column=body", "dataset.label_column=kind", "dataset.markup=strip"]
    words = [f"dataset.train={file}", *columns, "dataset.encoding=cp1252", "dataset.delimiter=';'", *store]
    data = read_by("task=auto", "dataset=csv", *words)
    assert data.markup == "strip" and data.texts == TEXTS and data.descriptions == {}
    budget = [*words, f"dataset.test={file}", "dataset.labels=10", "seed=3"]
    kept = read_by("task=auto", "dataset=csv", *budget)
    fitted = plan_of([*budget, "dataset=csv", "method=prototypes", "protocol=fixed"])
    assert kept.texts == fitted.datamodule(fitted.corpus()).texts("train")  # the same as of task=fit
    assert predict_line(tmp_path, data.about).endswith(' encoding=cp1252 delimiter="\';\'" text_column=body')
    assert data.about["label_column"] == "kind"
    plain = write(tmp_path / "b.csv", ("text", "label"), zip(TEXTS, LABELS, strict=True))
    data = read_by("task=auto", "dataset=csv", f"dataset.train={plain}", *store)
    assert predict_line(tmp_path, data.about).endswith(" input=NEW.csv output=predictions.csv")


def test_the_test_rows_that_a_data_set_ships_stay_unread(tmp_path, store, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hub_cache")
    hub, rcv1 = tmp_path / "hub", tmp_path / "rcv1"
    for split in ("train", "val", "test"):
        rows = [{"text": f"{split} {text}", "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]
        for folder, file, parts in (
            (hub, f"{split}.jsonl", [json.dumps(row) for row in rows]),
            (rcv1, f"text_{split}", [row["text"] for row in rows]),
            (rcv1, f"label_{split}", [row["label"] for row in rows]),
        ):
            folder.mkdir(exist_ok=True)
            (folder / file).write_text("\n".join(parts) + "\n")
    for words in (["dataset=rcv1", f"dataset.folder={rcv1}"], ["dataset=hub", f"dataset.path={hub}"]):
        data = read_by("task=auto", *words, *store)
        assert len(data.texts) == 12 and "its test rows are not read" in data.notes
    data = read_by("task=auto", "dataset=hub", f"dataset.path={hub}", "dataset.test_split=null", *store)
    assert len(data.texts) == 12 and "its test rows are not read" not in data.notes


def test_a_data_set_says_what_its_codes_mean(tmp_path, store):
    stars = [f"{number % 3 + 1}" for number in range(12)]
    rows = zip(TEXTS, stars, TITLES, ["en"] * 12, strict=True)
    file = write(tmp_path / "a.csv", ("review_body", "stars", "review_title", "language"), rows)
    data = read_by("task=auto", "dataset=amazon_reviews", f"dataset.train={file}", *store)
    assert list(data.descriptions) == ["1", "2", "3"] and data.descriptions["3"].startswith("three stars")


def test_the_same_rows_on_other_lines_or_of_another_file_are_another_question(tmp_path, store):
    rows = [*zip(TEXTS, LABELS, strict=True)]
    files = [write(tmp_path / "a.csv", ("text", "label"), rows), write(tmp_path / "b.csv", ("text", "label"), rows)]
    (tmp_path / "x").mkdir()
    files += [write(tmp_path / "x" / "a.csv", ("text", "label"), [*rows[:1], (), *rows[1:]])]  # a blank line more
    config = OmegaConf.create(dict(compose_run(("task=auto", "input=a.csv", *store)).config))
    names = [_name_of(config, read_labelled(file), []) for file in [*files, files[0]]]
    assert len(set(names)) == 3 and names[0] == names[3]
    other_wishes = OmegaConf.merge(config, {"prefer": "speed", "precision": 0.9})  # of the same candidates
    assert _name_of(other_wishes, read_labelled(files[0]), []) == names[0]


def test_what_to_type_next_tells_of_rows_without_a_text_and_labels_nothing_where_labels_are_left(tmp_path):
    rows = [*zip(TEXTS, LABELS, strict=True), ("", "red"), ("more", "")]
    data, folder = read_labelled(write(tmp_path / "a.csv", ("text", "label"), rows)), RunFolder(tmp_path / "auto-a")
    folder.write_json("data.json", {"sampled_from": None})
    first, line = next_lines(folder, data)[-2:]
    assert first == "to label more, once the rows without a text are deleted:" and "active.oracle" in line
    folder.write_json("data.json", {"sampled_from": 12})
    assert not any("active.oracle" in line for line in next_lines(folder, data))
    data.about["label_separator"] = LISTS
    folder.write_json("data.json", {"sampled_from": None})
    assert next_lines(folder, data)[-1].endswith(", as a|b, not as lists")


def test_the_line_for_topics_composes(tmp_path):
    with pytest.raises(InputError) as error:
        read_labelled(write(tmp_path / "a b.csv", ("id", "the text"), enumerate(TEXTS), delimiter="|"), delimiter="|")
    words = shlex.split(str(error.value).split("topics of the texts: ")[1])[2:]
    run = compose_run(tuple(words))
    assert not run.problem and run.config["method"]["name"] == "sbert_words"
    assert run.config["dataset"]["train"] == str(tmp_path / "a b.csv")
    assert run.config["dataset"]["text_column"] == "the text" and run.config["dataset"]["delimiter"] == "|"


@pytest.mark.slow
def test_the_line_for_topics_runs_as_printed_whatever_the_names_hold(tmp_path, store):
    (folder := tmp_path / "Ann's $HOME \"new\" rows!2").mkdir()
    texts = [f"{subject} {number}" for number in range(6) for subject in ("goals of the match", "shares on a market")]
    file = write(folder / "my texts.csv", ("id", "the `text`"), enumerate(texts))
    with pytest.raises(InputError, match="no column looks like labels") as error:
        read_labelled(file)
    line = str(error.value).partition("python run.py ")[2].replace("sbert_words", "tfidf_kmeans")  # needs no encoder
    pasted = f"HISTFILE=; set -o history -H\nprintf '%s\\0' {line}\n"  # as an interactive shell reads it
    typed = subprocess.run(["bash"], input=pasted, capture_output=True, text=True, check=True)
    words = [word for word in typed.stdout.split("\0") if word]
    assert {f"dataset.train={quoted(file)}", "dataset.text_column='the `text`'"} < set(words)
    result = command([*words, *store, "logger=csv"])
    assert result.code == 0, result.err


@pytest.mark.slow
def test_where_all_rows_have_a_label_the_line_that_labels_more_takes_texts_of_another_file(tmp_path, store, small):
    data = read_labelled(write(tmp_path / "b.csv", ("text", "label"), zip(TEXTS, LABELS, strict=True)))
    folder = RunFolder(tmp_path / "auto-b")
    folder.write_json("data.json", {"sampled_from": None})
    what, line = next_lines(folder, data)[-2:]
    assert what == "to label more, of texts without a label in a file POOL.csv:" and "unlabelled=POOL.csv " in line
    assert line.endswith(f" active.budget={12 - 3 + 40}")  # of each of three classes one is a test row
    pool = write(tmp_path / "more.csv", ("text",), [(f"apple pear {number}",) for number in range(9)])
    words = shlex.split(line.replace("POOL.csv", pool).replace("=browser", "=prompt"))[2:]
    options = [*store, *small, "active.query_size=2", "trainer.max_epochs=1", "trainer.least_steps=0", "logger=csv"]
    result = command([*words, *options, "active.budget=11"], "12\n")
    assert result.metrics["labels"] == 11 and "test/accuracy" in result.metrics, result.err
    assert "9 of 12 answers are new, 3 are to texts that the pool has not\n" in result.err
