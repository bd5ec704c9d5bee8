"""A test text among its nearest training rows, by the number of labels that they share (kNN-MLTC, Fig. 3).

    python -m papers.neighbour_figure FIGURE RUN [RUN …] [row=N] [neighbours=80] [paths.runs=… paths.data=… …]

One t-SNE panel a run, which was trained with retrieval=knn; without `row` the first test text that has two labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from papers.embedding_figures import coordinates, opened
from reporting.arguments import run_command, words_and_pairs
from reporting.curves import embedding_figure
from storage.errors import ReportError

TEXT = -1  # in place of a number of shared labels
NAMES = {TEXT: "the text", 0: "no label shared", 1: "one shared", 2: "two shared", 3: "three or more"}


def neighbourhood(
    query: NDArray, truth: NDArray, vectors: NDArray, labels: NDArray, k: int
) -> tuple[NDArray, NDArray[np.int64]]:
    """The query (D,) and its k nearest of the vectors (N, D), (k + 1, D), and how many labels each shares with it.

    Args:
        truth: labels of the query, (C,) of 0 and 1.
        labels: of the vectors, (N, C).
    """
    nearest = np.argsort(np.linalg.norm(vectors - query, axis=1), kind="stable")[:k]
    shared = np.minimum(labels[nearest] @ truth, 3).astype(np.int64)
    return np.vstack([query, vectors[nearest]]), np.append(TEXT, shared)


def draw(file: Path, runs: Sequence[str], row: int | None, k: int, overrides: Sequence[str] = ()) -> Path | None:
    """Write the figure; returns the SVG, None where drawing failed.

    Raises:
        ValueError: a run without a datastore, or no such row.
    """
    panels = {}
    for name in runs:
        title, rows, shared = _panel(name, row, k, overrides)
        panels[title] = coordinates(rows, "euclidean"), shared
    return embedding_figure(panels, NAMES, file)


def _panel(name: str, row: int | None, k: int, overrides: Sequence[str]) -> tuple[str, NDArray, NDArray]:
    from datamodules.labels import label_array
    from engine.finished import load_module
    from engine.retrieval import open_datastore
    from tasks.predict import Encoded

    run, plan = opened(name, overrides)
    store, corpus = open_datastore(run, plan), plan.corpus()
    table = corpus.table("test")
    labels = label_array(table, len(corpus.label_names))
    labels = labels if labels.ndim == 2 else np.eye(len(corpus.label_names), dtype=np.uint8)[labels]
    several = np.flatnonzero(labels.sum(axis=1) > 1)
    row = row if row is not None else int(several[0]) if len(several) else 0
    if not 0 <= row < len(labels):
        raise ValueError(f"row: found {row}, allowed: 0 to {len(labels) - 1}, a test row")
    module, _ = load_module(run, plan)
    embedding = Encoded(module, plan)([table["text"][row].as_py()])[1][0]
    vectors, classes = np.concatenate(store.vectors()), store.labels(np.arange(len(store)))
    title = f"{plan.plain['method']['name']}, test row {row}"
    return title, *neighbourhood(embedding, labels[row], vectors, classes, k)


def main(arguments: Sequence[str]) -> None:
    (folder, *runs), pairs = words_and_pairs(arguments)
    options = dict(pair.split("=", 1) for pair in pairs if not pair.startswith("paths."))
    if not runs or set(options) - {"row", "neighbours"}:
        raise ReportError("allowed: FOLDER, one or more runs, row=…, neighbours=…, paths.NAME=…")
    row = _whole(options, "row", 0) if "row" in options else None
    k = _whole(options, "neighbours", 1) if "neighbours" in options else 80
    paths = [pair for pair in pairs if pair.startswith("paths.")]
    print(draw(Path(folder), runs, row, k, paths))


def _whole(options: Mapping[str, str], key: str, least: int) -> int:
    if not options[key].isdecimal() or int(options[key]) < least:
        raise ReportError(f"{key}={options[key]}: allowed: a whole number, {least} or more")
    return int(options[key])


if __name__ == "__main__":
    run_command(main, __doc__)
