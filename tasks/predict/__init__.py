"""Predict new texts with a finished run."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from omegaconf import DictConfig
from torch.nn import functional

from callbacks.predictions import labels_above
from engine.assign import CLUSTERS, Assigner
from engine.finished import load_module, open_run
from engine.plan import Plan
from engine.retrieval import FOLDER, build_retrieval, chosen_vote, open_datastore
from engine.trainer import resolve_precision
from lightning_modules.base import Batch, ClassifierModule
from lightning_modules.encoders.transformer import TextEncoder
from storage.errors import short_list
from storage.files import is_stdout, is_written_through
from storage.journal import Journal, kept_answers
from storage.run_store import CHECKSUMS, REPEAT, RunFolder, damage_named
from storage.tables import (
    STDIN,
    Row,
    Table,
    check_is_other,
    check_output,
    check_replaces,
    check_source,
    checked_delimiter,
    checked_encoding,
    checked_text,
    emptying,
    format_of,
    is_blank,
    no_values,
    sheet_names,
    write_table,
)
from tasks.predict.counting import Tally, counted_rows
from tasks.sure import sure_from

PIECE = 2048  # rows held in memory, and lost by a kill, at most
ASKED = (
    *("text_column", "encoding", "delimiter", "header", "sheet"),
    *("explain", "probabilities", "sure"),
)  # change the answers
BLOCK = 64  # rows that the classifier sees at once
Floats = NDArray[np.floating]


def predict(config: DictConfig, overrides: list[str]) -> Path:
    """Write `input` with two more columns, `prediction` and `probability`, to `output`; row order is kept.

    Of a clustering they are `cluster`, `probability` or, for k-means, `distance` to the centre, and `name`.
    A model of `task=auto` adds `sure`, yes or no: whether the probability is one from which on as many answers were
    right as was asked for. With `sure=SHARE` other runs do, by their validation rows.
    Where texts have several labels both are lists, in CSV as JSON: the labels above the run's threshold, and the
    probability of each.

    `probabilities=true` adds `line`, where the row begins in its file, and `p_LABEL` for every label.

    A row with a blank text, or one of `missing` in its place, is written without an answer, and the line at the end
    says how many there were.

    Stopped or killed, the same call goes on after the rows that it has answered, and writes the same bytes; of what
    comes through a pipe or goes into one nothing is kept. Memory does not grow with the rows.

    A run with retrieval lets the neighbours vote, with its datastore as it is now. `explain=true` adds the column
    `neighbours`, JSON: of each that voted, the nearest first, `text`, `labels`, `distance` and `weight`.

    Raises:
        ValueError: input or output missing, an output that is a file of something else, no text column, a text that is
            none, a column with the name of one that is written; the line names file and line. With retrieval a
            datastore that is missing, damaged or of another model; `explain` without retrieval; `sure` where the run
            cannot tell.
    """
    if config.input is None or config.output is None:
        raise ValueError("input, output: task=predict needs both, files (.csv, .jsonl) or - for stdin and stdout")
    check_output(config.output)
    check_is_other(config.input, config.output)
    check_replaces(config.output, ("prediction", "cluster"))
    run, plan = open_run(config, clusters_too=True)
    check_source(config.input, "input", plan.dataset.takes_folders)
    if plan.plain["trainer"]["num_threads"]:
        torch.set_num_threads(plan.plain["trainer"]["num_threads"])
    if plan.serves == "clustering":
        refused = {"explain": "false; no neighbour votes there", "probabilities": "false; it has no labels",
                   "sure": "null; it has no labels"}  # fmt: skip
        for key, allowed in refused.items():
            if config[key]:
                raise ValueError(f"{key}: found {str(config[key]).lower()}, allowed with a clustering: {allowed}")
        predictor: Assigner | Predictor = Assigner(run, plan)
    else:
        predictor = classifier_predictor(run, plan, config.explain, config.probabilities, config.sure)
    config, table = read_as_learned(config, plan, "input", overrides, blank_allowed=True)
    columns = (*(["line"] if config.probabilities else []), *predictor.columns)
    with ExitStack() as stack:
        journal = None
        if config.input != STDIN and not is_stdout(config.output) and not is_written_through(config.output):
            journal = stack.enter_context(kept_answers(config.output, _question(config, run, plan)))
        count = stack.enter_context(counted_rows(config.input))
        tally = Tally()
        input_of = _input_of(plan, config)
        rows = _answered(table, columns, predictor, input_of, config.probabilities, journal, count, tally)
        write_table(config.output, rows, table.columns and (*table.columns, *columns))
    print(tally.line(), file=sys.stderr)
    return run.path


def _answered(
    table: Table,
    columns: Sequence[str],
    predictor: Assigner | Predictor,
    input_of: Callable[[Row], Any],
    with_line: bool,
    journal: Journal | None,
    count: Callable[[int], None],
    tally: Tally,
) -> Iterator[Row]:
    """The rows of the table with their answers."""
    for piece in pieces(_refuse_columns(columns, table)):
        inputs = [input_of(row) for _, row in piece]
        answers, kept = _piece_answers(predictor, [text for text in inputs if not is_blank(text)], journal)
        tally.add(answers, kept, blank=len(piece) - len(answers))
        count(len(piece))
        of_texts = iter(answers)
        for (where, row), text in zip(piece, inputs, strict=True):
            answer = dict.fromkeys(predictor.columns) if is_blank(text) else next(of_texts)
            yield row | ({"line": line_of(where)} if with_line else {}) | answer


def _input_of(plan: Plan, config: DictConfig) -> Callable[[Row], Any]:
    """Gives the input of a row, whose cells of `missing` count as empty, and stay in the row that is written."""
    emptied = emptying(config.missing or ())
    return lambda row: plan.dataset.input_of(emptied(row), config.text_column)


def _piece_answers(
    predictor: Assigner | Predictor, texts: list[str], journal: Journal | None
) -> tuple[list[Row], bool]:
    def compute() -> list[Row]:
        return predictor.answers(texts) if texts else []

    return (compute(), False) if journal is None else journal.answers(compute)


def _question(config: DictConfig, run: RunFolder, plan: Plan) -> dict[str, Any]:
    """What the answers follow from, as plain JSON: other weights, neighbours or rows have other ones."""
    facts = os.stat(config.input)
    files = [run.path / CHECKSUMS, run.path / CLUSTERS, *sorted((run.path / FOLDER).glob("*"))]
    return {
        "run": str(run.path.resolve()),
        "files": [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files if file.exists()],
        "input": [os.path.realpath(config.input), facts.st_size, facts.st_mtime_ns],
        "asked": [config[key] for key in ASKED],
        "missing": no_values(config.missing or ()),
        "piece": PIECE,
        "threads": torch.get_num_threads(),
    }


def _refuse_columns(columns: Sequence[str], table: Table) -> Iterator[tuple[str, Row]]:
    for where, row in table.rows:
        if present := [name for name in columns if name in row]:
            where = where if table.columns is None else table.header
            raise ValueError(f"{where}: column {present[0]!r} would be overwritten; allowed: another name for it")
        yield where, row


def line_of(where: str) -> int:
    """The number in "file:line" or "file: entry N"."""
    return int(re.split(r"[: ]", where)[-1])


def classifier_predictor(
    run: RunFolder, plan: Plan, explain: bool, all_probabilities: bool = False, sure: float | None = None
) -> Predictor:
    """Gives texts their prediction, by the module of a run and, with retrieval, its neighbours; of the answers
    that are called sure the share `sure` shall be right."""
    module, label_names = load_module(run, plan)
    neighbours = _Neighbours(run, plan, explain) if plan.config.get("retrieval") or explain else None
    name = "threshold" if neighbours is None else "retrieval/threshold"
    threshold = run.metric(name, (int, float, list), (int, float)) if module.multilabel else None
    if isinstance(threshold, list) and len(threshold) != len(label_names):
        problem = f"{name}: found {len(threshold)} for {len(label_names)} labels"
        raise ValueError(f"run {run.id}: metrics.json: {problem}; {REPEAT}")
    from_there = sure_from(run, module, neighbours is not None, sure)
    return Predictor(module, plan, label_names, threshold, neighbours, from_there, all_probabilities)


class _Neighbours:
    """The datastore of a run, its index, and the vote that the run chose."""

    def __init__(self, run: RunFolder, plan: Plan, explain: bool) -> None:
        self.store = open_datastore(run, plan)
        retrieval = build_retrieval(plan)
        assert retrieval is not None  # there is a datastore
        self.index = retrieval.open_index(self.store, plan.config.seed)
        with damage_named(run):
            self.vote = chosen_vote(run.read_metrics())
        self.texts = self.store.texts() if explain else None

    def __call__(self, embeddings: Floats, model_probabilities: Floats) -> tuple[Floats, list[Row]]:
        """Final scores (N, C), and what else to write of each row."""
        distances, positions = self.index.search(embeddings, min(self.vote.num_neighbours, len(self.store)))
        scores = self.vote.mixed(self.vote.scores(self.store, distances, positions), model_probabilities)
        weights = self.vote.weights(distances)
        if (texts := self.texts) is None:
            return scores, [{} for _ in scores]
        voters = (self._voters(texts, *row) for row in zip(positions, distances, weights, strict=True))
        return scores, [{"neighbours": row} for row in voters]

    def _voters(self, texts: list[str], positions: NDArray[np.int64], distances: Floats, weights: Floats) -> list[Row]:
        names, labels = self.store.header["label_names"], self.store.labels(positions)
        return [
            {
                "text": texts[position],
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
    """Logits (N, C) and embeddings (N, D) of new inputs, by the module of a finished run.

    Args:
        module, plan: of the run.
        as_loaded: leave the module as it is, in full precision; otherwise it is changed, and can only predict.
    """

    def __init__(self, module: ClassifierModule, plan: Plan, as_loaded: bool = False) -> None:
        self.module = module
        self.is_plain = type(module).forward is ClassifierModule.forward and not module.generates
        self.packs = False
        self.plan, self.batch_size = plan, plan.sampler().eval_batch_size
        bf16 = resolve_precision(plan.plain["trainer"]["precision"], "cpu").startswith("bf16")
        self.bf16 = bf16 and not as_loaded
        if isinstance(module.encoder, TextEncoder) and self.is_plain and not as_loaded:
            module.encoder.prepare_to_predict(self.bf16)
            self.packs = module.encoder.packed is not None

    @torch.inference_mode()
    def __call__(self, inputs: list[Any]) -> tuple[Floats, Floats]:
        parts: dict[str, list[torch.Tensor]] = {"logits": [], "embeddings": [], "indices": []}
        dataset, encoder = self.plan.dataset, self.plan.encoder
        for batch in dataset.new_batches(encoder, inputs, self.batch_size, of_one_width=not self.packs):
            with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
                output = self._output(batch)
            output["indices"] = torch.as_tensor(batch["indices"])
            for key, values in parts.items():
                values.append(output[key])
        order = torch.cat(parts["indices"]).argsort()
        logits, embeddings = (torch.cat(parts[key])[order].float().numpy() for key in ("logits", "embeddings"))
        return logits, embeddings

    def _output(self, batch: Batch) -> dict[str, torch.Tensor]:
        """Of the classifier by blocks of one size: small products round otherwise for other numbers of rows."""
        if not self.is_plain:  # it may ask the transformer in a way of its own
            return self.module(batch)
        embeddings = self.module.embed(batch)
        blocks = functional.pad(embeddings, (0, 0, 0, -len(embeddings) % BLOCK)).split(BLOCK)
        logits = torch.cat([self.module.logits(block) for block in blocks])[: len(embeddings)]
        return {"embeddings": embeddings, "logits": self.module.with_others(logits, batch)}


class Predictor:
    """Texts to predictions, by the module of a finished run and, with retrieval, its neighbours."""

    def __init__(
        self,
        module: ClassifierModule,
        plan: Plan,
        label_names: tuple[str, ...],
        threshold: float | list[float] | None,
        neighbours: _Neighbours | None,
        sure_from: float | None,
        all_probabilities: bool,
    ) -> None:
        self.encoded, self.label_names, self.neighbours = Encoded(module, plan), label_names, neighbours
        self.threshold = threshold  # None where texts have one label
        self.sure_from = sure_from
        sure = () if sure_from is None else ("sure",)
        self.all_probabilities = all_probabilities
        self.probability_columns = tuple(f"p_{name}" for name in label_names)
        every_label = self.probability_columns if all_probabilities else ()
        neighbour_columns = neighbours.columns if neighbours else ()
        self.columns = ("prediction", "probability", *sure, *every_label, *neighbour_columns)

    def answers(self, texts: list[str], all_probabilities: Sequence[bool] | None = None) -> list[Row]:
        """The values of `columns` for each text; `all_probabilities`, where it is there, says of each whether it gets
        the probability of every label."""
        scores, explanations = self.scores(texts)
        wanted = [self.all_probabilities] * len(texts) if all_probabilities is None else all_probabilities
        return [
            self.prediction(row) | (self._all(row) if gets_all else {}) | explanation
            for row, explanation, gets_all in zip(scores, explanations, wanted, strict=True)
        ]

    def scores(self, texts: list[str]) -> tuple[Floats, list[Row]]:
        """Probabilities (N, C) in the order of `label_names`, and what else there is to say of each text."""
        logits, embeddings = self.encoded(texts)
        scores = self.encoded.module.probabilities(torch.from_numpy(logits)).numpy()
        if self.neighbours is None:
            return scores, [{} for _ in texts]
        return self.neighbours(embeddings, scores)

    def _all(self, scores: Floats) -> Row:
        return dict(zip(self.probability_columns, scores.astype(np.float64).round(6).tolist(), strict=True))

    def prediction(self, scores: Floats) -> Row:
        """What is answered where the labels have these scores (C,)."""
        if self.threshold is not None:
            names, probabilities = labels_above(self.threshold, scores.astype(np.float64), self.label_names)
            answer: Row = {"prediction": names, "probability": probabilities}
            sure = np.where(scores > self.threshold, scores, 1 - scores).min()  # as its least sure label
        else:
            best = int(scores.argmax())
            answer = {"prediction": self.label_names[best], "probability": round(float(scores[best]), 6)}
            sure = scores[best]
        return answer if self.sure_from is None else answer | {"sure": "yes" if sure >= self.sure_from else "no"}


def pieces(rows: Iterable[Any]) -> Iterator[list[Any]]:
    """Lists of at most `PIECE` rows."""
    rows = iter(rows)
    while piece := list(itertools.islice(rows, PIECE)):
        yield piece


def read_as_learned(
    config: DictConfig,
    plan: Plan,
    key: str,
    overrides: Sequence[str],
    kinds: Sequence[str] = ("text",),
    blank_allowed: bool = False,
) -> tuple[DictConfig, Table]:
    """The table of `read_rows`, with those columns that the run learned from that nobody typed and that the table has,
    and likewise the sheet that was named; and without a header where the run learned from a table without one. The
    config says which they are.
    """
    name, typed = config[key], {word.lstrip("+~").partition("=")[0] for word in overrides}
    own_config = config.copy()
    if not (plan.dataset.learned_header or "header" in typed):
        own_config.header = None
    sheet = plan.dataset.learned_sheet if "sheet" not in typed and format_of(name) == "xlsx" else None
    if sheet is not None and os.path.isfile(name) and sheet in sheet_names(name):
        own_config.sheet = sheet
        print(f"{name}: sheet={sheet}, as the run learned from", file=sys.stderr)
    if "missing" not in typed and plan.dataset.learned_missing:
        own_config.missing = list(plan.dataset.learned_missing)
        cells = "cells" if "label" in kinds else "texts"
        print(f"{name}: {cells} of {short_list(own_config.missing)} are empty, as the run learned", file=sys.stderr)
    untyped = [kind for kind in kinds if f"{kind}_column" not in typed]
    table = read_rows(own_config, plan, key, blank_allowed, untyped, keeps_cells="label" not in kinds)
    if own_config.header is None and not table.has_header:
        hint = "header=true: its first row is one"
        print(f"{table.name}: header=false, as the run learned from; {hint}", file=sys.stderr)
    own_config.header = table.has_header
    for option, own in ((f"{kind}_column", own) for kind, own in table.own_columns.items()):
        if own != config[option]:
            own_config[option] = own
            print(f"{table.name}: {option}={own}, as the run learned from", file=sys.stderr)
    if "label" in kinds:
        input_of = partial(plan.dataset.input_of, column=own_config.text_column)
        is_left_out = (lambda row: is_blank(input_of(row))) if blank_allowed else (lambda row: False)
        table = table.with_labels(own_config.label_column, "set label_column=NAME", is_left_out)
    return own_config, table


def read_rows(
    config: DictConfig,
    plan: Plan,
    key: str,
    blank_allowed: bool = False,
    untyped: Sequence[str] = (),
    keeps_cells: bool = False,
) -> Table:
    """The table that `config[key]` names, opened as training opens its own; every row has an input, or where that is
    allowed a blank text. Of the columns `untyped`, "text" or "label", the run's own are read where they are there.
    Cells of `missing` are empty, unless the table `keeps_cells` as they are.

    Raises:
        ValueError: as `predict` does.
    """
    name = config[key]
    check_source(name, key, plan.dataset.takes_folders)
    encoding = checked_encoding(config.get("encoding"), "encoding")
    delimiter = checked_delimiter(config.get("delimiter"), "delimiter")
    sheet = config.get("sheet")
    table = plan.dataset.open_inputs(name, config.text_column, encoding, config.header, delimiter, sheet, untyped)
    table.refuse_idle(delimiter, sheet)
    table = table if keeps_cells else table.without(config.get("missing") or (), Counter())
    if blank_allowed:
        return table
    input_of = partial(plan.dataset.input_of, column=table.own_columns.get("text", config.text_column))
    return replace(table, rows=_with_inputs(table.rows, input_of))


def _with_inputs(rows: Iterable[tuple[str, Row]], input_of: Callable[[Row], Any]) -> Iterator[tuple[str, Row]]:
    for where, row in rows:
        if is_blank(text := input_of(row)):
            checked_text(text, where)
        yield where, row
