"""Predict new texts with a finished run."""

from __future__ import annotations

import csv
import io
import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from omegaconf import DictConfig

from callbacks.predictions import dumped, labels_above
from datamodules.builders.user_files import MAX_FIELD, decoded_lines, file_lines
from datamodules.datamodule import predict_loader
from engine.assign import Assigner
from engine.finished import load_module, open_run
from engine.plan import Plan
from engine.retrieval import chosen_vote, open_datastore, retrieval_of
from engine.trainer import resolve_precision
from lightning_modules.base import ClassifierModule
from storage.files import replacing
from storage.run_store import RunFolder

PIECE = 8192  # rows held in memory at a time
Row = dict[str, Any]
Floats = NDArray[np.floating]


def predict(config: DictConfig, overrides: list[str]) -> Path:
    """Write `input` with two more columns, `prediction` and `probability`, to `output`; row order is kept.

    Of a clustering they are `cluster`, and `probability` or, for k-means, `distance` to the centre.
    Where texts have several labels both are lists, in CSV as JSON: the labels above the run's threshold, and the
    probability of each.

    A run with retrieval lets the neighbours vote, with its datastore as it is now. `explain=true` adds the column
    `neighbours`, JSON: of each that voted, the nearest first, `text`, `labels`, `distance` and `weight`.

    Raises:
        ValueError: input or output missing, no text column, an empty text, a column with the name of one that is
            written; the line names file and line. With retrieval a datastore that is missing, damaged or of another
            model; `explain` without retrieval.
    """
    if config.input is None or config.output is None:
        raise ValueError("input, output: task=predict needs both, files (.csv, .jsonl) or - for stdin and stdout")
    run, plan = open_run(config, clusters_too=True)
    if plan.config.trainer.num_threads:
        torch.set_num_threads(plan.config.trainer.num_threads)
    if plan.serves == "clustering" and config.explain:
        raise ValueError("explain: found true, allowed with a clustering: false; no neighbour votes there")
    predictor = Assigner(run, plan) if plan.serves == "clustering" else _of_classifier(run, plan, config.explain)
    rows = read_rows(config.input, config.text_column, getattr(plan.dataset, "delimiter", None))
    rows = _without(predictor.columns, rows)
    predicted = (row for piece in pieces(row for _, row in rows) for row in predictor(piece, config.text_column))
    _write(config.output, predicted)
    return run.path


def _without(columns: Sequence[str], rows: Iterable[tuple[str, Row]]) -> Iterator[tuple[str, Row]]:
    for where, row in rows:
        if taken := [name for name in columns if name in row]:
            raise ValueError(f"{where}: column {taken[0]!r} would be overwritten; allowed: another name for it")
        yield where, row


def _of_classifier(run: RunFolder, plan: Plan, explain: bool) -> _Predictor:
    module, label_names = load_module(run, plan)
    neighbours = _Neighbours(run, plan, explain) if plan.config.get("retrieval") or explain else None
    threshold = run.read_metrics().get("threshold" if neighbours is None else "retrieval/threshold")
    return _Predictor(module, plan, label_names, threshold, neighbours)


class _Neighbours:
    """The datastore of a run, its index, and the vote that the run chose."""

    def __init__(self, run: RunFolder, plan: Plan, explain: bool) -> None:
        self.store = open_datastore(run, plan)
        self.index = retrieval_of(plan).open_index(self.store, plan.config.seed)
        self.vote = chosen_vote(run.read_metrics())
        self.texts = self.store.texts() if explain else None

    def __call__(self, embeddings: Floats, of_model: Floats) -> tuple[Floats, list[Row]]:
        """Final scores (N, C), and what else to write of each row."""
        distances, positions = self.index.search(embeddings, min(self.vote.num_neighbours, len(self.store)))
        scores = self.vote.mixed(self.vote.scores(self.store, distances, positions), of_model)
        weights = self.vote.weights(distances)
        if self.texts is None:
            return scores, [{} for _ in scores]
        return scores, [{"neighbours": self._voters(*row)} for row in zip(positions, distances, weights, strict=True)]

    def _voters(self, positions: NDArray[np.int64], distances: Floats, weights: Floats) -> list[Row]:
        names, labels = self.store.header["label_names"], self.store.labels(positions)
        return [
            {
                "text": self.texts[position],
                "labels": [names[label] for label in np.flatnonzero(row)],
                "distance": round(float(distance), 6),
                "weight": round(float(weight), 6),
            }
            for position, row, distance, weight in zip(positions, labels, distances, weights, strict=True)
            if position >= 0
        ]

    @property
    def columns(self) -> tuple[str, ...]:
        return () if self.texts is None else ("neighbours",)


class Encoded:
    """Logits (N, C) and embeddings (N, D) of new texts, by the module of a finished run."""

    def __init__(self, module: ClassifierModule, plan: Plan) -> None:
        self.module = module
        self.tokenizer, self.max_length = plan.encoder.tokenizer(), plan.dataset.max_length
        self.sampler = plan.sampler()
        self.bf16 = resolve_precision(plan.config.trainer.precision, "cpu").startswith("bf16")

    @torch.inference_mode()
    def __call__(self, texts: list[str]) -> tuple[Floats, Floats]:
        parts: dict[str, list[torch.Tensor]] = {"logits": [], "embeddings": [], "indices": []}
        for batch in predict_loader(texts, self.tokenizer, self.max_length, self.sampler):
            with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
                output = self.module(batch) | {"indices": batch["indices"]}
            for key, values in parts.items():
                values.append(output[key])
        order = torch.cat(parts["indices"]).argsort()
        return tuple(torch.cat(parts[key])[order].float().numpy() for key in ("logits", "embeddings"))


class _Predictor:
    def __init__(
        self,
        module: ClassifierModule,
        plan: Plan,
        label_names: tuple[str, ...],
        threshold: float | list[float] | None,
        neighbours: _Neighbours | None,
    ) -> None:
        self.encoded, self.label_names, self.neighbours = Encoded(module, plan), label_names, neighbours
        self.threshold = threshold  # None where texts have one label
        self.columns = ("prediction", "probability", *(neighbours.columns if neighbours else ()))

    def __call__(self, rows: list[Row], text_column: str) -> Iterator[Row]:
        logits, embeddings = self.encoded([row[text_column] for row in rows])
        scores = self.encoded.module.probabilities(torch.from_numpy(logits)).numpy()
        more: list[Row] = [{} for _ in rows]
        if self.neighbours is not None:
            scores, more = self.neighbours(embeddings, scores)
        for row, row_scores, added in zip(rows, scores, more, strict=True):
            yield row | self._found(row_scores) | added

    def _found(self, scores: Floats) -> Row:
        if self.threshold is not None:
            names, found = labels_above(self.threshold, scores.astype(np.float64), self.label_names)
            return {"prediction": names, "probability": found}
        best = int(scores.argmax())
        return {"prediction": self.label_names[best], "probability": round(float(scores[best]), 6)}


def pieces(rows: Iterable[Any]) -> Iterator[list[Any]]:
    """Lists of at most `PIECE` rows."""
    rows = iter(rows)
    while piece := list(itertools.islice(rows, PIECE)):
        yield piece


def read_rows(name: str, text_column: str, delimiter: str | None, key: str = "input") -> Iterator[tuple[str, Row]]:
    """Rows of a file (.csv, .tsv, .jsonl) or of stdin ("-", JSON Lines if it begins with a brace), each with a text.

    Yields:
        Where the row begins, "file:line", and the row.

    Raises:
        ValueError: as `predict` does.
    """
    if name == "-":
        lines = decoded_lines(sys.stdin.buffer, "stdin")
        first = next(lines, "")
        lines, suffixes = itertools.chain([first], lines), [".jsonl"] if first.lstrip().startswith("{") else []
    elif Path(name).is_file():
        lines, suffixes = file_lines(Path(name)), Path(name).suffixes
    else:
        raise ValueError(f"{key}: no file {name!r}")
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
        yield where, row
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
    writer.writerows(map(_flat, itertools.chain([first], rows)))


def _flat(row: Row) -> Row:
    """A row of CSV: what is no plain value stands there as JSON."""
    return {key: dumped(value) if isinstance(value, list) else value for key, value in row.items()}
