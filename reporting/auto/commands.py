"""Commands that go on from an answer of `task=auto`, ready to paste."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from storage.command_words import quoted_word, shell_line
from storage.run_store import COMMAND

ONCE_DELETED = ", once the rows without a text are deleted"  # a line that refuses them works


def predict_line(folder: Path, file: Mapping[str, Any]) -> str:
    """What to type to predict a file like the one that was learned from.

    Args:
        folder: of the answer.
        file: facts of the file, an entry of `files` in `data.json`.
    """
    typed, column = file.get("typed", {}), file["text_columns"][0]
    words, name = reading_words(typed), "NEW.xlsx" if "sheet" in typed else "NEW.csv"
    words += [] if column == "text" else [f"text_column={quoted_word(column)}"]
    return " ".join([f"{COMMAND} task=predict {run_word(folder)} input={name} output=predictions.csv", *words])


def evaluate_line(folder: Path) -> str:
    """What to type to judge the model of an answer by a file of labelled rows, read as the one that it learned from."""
    return f"{COMMAND} task=evaluate {run_word(folder)} input=TEST.csv"


def run_word(folder: Path) -> str:
    """`run=FOLDER`, from the working folder where it lies below that."""
    whole, here = Path(os.path.abspath(folder)), Path.cwd()
    return f"run={quoted_word(str(whole.relative_to(here) if whole.is_relative_to(here) else folder))}"


def reading_words(typed: Mapping[str, Any], prefix: str = "") -> list[str]:
    """How a file is read, as it was typed: `encoding`, `delimiter`, `header`, `sheet`."""
    return [f"{prefix}{key}={quoted_word(str(value)) if value else 'false'}" for key, value in typed.items()]


def topics_line(
    file: str, text_column: str, typed: Mapping[str, Any], lacks_texts: bool, words: Sequence[str] = ()
) -> str:
    """What to type for topics of texts without labels.

    Args:
        file, text_column: where the texts stand.
        typed: how to read the file, of `Labelled.about`.
        lacks_texts: whether rows have none, which must go first.
        words: overrides that it carries too: the encoder, where things lie.
    """
    line = [f"{COMMAND} task=cluster method=sbert_words dataset=csv dataset.train={quoted_word(file)}"]
    line += [] if text_column == "text" else [f"dataset.text_column={quoted_word(text_column)}"]
    first = ONCE_DELETED if lacks_texts else ""
    line += [*reading_words(typed, "dataset."), "method.num_clusters=auto", *([shell_line(words)] if words else [])]
    return f"topics of the texts{first}: {' '.join(line)}"
