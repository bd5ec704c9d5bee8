"""A test file of the person's own: checked with the input, and read once by the model when all is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from engine.identify import compose_config
from reporting.auto.evidence import OWN_TEST
from reporting.auto.report import write_report
from storage.command_words import value_word
from storage.errors import InputError, short_list
from storage.files import expanded, file_sha256
from storage.run_store import RunFolder
from storage.tables import folded, format_of, sheet_names
from tasks.auto.reading.guesses import GUESS
from tasks.auto.reading.labelled import Labelled
from tasks.auto.reading.table import read_labelled


def read_test(file: str, data: Labelled) -> Labelled:
    """The labelled rows of the file, read as the input was, whose encoding is what text that is not UTF-8 is read as.

    Raises:
        InputError: it cannot be read, a text is none, or no label is known; with file and line.
    """
    path = expanded(file)
    if not path.is_file():
        raise InputError(f"test={file}: no such file; allowed: CSV, TSV, JSON Lines, XLSX, Parquet")
    kind, typed = format_of(path) or "csv", data.about["typed"]
    is_of = {
        "header": kind not in ("json", "parquet"),
        "delimiter": kind in ("csv", "tsv"),
        "sheet": kind == "xlsx" and typed.get("sheet") in sheet_names(str(path)),
    }
    reading: dict[str, Any] = {key: value for key, value in typed.items() if is_of.get(key)}
    reading |= {"guess": typed.get("encoding"), "missing": data.about.get("missing")}
    separator = data.about["label_separator"] or (GUESS if data.several else None)
    columns = data.about["text_columns"][0], data.about["label_column"]
    test = read_labelled(str(path), *columns, markup=data.markup, separator=separator, **reading)
    if where := test.about["no_text"]:
        raise InputError(f"{where}: found a text that is a number or the like, allowed: a string")
    known = data.rows_of_label()
    if not set(known) & set(test.rows_of_label()):
        raise InputError(f"{file}: found no label of {data.file}; allowed: {short_list(sorted(known))}")
    return test


def rows_shared(test: Labelled, data: Labelled) -> int:
    """How many rows of the test file, of those whose labels are known, have a text that stands in the input, case and
    white space aside."""
    texts, known = {hash(folded(text)) for text in chain(data.texts, data.unlabelled)}, set(data.rows_of_label())
    labels = ({label} if isinstance(label, str) else set(label) for label in test.labels)
    return sum(own <= known and hash(folded(text)) in texts for text, own in zip(test.texts, labels, strict=True))


def reading_words_of(test: Labelled) -> list[str]:
    """The words by which `task=evaluate` reads the file as it was read here, whatever the model learned from."""
    about = test.about
    words: dict[str, Any] = {"text_column": about["text_columns"][0], "label_column": about["label_column"]}
    words |= {key: value for key in ("encoding", "delimiter", "sheet") if (value := about[key]) is not None}
    if test.several:
        words["label_separator"] = about["label_separator"]
    if about["format"] not in ("json", "parquet"):
        words["header"] = about["typed"].get("header", True)
    return [f"{key}={value_word(value)}" for key, value in (words | {"missing": about["missing"]}).items()]


def judge(folder: RunFolder, model: RunFolder, test: Labelled, shared: int, words: Sequence[str]) -> None:
    """Figures of the model on the test file, as `task=evaluate` has them, into the report; those of the same model and
    file, read alike, are there already."""
    reading, candidate = reading_words_of(test), model.read_metrics().get("candidate")
    about: dict[str, Any] = {"candidate": candidate, "file": test.file, "sha256": file_sha256(test.file)}
    about |= {"reading": reading, "rows_of_input": shared}
    if model.has(OWN_TEST) and about.items() <= model.read_json(OWN_TEST).items():
        return
    from tasks.evaluate import FILE, evaluate

    typed = [word for word in words if word.startswith(("paths.", "trainer.num_threads"))]
    typed += ["task=evaluate", f"run={value_word(folder.path.absolute())}", f"input={value_word(test.file)}", *reading]
    evaluate(compose_config(typed), typed)
    figures = model.read_json(FILE)
    about |= {key: figures[key] for key in ("rows", "rows_of_unknown_labels", "rows_left_out_for_labels")}
    own = {key.removeprefix("test/"): value for key, value in figures.items() if key.startswith("test/")}
    model.write_json(OWN_TEST, about | own)
    write_report(folder.path)
