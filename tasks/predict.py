"""Predict new texts with a finished run."""

from __future__ import annotations

import csv
import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from omegaconf import DictConfig

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
    rows = _read(config.input, config.text_column)
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
        texts = [str(row[text_column]) for row in rows]
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


def _read(name: str, text_column: str) -> Iterator[Row]:
    if name == "-":
        yield from _rows(sys.stdin, "stdin", False, text_column)
        return
    if not Path(name).is_file():
        raise ValueError(f"input: no file {name!r}")
    with open(name, encoding="utf-8-sig", newline="") as stream:
        yield from _rows(stream, name, name.endswith((".jsonl", ".json")), text_column)


def _rows(stream: IO[str], name: str, as_json: bool, text_column: str) -> Iterator[Row]:
    reader = csv.DictReader(stream) if not as_json else None
    found = False
    for number, row in enumerate(reader if reader is not None else map(_object, stream), start=1):
        line = reader.line_num if reader is not None else number
        if row is None or text_column not in row:
            columns = ", ".join(map(str, row)) if row else "no JSON object"
            raise ValueError(f"{name}:{line}: no column {text_column!r}; found {columns}; set text_column=NAME")
        if not str(row[text_column] or "").strip():
            raise ValueError(f"{name}:{line}: empty text")
        found = True
        yield row
    if not found:
        raise ValueError(f"{name}: no rows")


def _object(line: str) -> Row | None:
    try:
        value = json.loads(line)
    except json.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _write(name: str, rows: Iterator[Row]) -> None:
    if name == "-":
        _write_csv(sys.stdout, rows)
        return
    with replacing(Path(name)) as binary:
        import io

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
