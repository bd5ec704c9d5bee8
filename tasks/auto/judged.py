"""A test file of the person's own: checked with the input, and read once by the model when all is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from engine.identify import composed
from reporting.auto.evidence import OWN_TEST
from reporting.auto.report import write_report
from storage.command_words import value_word
from storage.errors import InputError, short_list
from storage.files import expanded, file_sha256
from storage.run_store import RunFolder
from storage.tables import folded, format_of, sheet_names
from tasks.auto.reading import GUESS, Labelled, read_labelled


def read_test(file: str, data: Labelled) -> Labelled:
    """The labelled rows of the file, read as the input was. Raises InputError: it cannot be, or no label is known."""
    path = expanded(file)
    if not path.is_file():
        raise InputError(f"test={file}: no such file; allowed: CSV, TSV, JSON Lines, XLSX, Parquet")
    kind, typed = format_of(path) or "csv", data.about["typed"]
    is_of = {
        "encoding": kind not in ("xlsx", "parquet"),
        "header": kind not in ("json", "parquet"),
        "delimiter": kind in ("csv", "tsv"),
        "sheet": kind == "xlsx" and typed.get("sheet") in sheet_names(str(path)),
    }
    reading = {key: value for key, value in typed.items() if is_of[key]}
    separator = data.about["label_separator"] or (GUESS if data.several else None)
    columns = data.about["text_columns"][0], data.about["label_column"]
    test = read_labelled(str(path), *columns, markup=data.markup, separator=separator, **reading)
    known = data.rows_of_label()
    if not set(known) & set(test.rows_of_label()):
        raise InputError(f"{file}: found no label of {data.file}; allowed: {short_list(sorted(known))}")
    return test


def rows_shared(test: Labelled, data: Labelled) -> int:
    """How many rows of the test file have a text that stands in the input, case and white space aside."""
    texts = {hash(folded(text)) for text in chain(data.texts, data.unlabelled)}
    return sum(hash(folded(text)) in texts for text in test.texts)


def judge(folder: RunFolder, model: RunFolder, test: Labelled, shared: int, words: Sequence[str]) -> None:
    """Figures of the model on the test file, as `task=evaluate` has them, into the report; those of the same model and
    file are there already."""
    digest = file_sha256(test.file)
    if model.has(OWN_TEST) and model.read_json(OWN_TEST)["sha256"] == digest:
        return
    from tasks.evaluate import FILE, evaluate

    typed = [word for word in words if word.startswith(("paths.", "trainer.num_threads"))]
    typed += ["task=evaluate", f"run={value_word(folder.path.absolute())}", f"input={value_word(test.file)}"]
    evaluate(composed(typed), typed)
    figures = model.read_json(FILE)
    about = {"file": test.file, "sha256": digest, "rows_of_input": shared}
    about |= {key: figures[key] for key in ("rows", "rows_of_unknown_labels")}
    own = {key.removeprefix("test/"): value for key, value in figures.items() if key.startswith("test/")}
    model.write_json(OWN_TEST, about | own)
    write_report(folder.path)
