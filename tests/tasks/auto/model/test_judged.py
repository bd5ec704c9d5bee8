"""A test file of the person's own."""

import pytest

from reporting.auto.report import write_report
from storage.errors import InputError
from storage.run_store import RunFolder
from tasks.auto.model.judged import read_test, reading_words_of, rows_shared
from tasks.auto.reading.labelled import label_more_line, why_no_more_labels
from tasks.auto.reading.table import read_labelled
from tests.reporting.auto.folders import write_folder
from tests.tasks.auto.files import TEXTS, write


def test_a_test_file_is_read_as_it_is_evaluated(tmp_path):
    rows = [*zip(TEXTS, ["größe", "farbe"] * 6, strict=True), ("N/A", "farbe"), ("one more", "N/A")]
    file = write(tmp_path / "a.csv", ("text", "label"), rows, "cp1252")
    data = read_labelled(file, encoding="cp1252", missing=["N/A"])
    table = [("new", "größe"), ("N/A", "größe"), ("more", "N/A"), (TEXTS[0].upper(), "farbe"), (TEXTS[1], "strange")]
    assert " dataset.encoding=cp1252 " in label_more_line(data)
    test = read_test(write(tmp_path / "b.csv", ("text", "label"), table), data)
    assert (test.labels, rows_shared(test, data)) == (["größe", "farbe", "strange"], 1)
    assert {"encoding=utf-8", "missing=[N/A]", "header=true"} < set(reading_words_of(test))
    numbers = tmp_path / "c.jsonl"
    numbers.write_text('{"text": "new", "label": "farbe"}\n{"text": 2024, "label": "farbe"}\n')
    with pytest.raises(InputError, match=r"c\.jsonl:2: found a text that is a number or the like, allowed: a string"):
        read_test(str(numbers), data)
    data.about["unlabelled"] = "more.csv"  # which may be in another encoding
    assert why_no_more_labels(data).startswith("it would read more.csv in the typed encoding too")


def test_figures_of_a_test_file_are_of_the_model_that_is_recommended(tmp_path):
    folder = RunFolder(write_folder(tmp_path / "auto-own"))
    recommended, model = write_report(folder.path)["recommended"], RunFolder(folder.path / "model")
    own = {"file": "own.csv", "rows": 9, "rows_left_out_for_labels": 0, "rows_of_input": 0}
    own |= {f"{name}{end}": 0.5 for name in ("accuracy", "macro_f1") for end in ("", "_low", "_high")}
    for candidate in (recommended, "tfidf"):
        model.write_json("own_test.json", own | {"candidate": candidate})
        is_shown = write_report(folder.path)["test"] is not None
        assert is_shown == ("own.csv" in (folder.path / "index.html").read_text()) == (candidate == recommended)
