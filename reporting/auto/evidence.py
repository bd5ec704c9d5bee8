"""What a folder of `task=auto` holds when there is something to report, read once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from reporting.auto.ranking import OutOfFold
from storage.run_store import DATA, RunFolder
from storage.tables import folded

OWN_TEST = "own_test.json"  # in the folder of the model


@dataclass(frozen=True)
class Evidence:
    """The question, the data, the candidates and what they predicted.

    Attributes:
        question: `question.json`: minutes, used_minutes, precision, prefer, seed.
        data: `data.json`.
        candidates: `candidates.json`, in the order in which they were tried.
        rows: `rows.parquet`: row, file, line, text, label (its name, or a JSON list of names), one a labelled row, by
            row.
        out_of_fold: by candidate, those that finished; rows of equal texts, as folds have them, are groups.
        curve: `learning_curve.csv`; empty where there is none.
        embeddings: (N, D) float32 of unit length, zeros of texts that are read in part, or None.
        own_test: figures of `model/` on a test file of the person's own, or None.
    """

    question: dict[str, Any]
    data: dict[str, Any]
    candidates: list[dict[str, Any]]
    rows: pd.DataFrame
    out_of_fold: dict[str, OutOfFold]
    curve: pd.DataFrame
    embeddings: NDArray[np.float32] | None
    own_test: dict[str, Any] | None = None

    @property
    def seed(self) -> int:
        return int(self.question.get("seed") or 0)

    @property
    def several(self) -> bool:
        """Whether texts have any number of labels."""
        return bool(self.data.get("several_labels"))

    @cached_property
    def labels(self) -> list[str]:
        """Names as they stand in the file, by class index."""
        return [str(entry["label"]) for entry in self.data["classes"]]

    @property
    def before_line(self) -> str:
        """What stands between the file of a row and its line: an array of JSON has entries in place of lines."""
        return ": entry " if self.data["files"][0].get("entries") else ":"

    def title(self, candidate: str) -> str:
        """What a candidate is, in words."""
        return next(entry["title"] for entry in self.candidates if entry["candidate"] == candidate)


def names_of(labels: Iterable[str]) -> str:
    """The labels of a text as a cell of CSV: a JSON list."""
    return json.dumps(sorted(labels), ensure_ascii=False)


def read_evidence(folder: Path | str) -> Evidence:
    """Raises ReportError where a file cannot be read."""
    run, path = RunFolder(folder), Path(folder)
    candidates = run.read_json("candidates.json")
    predicted = {entry["candidate"]: path / "out_of_fold" / f"{entry['candidate']}.parquet" for entry in candidates}
    finished = [entry["candidate"] for entry in candidates if entry["status"] == "finished"]
    rows, curve, embeddings = path / "rows.parquet", path / "learning_curve.csv", path / "embeddings.npy"
    table, texts = pd.DataFrame(columns=["row", "file", "line", "text", "label"]), None
    if rows.exists():
        table = pd.read_parquet(rows).sort_values("row", ignore_index=True)
        table["label"] = [label if isinstance(label, str) else names_of(label) for label in table["label"]]
        texts = pd.Series(pd.factorize(table["text"].map(folded))[0], index=table["row"])
    return Evidence(
        question=run.read_json("question.json") if run.has("question.json") else {},
        data=run.read_json(DATA),
        candidates=candidates,
        rows=table,
        out_of_fold={
            name: OutOfFold.of(pd.read_parquet(predicted[name]), texts) for name in finished if predicted[name].exists()
        },
        curve=pd.read_csv(curve) if curve.exists() else pd.DataFrame(),
        embeddings=np.load(embeddings) if embeddings.exists() else None,
        own_test=model.read_json(OWN_TEST) if (model := RunFolder(path / "model")).has(OWN_TEST) else None,
    )
