"""Predict new texts with a finished run."""

from __future__ import annotations

import csv
import io
import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from omegaconf import DictConfig

from datamodules.builders.user_files import MAX_FIELD, decoded_lines, file_lines
from datamodules.datamodule import predict_loader
from lightning_modules.base import ClassifierModule
from reporting.run_store import replacing
from tasks.finished import load_module, open_run
from tasks.trainer import resolve_precision

PIECE = 8192  # rows held in memory at a time
Row = dict[str, Any]


def predict(config: DictConfig, overrides: list[str]) -> Path:
    """Write `input` with two more columns, `prediction` and `probability`, to `output`; row order is kept.

    Raises:
        ValueError: input or output missing, no text column, an empty text; the line names file and line.
    """
    if config.input is None or config.output is None:
        raise ValueError("input, output: task=predict needs both, files (.csv, .jsonl) or - for stdin and stdout")
    run, plan = open_run(config)
    if plan.config.trainer.num_threads:
        torch.set_num_threads(plan.config.trainer.num_threads)
    module, label_names = load_module(run, plan)
    predictor = _Predictor(module, plan, label_names)
    rows = _read(config.input, config.text_column, getattr(plan.dataset, "delimiter", None))
    predicted = (row for piece in _pieces(rows) for row in predictor(piece, config.text_column))
    _write(config.output, predicted)
    return run.path


class _Predictor:
    def __init__(self, module: ClassifierModule, plan: Any, label_names: tuple[str, ...]) -> None:
        self.module, self.label_names = module, label_names
        self.tokenizer, self.max_length = plan.encoder.tokenizer(), plan.dataset.max_length
        self.sampler = plan.sampler()
        self.bf16 = resolve_precision(plan.config.trainer.precision, "cpu").startswith("bf16")

    @torch.inference_mode()
    def __call__(self, rows: list[Row], text_column: str) -> Iterator[Row]:
        logits = np.empty((len(rows), len(self.label_names)), dtype=np.float32)
        texts = [row[text_column] for row in rows]
        for batch in predict_loader(texts, self.tokenizer, self.max_length, self.sampler):
            with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
                logits[batch["indices"].numpy()] = self.module(batch)["logits"].numpy()
        probabilities = torch.from_numpy(logits).softmax(-1).numpy()
        for row, row_probabilities in zip(rows, probabilities, strict=True):
            best = int(row_probabilities.argmax())
            yield row | {"prediction": self.label_names[best], "probability": round(float(row_probabilities[best]), 6)}


def _pieces(rows: Iterable[Row]) -> Iterator[list[Row]]:
    rows = iter(rows)
    while piece := list(itertools.islice(rows, PIECE)):
        yield piece


def _read(name: str, text_column: str, delimiter: str | None) -> Iterator[Row]:
    if name == "-":
        lines, suffixes = decoded_lines(sys.stdin.buffer, "stdin"), []
    elif Path(name).is_file():
        lines, suffixes = file_lines(Path(name)), Path(name).suffixes
    else:
        raise ValueError(f"input: no file {name!r}")
    if {".jsonl", ".json"} & set(suffixes):
        rows = _objects(lines, name)
    else:
        rows = _table(lines, name, delimiter or ("\t" if ".tsv" in suffixes else ","))
    found = False
    for where, row in rows:
        if text_column not in row:
            raise ValueError(f"{where}: no column {text_column!r}; found {', '.join(row)}; set text_column=NAME")
        if not isinstance(row[text_column], str) or not row[text_column].strip():
            raise ValueError(f"{where}: found {row[text_column]!r}; allowed: a text with a visible character")
        found = True
        yield row
    if not found:
        raise ValueError(f"{name}: no rows")


def _table(lines: Iterator[str], name: str, delimiter: str) -> Iterator[tuple[str, Row]]:
    """Rows of CSV with a header line, each with the file and line where it begins."""
    csv.field_size_limit(MAX_FIELD)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    line = 1
    try:
        header = next(reader, [])
        line = reader.line_num + 1
        for fields in reader:
            if fields and len(fields) != len(header):
                raise ValueError(f"{name}:{line}: {len(fields)} fields; allowed: {len(header)} as in the header")
            if fields:
                yield f"{name}:{line}", dict(zip(header, fields, strict=True))
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{name}:{line}: not CSV ({error})") from error


def _objects(lines: Iterator[str], name: str) -> Iterator[tuple[str, Row]]:
    """One JSON object a line, each with its file and line."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{name}:{number}: not JSON ({error.msg} at column {error.colno})") from error
        if not isinstance(row, dict):
            raise ValueError(f"{name}:{number}: found a {type(row).__name__}; allowed: one JSON object a line")
        yield f"{name}:{number}", row


def _write(name: str, rows: Iterator[Row]) -> None:
    if name == "-":
        _write_csv(sys.stdout, rows)
        return
    with replacing(Path(name)) as binary:
        stream = io.TextIOWrapper(binary, encoding="utf-8", newline="", write_through=True)
        if name.endswith(".jsonl"):
            for row in rows:
                stream.write(json.dumps(row, ensure_ascii=False) + "\n")
        else:
            _write_csv(stream, rows)
        stream.detach()


def _write_csv(stream: IO[str], rows: Iterator[Row]) -> None:
    first = next(rows)
    writer = csv.DictWriter(stream, fieldnames=list(first), lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(itertools.chain([first], rows))
